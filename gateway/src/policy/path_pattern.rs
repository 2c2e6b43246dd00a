//! Path patterns of a grant: a prefix, or a shape with `*` in it that the whole path must have.

use super::escapes::{Piece, pieces};
use super::path::{NormalPath, PathFault, PathPrefix};
use super::segments::{self, Part};

/// What a grant says of paths. Without `*` it stands for itself and all that lies below it, with `$` behind it for itself alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathPattern {
    Below(PathPrefix),
    Only(Only),
    Shape(Shape),
}

/// A path alone. `$` ends a pattern where it ends those of RFC 9309 §2.2.3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Only {
    /// With its `$`.
    text: String,
    path: PathPrefix,
}

/// A path of which parts are left open. `*` stands for what one segment holds, `**` for any number of segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    text: String,
    segments: Vec<Segment>,
    /// It says `%2F`: whoever wrote it knows that this host takes an escaped slash for a letter of the segment.
    slashes_are_letters: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    Many,
    /// What stands around its stars, first and last included.
    One(Vec<String>),
}

impl PathPattern {
    /// # Errors
    /// It is no path that a grant may name.
    pub fn parse(text: &str) -> Result<Self, PathFault> {
        if let Some(path) = text.strip_suffix('$') {
            if text.contains('*') {
                return Err(PathFault::EndedShape);
            }
            let path = PathPrefix::parse(path)?;
            return Ok(Self::Only(Only { text: text.to_owned(), path }));
        }
        if !text.contains('*') {
            return PathPrefix::parse(text).map(Self::Below);
        }
        Shape::parse(text).map(Self::Shape)
    }

    /// One of a denial, which is asked by [`Self::may_cover`]: in any case.
    ///
    /// # Errors
    /// As above.
    pub fn of_denial(text: &str) -> Result<Self, PathFault> {
        Self::parse(&text.to_ascii_lowercase().replace("%2f", "%2F"))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Below(prefix) => prefix.as_str(),
            Self::Only(only) => &only.text,
            Self::Shape(shape) => &shape.text,
        }
    }

    /// Whether the path is meant in every reading; where the pattern vouches for escaped slashes, in the one that it vouches for.
    #[must_use]
    pub fn covers(&self, path: &NormalPath) -> bool {
        match self {
            Self::Below(prefix) => path.has_prefix(prefix),
            Self::Only(only) => path.is(only.path.as_str()),
            Self::Shape(shape) => {
                path.every_reading().all(|reading| shape.fits(reading))
                    || (shape.slashes_are_letters && shape.fits_letters(path.raw()))
            }
        }
    }
}

impl PathPattern {
    /// Whether some reading of the path, in any case, could be meant: for a pattern of a denial, which is in lower case.
    #[must_use]
    pub fn may_cover(&self, path: &NormalPath) -> bool {
        let covers = |reading: &str| match self {
            Self::Below(prefix) => prefix.covers(reading),
            Self::Only(only) => reading == only.path.as_str(),
            Self::Shape(shape) => shape.fits(reading) || shape.fits_letters(reading),
        };
        let covers_either = |reading: &str| covers(reading) || covers(reading.trim_end_matches('/'));
        path.could_be(covers_either) || covers_either(&path.raw().to_ascii_lowercase())
    }
}

impl Shape {
    fn parse(text: &str) -> Result<Self, PathFault> {
        let Some(rest) = text.strip_prefix('/') else { return Err(PathFault::NotAbsolute) };
        if text.contains(['?', '#']) {
            return Err(PathFault::NotOnlyPath);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(PathFault::Unprintable);
        }
        let segments = rest.split('/').map(Segment::parse).collect::<Option<Vec<_>>>().ok_or(PathFault::OddShape)?;
        let slashes_are_letters = text.contains('%');
        Ok(Self { text: text.to_owned(), segments, slashes_are_letters })
    }

    fn fits(&self, reading: &str) -> bool {
        let found: Vec<&str> = reading.split('/').skip(1).collect();
        segments::fit(&self.segments, &found)
    }

    /// The path as it came, each segment decoded by itself. One that could still be read otherwise is none.
    fn fits_letters(&self, raw: &str) -> bool {
        let decoded: Option<Vec<String>> = raw.split('/').skip(1).map(letters).collect();
        decoded.is_some_and(|decoded| {
            let found: Vec<&str> = decoded.iter().map(String::as_str).collect();
            segments::fit(&self.segments, &found)
        })
    }
}

impl Segment {
    fn parse(text: &str) -> Option<Self> {
        if text == "**" {
            return Some(Self::Many);
        }
        let plain = text.replace("%2F", "/");
        let is_odd = text.contains("**") || plain.contains(['%', ';', '\\']) || plain.split('/').any(is_no_name);
        (!is_odd).then(|| Self::One(plain.split('*').map(str::to_owned).collect()))
    }
}

impl Part for Segment {
    fn is_many(&self) -> bool {
        matches!(self, Self::Many)
    }

    /// A star takes letters, and an escaped slash only where the pattern has one in this segment.
    fn is(&self, word: &str) -> bool {
        let Self::One(pieces) = self else { return true };
        let [first, rest @ ..] = &pieces[..] else { return false };
        let Some((last, middle)) = rest.split_last() else { return word == first };
        if word.is_empty() || (word.contains('/') && !pieces.iter().any(|piece| piece.contains('/'))) {
            return false;
        }
        let Some(mut left) = word.strip_prefix(first.as_str()) else { return false };
        for piece in middle {
            let Some(at) = left.find(piece.as_str()) else { return false };
            left = &left[at + piece.len()..];
        }
        left.ends_with(last.as_str())
    }
}

/// What a segment says when its escapes are letters.
fn letters(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    for piece in pieces(segment) {
        match piece {
            Piece::Plain(byte) | Piece::Escaped(byte) => bytes.push(byte),
            Piece::Stray => return None,
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    let is_odd = text.contains(['%', ';', '\\']) || text.split('/').any(is_no_name);
    (!is_odd).then_some(text)
}

fn is_no_name(part: &str) -> bool {
    matches!(part, "" | "." | "..")
}

#[cfg(test)]
mod tests {
    use super::{PathFault, PathPattern};
    use crate::policy::NormalPath;

    fn covers(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).expect("a pattern").covers(&NormalPath::parse(path).expect("a path"))
    }

    #[test]
    fn a_star_is_one_segment_and_two_are_any_number() {
        for (pattern, path, expected) in [
            ("/repos/*/*/issues", "/repos/me/it/issues", true),
            ("/repos/*/*/issues", "/repos/me/it/issues/", false),
            ("/repos/*/*/issues", "/repos/me/it/issues/1", false),
            ("/repos/*/*/issues", "/repos/me/issues", false),
            ("/repos/*/*/issues", "/repos//it/issues", false),
            ("/repos/*/*/issues/**", "/repos/me/it/issues", true),
            ("/repos/*/*/issues/**", "/repos/me/it/issues/1/comments", true),
            ("/repos/*/*/issues/**", "/repos/me/it/issuesx", false),
            ("/**/@v/*", "/example.test/a/b/@v/list", true),
            ("/**/@v/*", "/example.test/@v/a/@v/list", true),
            ("/**/@v/*", "/example.test/@v/a/b", false),
            ("/*.git/info/refs", "/me.git/info/refs", true),
            ("/*.git/info/refs", "/me.gita/info/refs", false),
            ("/a*b*c", "/a-b-c", true),
            ("/a*b*c", "/abc", true),
            ("/a*b*c", "/acb", false),
            ("/aba*aba", "/aba", false),
            ("/*", "/x", true),
            ("/*", "/", false),
            ("/*", "/x/y", false),
            ("/**", "/", true),
            ("/**", "/x/y/", true),
        ] {
            assert_eq!(covers(pattern, path), expected, "{path} as {pattern}");
        }
    }

    #[test]
    fn a_path_that_is_ended_is_meant_alone() {
        for (pattern, path, expected) in [
            ("/v1/models$", "/v1/models", true),
            ("/v1/models$", "/v1/models/", false),
            ("/v1/models$", "/v1/models/x", false),
            ("/v1/models$", "/v1/models$", false),
            ("/v1/models$", "/v1/x/../models", true),
            ("/v1/models$", "/v1/models;x", false),
            ("/v1/models$", "/v1//models", false),
            ("/v1/models/$", "/v1/models/", true),
            ("/v1/models/$", "/v1/models", false),
            ("/$", "/", true),
            ("/$", "/x", false),
            ("/$metadata", "/$metadata/x", true),
        ] {
            assert_eq!(covers(pattern, path), expected, "{path} as {pattern}");
        }
        for text in ["$", "/a/../b$", "/a%20b$", "a$"] {
            assert!(PathPattern::parse(text).is_err(), "{text}");
        }
        assert_eq!(PathPattern::parse("/a/*$"), Err(PathFault::EndedShape));
    }

    #[test]
    fn no_spelling_talks_its_way_into_a_shape() {
        for path in [
            "/repos/me/it/issues/../keys",
            "/repos/me/it/issues/%2e%2e/keys",
            "/repos/me/it/issues/..%2fkeys",
            "/repos/me/it%2fkeys/issues",
            "/repos/me/it/keys%2f..%2fissues",
            "/repos/me/it/issues;x/../keys",
            "/repos/me/it/..\\issues",
            "/repos/me//it/issues",
            "/x/../repos/me/it/issues/%252e%252e/keys",
        ] {
            assert!(!covers("/repos/*/*/issues/**", path), "{path}");
        }
        for path in
            ["/repos/me/it/issues", "/x/../repos/me/it/issues", "/repos/me/it;/issues", "/repos/me/it/issues/a%20b"]
        {
            assert!(covers("/repos/*/*/issues/**", path), "{path}");
        }
    }

    #[test]
    fn an_escaped_slash_is_a_letter_where_the_pattern_vouches_for_it() {
        for (pattern, path, expected) in [
            ("/@*%2F*", "/@scope%2fname", true),
            ("/@*%2F*", "/@scope%2Fname", true),
            ("/@*%2F*", "/@scope/name", false),
            ("/@*%2F*", "/scope%2fname", false),
            ("/@*%2F*", "/@scope%2f..", false),
            ("/@*%2F*", "/@scope%2f%2e%2e", false),
            ("/@*%2F*", "/@scope%2f..%2fx", false),
            ("/@*%2F*", "/@scope%252fname", false),
            ("/@*%2F*", "/@scope%2fna%5cme", false),
            ("/@*%2F*", "/@scope%2fna;me", false),
            ("/p/*%2F*/issues", "/p/a%2Fb/issues", true),
            ("/p/*%2F*/issues", "/p/a%2Fb%2Fc/issues", true),
            ("/p/*%2F*/issues", "/p/1/hooks/issues", false),
            ("/p/*%2F*/issues", "/p/1/issues", false),
            ("/p/*%2F*/*", "/p/a%2Fb/c%2Fd", false),
        ] {
            assert_eq!(covers(pattern, path), expected, "{path} as {pattern}");
        }
    }

    #[test]
    fn what_is_no_shape_is_refused() {
        use PathFault::{NotAbsolute, NotOnlyPath, OddShape, Unprintable};
        for (text, fault) in [
            ("*", NotAbsolute),
            ("/*?a", NotOnlyPath),
            ("/* ", Unprintable),
            ("/a**", OddShape),
            ("/***", OddShape),
            ("/*/", OddShape),
            ("/*//a", OddShape),
            ("/*/../a", OddShape),
            ("/*%2e", OddShape),
            ("/*%2f", OddShape),
            ("/*%2F", OddShape),
            ("/*;a", OddShape),
            ("/*\\a", OddShape),
        ] {
            assert_eq!(PathPattern::parse(text), Err(fault), "{text}");
        }
    }
}
