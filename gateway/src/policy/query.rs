//! Query keys of a grant: the only ones that a query may have. Values are free.

use std::borrow::Cow;

use super::escapes::{Piece, pieces};
use super::mcp::Glob;

/// Keys as they are meant, without escapes; `*` stands for any characters. None at all lets no query through.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueryKeys(Vec<(String, Glob)>);

/// Why a query is not meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stray<'a> {
    Key(Cow<'a, str>),
    /// Some servers begin another parameter behind it, and others do not.
    Semicolon,
}

impl QueryKeys {
    /// One more key.
    ///
    /// # Errors
    /// What it must look like.
    pub fn add(&mut self, key: &str) -> Result<(), &'static str> {
        let fault = "a key of a query is 1 to 128 visible characters as they are meant, without escapes and none of & = ; + # %, with `*` for any";
        if key.contains(['&', '=', ';', '+', '#', '%']) {
            return Err(fault);
        }
        self.0.push((key.to_owned(), Glob::parse(key).map_err(|_| fault)?));
        Ok(())
    }

    /// As they were written.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// The first part of a query that is not meant.
    #[must_use]
    pub fn stray<'a>(&self, query: Option<&'a str>) -> Option<Stray<'a>> {
        self.strays(query).next()
    }

    /// All of them.
    pub fn strays<'a>(&self, query: Option<&'a str>) -> impl Iterator<Item = Stray<'a>> {
        parameters(query).filter_map(|parameter| {
            if parameter.contains(';') {
                return Some(Stray::Semicolon);
            }
            let key = parameter.split('=').next().unwrap_or_default();
            match decoded(key) {
                Some(key) if self.0.iter().any(|(_, glob)| glob.matches(&key)) => None,
                Some(key) => Some(Stray::Key(key)),
                None => Some(Stray::Key(key.into())),
            }
        })
    }
}

impl QueryKeys {
    /// Whether a query could have one of them, to some server: for a denial, whose keys are in lower case.
    #[must_use]
    pub fn may_be_in(&self, query: Option<&str>) -> bool {
        parameters(query).any(|parameter| {
            parameter.contains(';') || self.may_be(parameter.split('=').next().unwrap_or_default().to_ascii_lowercase())
        })
    }

    /// A key, or the name of the list that it is an item of (`key[]`), in all that its escapes could mean.
    fn may_be(&self, mut key: String) -> bool {
        for _ in 0..DEEPEST {
            let name = key.trim();
            let list = name.split('[').next().unwrap_or_default();
            if self.0.iter().any(|(_, glob)| glob.matches(name) || glob.matches(list)) {
                return true;
            }
            // What is malformed could be anything.
            let Some(next) = decoded(&key).map(|next| next.to_ascii_lowercase()) else { return true };
            if next == key {
                return false;
            }
            key = next;
        }
        true
    }
}

/// What stands between `&`, nothing left out.
fn parameters(query: Option<&str>) -> impl Iterator<Item = &str> {
    query.unwrap_or_default().split('&').filter(|parameter| !parameter.is_empty())
}

/// A key as it is meant (WHATWG URL, application/x-www-form-urlencoded). What looks escaped still is a key of its own.
fn decoded(key: &str) -> Option<Cow<'_, str>> {
    if !key.contains(['%', '+']) {
        return Some(key.into());
    }
    let mut bytes = Vec::with_capacity(key.len());
    for piece in pieces(key) {
        match piece {
            Piece::Plain(b'+') => bytes.push(b' '),
            Piece::Plain(byte) | Piece::Escaped(byte) => bytes.push(byte),
            Piece::Stray => return None,
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// So many times over a key is taken apart.
const DEEPEST: usize = 8;

#[cfg(test)]
mod tests {
    use super::{QueryKeys, Stray};

    fn keys(texts: &[&str]) -> QueryKeys {
        let mut keys = QueryKeys::default();
        texts.iter().for_each(|text| keys.add(text).expect("a key"));
        keys
    }

    #[test]
    fn only_the_named_keys_pass_in_any_spelling_of_theirs() {
        let few = keys(&["page", "per_page", "filter[*]"]);
        for query in [
            "",
            "page=1",
            "page",
            "page=1&per_page=2&page=3",
            "p%61ge=1",
            "filter%5Bstate%5D=open",
            "filter[a]=x",
            "page=a%3Bb%26c",
            "&&page=1&",
            "page=a=b",
        ] {
            assert_eq!(few.stray(Some(query)), None, "{query}");
        }
        for (query, stray) in [
            ("admin=1", "admin"),
            ("page=1&admin", "admin"),
            ("Page=1", "Page"),
            ("page%20=1", "page "),
            ("+page=1", " page"),
            ("p%2561ge=1", "p%61ge"),
            ("page[]=1", "page[]"),
            ("page%00=1", "page\0"),
            ("page%=1", "page%"),
            ("%ff=1", "%ff"),
            ("=1", ""),
            ("page%26admin=1", "page&admin"),
        ] {
            assert_eq!(few.stray(Some(query)), Some(Stray::Key(stray.into())), "{query}");
        }
        for query in ["page=1;admin=1", "page;admin=1", "page=1&;"] {
            assert_eq!(few.stray(Some(query)), Some(Stray::Semicolon), "{query}");
        }
        assert_eq!(few.strays(Some("a=1&page=2&b")).count(), 2);
    }

    #[test]
    fn no_key_at_all_lets_no_query_through() {
        assert_eq!(keys(&[]).stray(None), None);
        assert_eq!(keys(&[]).stray(Some("")), None);
        assert!(keys(&[]).stray(Some("a")).is_some());
        assert_eq!(keys(&["*"]).stray(Some("a&b=1")), None);
    }

    #[test]
    fn a_denied_key_is_found_in_every_spelling() {
        let denied = keys(&["delete", "force*"]);
        for query in [
            "delete",
            "a=1&Delete=1",
            "d%65lete",
            "d%2565lete=1",
            "delete[]=1",
            "delete%5Bx%5D=1",
            "+delete=1",
            "a=1;b",
            "forced=1",
            "a%=1",
            "%20DELETE",
        ] {
            assert!(denied.may_be_in(Some(query)), "{query}");
        }
        for query in ["", "a=delete", "undelete=1", "deleted=1", "a=100%25"] {
            assert!(!denied.may_be_in(Some(query)), "{query}");
        }
        assert!(!denied.may_be_in(None));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "a b", "a=b", "a&b", "a;b", "%61", "a+b", "é"] {
            assert!(QueryKeys::default().add(text).is_err(), "{text}");
        }
    }
}
