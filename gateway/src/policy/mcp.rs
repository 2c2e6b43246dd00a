//! MCP: which methods and tools of a server (Model Context Protocol, JSON-RPC 2.0) a grant lets a box call.

/// What a grant says of the messages that go through it. All must be such messages then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mcp {
    /// `None`: any.
    pub methods: Option<Vec<Glob>>,
    /// Of `tools/call`; `None`: any.
    pub tools: Option<Vec<Glob>>,
}

/// A name in which `*` stands for any characters, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Glob(String);

impl Mcp {
    #[must_use]
    pub fn lets_method(&self, method: &str) -> bool {
        self.methods.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.matches(method)))
    }

    #[must_use]
    pub fn lets_tool(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.matches(tool)))
    }
}

impl Glob {
    /// # Errors
    /// What it must look like.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        if (1..=LONGEST).contains(&text.len()) && is_plain {
            return Ok(Self(text.to_owned()));
        }
        Err("a name of MCP is 1 to 128 visible characters, with `*` for any")
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut left) = name.strip_prefix(first) else { return false };
        let Some(last) = pieces.next_back() else { return left.is_empty() };
        for piece in pieces {
            match left.find(piece) {
                Some(at) => left = &left[at + piece.len()..],
                None => return false,
            }
        }
        left.ends_with(last)
    }
}

const LONGEST: usize = 128;

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn a_star_stands_for_any_characters_and_nothing_else_does() {
        for (glob, name, is) in [
            ("tools/call", "tools/call", true),
            ("tools/call", "tools/calls", false),
            ("tools/*", "tools/call", true),
            ("tools/*", "Tools/call", false),
            ("*", "", true),
            ("get_*_of_*", "get_name_of_it", true),
            ("get_*_of_*", "get_of_it", false),
            ("*_read", "file_read_read", true),
            ("a*a", "a", false),
            ("a?c", "abc", false),
        ] {
            assert_eq!(Glob::parse(glob).expect("a glob").matches(name), is, "{glob} {name}");
        }
        for text in ["", "a b", "é", "a\"b"] {
            assert!(Glob::parse(text).is_err(), "{text}");
        }
    }
}
