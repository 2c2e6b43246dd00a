//! Paths in all the readings that a server could give them; a prefix holds only if it holds in every one.

use super::escapes::{Piece, pieces};

/// The path of a request, without its query, beside every reading of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NormalPath {
    raw: String,
    /// Whatever a server, or one behind the other, could make of it: escapes decoded once or again and again, dot segments
    /// resolved, empty segments and `;parameters` dropped, backslashes taken for slashes, each or not and in any order; in the
    /// end without dot segments. No duplicates.
    readings: Vec<String>,
}

/// A path prefix of a grant: plain, absolute, and taken at segment borders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathPrefix(String);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum PathFault {
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    #[error("the path holds a query or a fragment")]
    NotOnlyPath,
    #[error("the path holds a control character or a byte that is no printable ASCII")]
    Unprintable,
    #[error("the path holds a percent-escape that is none")]
    BadEscape,
    #[error("the path is escaped more than {DEEPEST_ESCAPE} times over")]
    TooDeep,
    #[error("the path can be read in more than {MOST_STATES} ways")]
    TooManyReadings,
    #[error("a prefix holds dot segments, escapes, `;`, a backslash or an empty segment")]
    OddPrefix,
    #[error("a path with `*` is the whole path as it is: leave its `$` out")]
    EndedShape,
    #[error(
        "a path with `*` holds an empty segment, dot segments, escapes but `%2F`, `;`, a backslash, or `**` beside other letters"
    )]
    OddShape,
}

impl NormalPath {
    /// Reads a path without query (`uri.path()`).
    pub fn parse(raw: &str) -> Result<Self, PathFault> {
        if !raw.starts_with('/') {
            return Err(PathFault::NotAbsolute);
        }
        if raw.contains(['?', '#']) {
            return Err(PathFault::NotOnlyPath);
        }
        if !raw.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(PathFault::Unprintable);
        }
        if is_plain(raw) {
            return Ok(Self { raw: raw.to_owned(), readings: vec![raw.to_owned()] });
        }
        let mut readings = Vec::new();
        for state in states(raw)? {
            push_new(&mut readings, resolve(&state));
        }
        Ok(Self { raw: raw.to_owned(), readings })
    }

    /// The path as it came: what is sent on.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Whether the path lies at or below the prefix in every reading. What holds only in some is no match.
    #[must_use]
    pub fn has_prefix(&self, prefix: &PathPrefix) -> bool {
        self.every_reading().all(|reading| prefix.covers(reading))
    }

    /// Whether every reading of the path is exactly this one. For what the gateway answers by itself.
    #[must_use]
    pub fn is(&self, path: &str) -> bool {
        self.every_reading().all(|reading| reading == path)
    }

    /// Whether every reading of the path begins like this and goes on.
    #[must_use]
    pub fn begins(&self, start: &str) -> bool {
        self.every_reading().all(|reading| reading.len() > start.len() && reading.starts_with(start))
    }

    /// Whether some reading of the path, in any case, fulfils this. For what is refused whatever a grant says.
    #[must_use]
    pub fn could_be(&self, test: impl Fn(&str) -> bool) -> bool {
        self.every_reading().any(|reading| test(&reading.to_ascii_lowercase()))
    }

    pub(super) fn every_reading(&self) -> impl Iterator<Item = &str> {
        self.readings.iter().map(String::as_str)
    }
}

impl PathPrefix {
    pub fn parse(text: &str) -> Result<Self, PathFault> {
        if !text.starts_with('/') {
            return Err(PathFault::NotAbsolute);
        }
        let path = NormalPath::parse(text)?;
        let plain = path.readings == [text] && !text.contains(['%', ';', '\\']);
        if plain { Ok(Self(text.to_owned())) } else { Err(PathFault::OddPrefix) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn covers(&self, path: &str) -> bool {
        path.strip_prefix(self.0.as_str())
            .is_some_and(|rest| rest.is_empty() || self.0.ends_with('/') || rest.starts_with('/'))
    }
}

/// Nothing in it can be read in two ways: no escape, no parameter, no backslash, no empty segment but the last, and none that
/// begins with a dot.
fn is_plain(raw: &str) -> bool {
    let mut after_slash = false;
    raw.bytes().all(|byte| {
        let is_plain = match byte {
            b'%' | b';' | b'\\' => false,
            b'/' | b'.' => !after_slash,
            _ => true,
        };
        after_slash = byte == b'/';
        is_plain
    })
}

/// Every text that a row of steps, each of which some server takes, comes to from this one.
fn states(raw: &str) -> Result<Vec<String>, PathFault> {
    check_depth(raw)?;
    let mut states = vec![raw.to_owned()];
    let mut at = 0;
    while let Some(state) = states.get(at) {
        let next = [decode(state, false)?, resolve(state), merge(state), bare(state), state.replace('\\', "/")];
        next.into_iter().for_each(|next| push_new(&mut states, next));
        if states.len() > MOST_STATES {
            return Err(PathFault::TooManyReadings);
        }
        at += 1;
    }
    Ok(states)
}

fn check_depth(raw: &str) -> Result<(), PathFault> {
    let mut current = raw.to_owned();
    for depth in 0..=DEEPEST_ESCAPE {
        // Only the first level must be well formed: `%25` may well stand for a percent sign.
        let next = decode(&current, depth == 0)?;
        if next == current {
            return Ok(());
        }
        current = next;
    }
    Err(PathFault::TooDeep)
}

fn decode(text: &str, strict: bool) -> Result<String, PathFault> {
    let mut bytes = Vec::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Escaped(byte) if byte < b' ' || byte == 0x7f => return Err(PathFault::Unprintable),
            Piece::Stray if strict => return Err(PathFault::BadEscape),
            Piece::Plain(byte) | Piece::Escaped(byte) => bytes.push(byte),
            Piece::Stray => bytes.push(b'%'),
        }
    }
    // Overlong forms of a slash or a dot are no UTF-8.
    String::from_utf8(bytes).map_err(|_| PathFault::Unprintable)
}

/// Without `.` and `..` (RFC 3986 §5.2.4). An empty segment is one that `..` takes away.
fn resolve(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_in_slash = false;
    for segment in path.split('/').skip(1) {
        ends_in_slash = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    if ends_in_slash {
        kept.push("");
    }
    ["/", &kept.join("/")].concat()
}

/// Without empty segments but the last.
fn merge(path: &str) -> String {
    let mut merged = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter != '/' || !merged.ends_with('/') {
            merged.push(letter);
        }
    }
    merged
}

/// Without `;parameters`.
fn bare(path: &str) -> String {
    let segments = path.split('/').map(|segment| segment.split(';').next().unwrap_or_default());
    segments.collect::<Vec<_>>().join("/")
}

fn push_new(readings: &mut Vec<String>, reading: String) {
    if !readings.contains(&reading) {
        readings.push(reading);
    }
}

/// What a client means is read in two or three ways. Each costs some passes over the path.
const MOST_STATES: usize = 32;
/// Nobody escapes a path five times; each round costs a pass over it.
const DEEPEST_ESCAPE: usize = 4;

#[cfg(test)]
mod tests {
    use super::{NormalPath, PathFault, PathPrefix};

    fn holds(path: &str, prefix: &str) -> bool {
        NormalPath::parse(path).expect("a path").has_prefix(&PathPrefix::parse(prefix).expect("a prefix"))
    }

    #[test]
    fn a_prefix_ends_at_a_segment() {
        for (path, prefix, expected) in [
            ("/v1/messages", "/v1/messages", true),
            ("/v1/messages/", "/v1/messages", true),
            ("/v1/messages/count_tokens", "/v1/messages", true),
            ("/v1/messagesx", "/v1/messages", false),
            ("/v1", "/v1/messages", false),
            ("/V1/messages", "/v1/messages", false),
            ("/v1/", "/v1/", true),
            ("/v1/x", "/v1/", true),
            ("/v1", "/v1/", false),
            ("/anything", "/", true),
            ("/", "/", true),
            ("/group%2Fproject/x", "/", true),
            ("/repo/a%2Fb", "/repo", true),
            ("/repo/a%20b", "/repo", true),
            ("/repo/a;b=c", "/repo", true),
            ("/repo/./a", "/repo", true),
            ("/x/../repo/a", "/repo", true),
        ] {
            assert_eq!(holds(path, prefix), expected, "{path} under {prefix}");
        }
    }

    #[test]
    fn no_spelling_talks_its_way_round_a_prefix() {
        for path in [
            "/v1/messages/../admin",
            "/v1/messages/%2e%2e/admin",
            "/v1/messages/%2E./admin",
            "/v1/messages/..%2fadmin",
            "/v1/messages%2f..%2fadmin",
            "/v1/messages/%252e%252e/admin",
            "/v1/messages/%25252e%25252e/admin",
            "/v1/messages/..;/admin",
            "/v1/messages/..;x=y/admin",
            "/v1/messages/..%3b/admin",
            "/v1/messages/..\\admin",
            "/v1/messages/..%5cadmin",
            "/v1/messages\\..\\admin",
            "/v1/messages//../../admin",
            "/v1/messages/x//../../../admin",
            "//v1/messages",
            "/v1//messages",
            "/./v1/messages/../../x",
            "/v1;a/messages",
            "/v1/messages;a",
            "/%76%31/messages",
            "/x/%2e%2e/v1/messages",
            "/v1/messages/%2e%2e/%2e%2e/admin%252f..%252fv1/messages",
            "/v1/messages/../../..",
            // Dots resolved before a slash is decoded, and again behind it.
            "/v1/messages/a%2fb/../%2e%2e/admin",
            "/v1/messages/a%2f%2e%2e%2f../%2e%2e%2fadmin",
            "/v1/messages/a;%2f../..%2fadmin",
        ] {
            assert!(!holds(path, "/v1/messages"), "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        use PathFault::{BadEscape, NotAbsolute, NotOnlyPath, TooDeep, Unprintable};
        let deep = format!("/%{}41", "25".repeat(9));
        for (path, fault) in [
            ("", NotAbsolute),
            ("*", NotAbsolute),
            ("v1", NotAbsolute),
            ("http://a.test/", NotAbsolute),
            ("/a?b", NotOnlyPath),
            ("/a#b", NotOnlyPath),
            ("/a b", Unprintable),
            ("/a\u{7f}", Unprintable),
            ("/a\u{e9}", Unprintable),
            ("/a%00", Unprintable),
            ("/a%0d%0ab", Unprintable),
            ("/a%250a", Unprintable),
            ("/%c0%ae%c0%ae/", Unprintable),
            ("/a%", BadEscape),
            ("/a%2", BadEscape),
            ("/a%zz", BadEscape),
            ("/a%u002e", BadEscape),
            (deep.as_str(), TooDeep),
        ] {
            assert_eq!(NormalPath::parse(path), Err(fault), "{path}");
        }
        assert_eq!(NormalPath::parse("/a%2f..;b//c\\%252e%252e;d/./%2e.//e"), Err(PathFault::TooManyReadings));
        assert!(NormalPath::parse("/100%25").is_ok());
        for odd in ["/a/../b", "/a//b", "/a%20b", "/a;b", "/a\\b", "/."] {
            assert_eq!(PathPrefix::parse(odd), Err(PathFault::OddPrefix), "{odd}");
        }
    }

    #[test]
    fn what_goes_on_is_what_came() {
        assert_eq!(NormalPath::parse("/a/../%62").expect("a path").raw(), "/a/../%62");
    }
}
