//! Reads one table of the file key by key; what was never asked for is unknown, and a fault.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::faults::{Faults, Span};

/// A value and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// A table being read.
pub(super) struct Section<'t> {
    /// As it is written in the file: `[[grant]]`.
    name: &'static str,
    table: &'t DeTable<'t>,
    span: Span,
    asked: Vec<&'static str>,
}

impl<'t> Section<'t> {
    pub(super) const fn new(name: &'static str, table: &'t DeTable<'t>, span: Span) -> Self {
        Self { name, table, span, asked: Vec::new() }
    }

    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// One of these keys must be there, whatever it holds; what it holds is read apart.
    pub(super) fn need(&self, keys: &[&str], faults: &mut Faults) {
        if !keys.iter().any(|key| self.table.contains_key(*key)) {
            let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
            faults.add(self.span(), format!("{} needs {}", self.name, keys.join(" or ")));
        }
    }

    pub(super) fn text(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<String>> {
        let value = self.ask(key)?;
        let text = value.get_ref().as_str().map(str::to_owned);
        self.typed(key, value, text, "a text", faults)
    }

    pub(super) fn flag(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<bool>> {
        let value = self.ask(key)?;
        self.typed(key, value, value.get_ref().as_bool(), "true or false", faults)
    }

    pub(super) fn number(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<u64>> {
        let value = self.ask(key)?;
        self.typed(key, value, as_number(value.get_ref()), "a whole number, not negative", faults)
    }

    /// One text or a list of them.
    pub(super) fn texts(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<Vec<At<String>>>> {
        self.several(key, "a text or a list of texts", |value| value.as_str().map(str::to_owned), faults)
    }

    /// The same where a list of none says something too.
    pub(super) fn texts_or_none(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<Vec<At<String>>>> {
        match self.table.get(key) {
            Some(value) if value.get_ref().as_array().is_some_and(|list| list.is_empty()) => {
                self.asked.push(key);
                Some(At { value: Vec::new(), span: value.span() })
            }
            Some(_) | None => self.texts(key, faults),
        }
    }

    /// One number or a list of them.
    pub(super) fn numbers(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<Vec<At<u64>>>> {
        self.several(key, "a whole number or a list of them", as_number, faults)
    }

    /// A table of its own: `[ledger]`.
    pub(super) fn section(&mut self, key: &'static str, name: &'static str, faults: &mut Faults) -> Option<Self> {
        let value = self.ask(key)?;
        let table = self.typed(key, value, value.get_ref().as_table(), "a table", faults)?;
        Some(Self::new(name, table.value, table.span))
    }

    /// A list of tables: `[[box]]`.
    pub(super) fn sections(&mut self, key: &'static str, name: &'static str, faults: &mut Faults) -> Vec<Self> {
        let Some(value) = self.ask(key) else { return Vec::new() };
        let what = "a list of tables, written [[…]]";
        let Some(list) = self.typed(key, value, value.get_ref().as_array(), what, faults) else { return Vec::new() };
        let mut sections = Vec::new();
        for item in list.value {
            if let Some(table) = self.typed(key, item, item.get_ref().as_table(), what, faults) {
                sections.push(Self::new(name, table.value, table.span));
            }
        }
        sections
    }

    /// Every key that was never asked for is a fault, told with the known key that it resembles.
    pub(super) fn finish(self, faults: &mut Faults) {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let near = self.asked.iter().find(|known| is_near(name, known));
            let hint = near.map_or_else(
                || format!("known are {}", self.asked.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            faults.add(key.span(), format!("unknown key `{name}` in {}: {hint}", self.name));
        }
    }

    fn ask(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.asked.push(key);
        self.table.get(key)
    }

    fn typed<T>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        read: Option<T>,
        what: &str,
        faults: &mut Faults,
    ) -> Option<At<T>> {
        if read.is_none() {
            faults.add(
                value.span(),
                format!("`{key}` in {} must be {what}, and is {}", self.name, kind(value.get_ref())),
            );
        }
        read.map(|read| At { value: read, span: value.span() })
    }

    fn several<T>(
        &mut self,
        key: &'static str,
        what: &str,
        read: impl Fn(&DeValue<'_>) -> Option<T>,
        faults: &mut Faults,
    ) -> Option<At<Vec<At<T>>>> {
        let value = self.ask(key)?;
        let Some(list) = value.get_ref().as_array() else {
            let one = self.typed(key, value, read(value.get_ref()), what, faults)?;
            return Some(At { value: vec![one], span: value.span() });
        };
        if list.is_empty() {
            faults.add(
                value.span(),
                format!(
                    "`{key}` in {} is an empty list, which would match nothing: leave it out, or fill it",
                    self.name
                ),
            );
            return None;
        }
        let items = list.iter().filter_map(|item| self.typed(key, item, read(item.get_ref()), what, faults)).collect();
        Some(At { value: items, span: value.span() })
    }
}

fn as_number(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn kind(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(_) => "a text".to_owned(),
        DeValue::Integer(number) => format!("the number {}", number.as_str()),
        DeValue::Float(_) => "a fraction".to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// At most two letters changed, added or left out; short words one.
fn is_near(given: &str, known: &str) -> bool {
    let allowed = if known.len() <= 4 { 1 } else { 2 };
    given.len().abs_diff(known.len()) <= allowed && distance(given.as_bytes(), known.as_bytes()) <= allowed
}

fn distance(given: &[u8], known: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (at, one) in given.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in known.iter().enumerate() {
            let changed = diagonal + usize::from(one != other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[known.len()]
}
