//! Paths of a proposal: each alone, and one shape where three or more differ in a single segment. Nothing wider.

use std::collections::{BTreeMap, BTreeSet};

use crate::policy::{NormalPath, PathPattern};

/// The narrowest pattern that holds for this path: the path alone, or where it can be read in two ways, a star for that.
pub(super) fn narrowest(path: &NormalPath) -> Option<String> {
    let raw = path.raw();
    [format!("{raw}$"), starred(raw)]
        .into_iter()
        .find(|text| PathPattern::parse(text).is_ok_and(|pattern| pattern.covers(path)))
}

/// With a star for each escape, but an escaped slash, and for what stands behind a `;`.
fn starred(raw: &str) -> String {
    let mut out = String::new();
    let mut rest = raw;
    while let Some(at) = rest.find(['%', ';']) {
        out.push_str(&rest[..at]);
        let behind = &rest[at..];
        let (put, length) = match behind.get(1..3) {
            _ if behind.starts_with(';') => ("*", behind.find('/').unwrap_or(behind.len())),
            Some("2F" | "2f") => ("%2F", 3),
            Some(_) => ("*", 3),
            None => ("*", behind.len()),
        };
        out.push_str(if put == "*" && out.ends_with('*') { "" } else { put });
        rest = &behind[length..];
    }
    out.push_str(rest);
    // Only a shape vouches for an escaped slash.
    if !out.contains('*') {
        out.push('*');
    }
    out
}

/// The same with a star for a segment, never the first, in which [`ENOUGH`] or more of them differ while all else is the same.
pub(super) fn generalised(paths: Vec<String>) -> Vec<String> {
    let mut left: BTreeSet<String> = paths.into_iter().collect();
    let mut shapes = Vec::new();
    loop {
        let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for path in left.iter().filter_map(|path| Some((path, path.strip_suffix('$')?))) {
            for shape in shapes_of(path.1) {
                alike.entry(shape).or_default().push(path.0.clone());
            }
        }
        let most = alike.into_iter().max_by_key(|(_, of)| of.len()).filter(|(_, of)| of.len() >= ENOUGH);
        let Some((shape, of)) = most else { break };
        left.retain(|path| !of.contains(path));
        shapes.push(shape);
    }
    left.extend(shapes);
    left.into_iter().collect()
}

/// With a star for each segment in turn but the first.
fn shapes_of(path: &str) -> Vec<String> {
    let segments: Vec<&str> = path.split('/').collect();
    let with_star = |at: usize| {
        let mut shape = segments.clone();
        shape[at] = "*";
        shape.join("/")
    };
    (2..segments.len())
        .filter(|at| !segments[*at].is_empty())
        .map(with_star)
        .filter(|shape| PathPattern::parse(shape).is_ok())
        .collect()
}

const ENOUGH: usize = 3;

#[cfg(test)]
mod tests {
    use super::{generalised, narrowest};
    use crate::policy::NormalPath;

    #[test]
    fn a_path_is_held_as_narrow_as_can_be() {
        for (path, pattern) in [
            ("/", Some("/$")),
            ("/v1/models", Some("/v1/models$")),
            ("/v1/models/", Some("/v1/models/$")),
            ("/a%20b/c", Some("/a*b/c")),
            ("/a%20%20b", Some("/a*b")),
            ("/@scope%2fname", Some("/@scope%2Fname*")),
            ("/a/../b", None),
            ("/a//b", None),
            ("/a/b;c/d", Some("/a/b*/d")),
            ("/a/%2e%2e/b", None),
        ] {
            let parsed = NormalPath::parse(path).expect("a path");
            assert_eq!(narrowest(&parsed).as_deref(), pattern, "{path}");
        }
    }

    #[test]
    fn only_what_three_show_is_opened() {
        for (paths, expected) in [
            (vec!["/a/1$", "/a/2$"], vec!["/a/1$", "/a/2$"]),
            (vec!["/a/1$", "/a/2$", "/a/3$"], vec!["/a/*"]),
            (vec!["/a$", "/b$", "/c$"], vec!["/a$", "/b$", "/c$"]),
            (vec!["/a/1/x$", "/a/2/x$", "/a/3/x$", "/a/3/y$"], vec!["/a/*/x", "/a/3/y$"]),
            (vec!["/r/1/a$", "/r/2/b$", "/r/3/c$"], vec!["/r/1/a$", "/r/2/b$", "/r/3/c$"]),
            (vec!["/*/c", "/a/b$"], vec!["/*/c", "/a/b$"]),
        ] {
            assert_eq!(generalised(paths.into_iter().map(str::to_owned).collect()), expected);
        }
    }
}
