//! Groups: requests of one box that look alike and change alike, counted. However many there are, the groups stay few.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::Exit;
use crate::cli::anew::Verdict;
use crate::recorded::Recorded;
use crate::recorded::stream::Left;

use super::{Change, told};

#[derive(Default)]
pub(super) struct Groups {
    pub(super) alike: BTreeMap<Key, Count>,
    /// Of groups that found no place.
    pub(super) others: u64,
    pub(super) requests: u64,
    pub(super) changed: u64,
    pub(super) unknown: u64,
}

/// What the requests of one group have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) sort: Sort,
    pub(super) box_id: String,
    pub(super) target: String,
    pub(super) method: String,
    pub(super) shape: String,
    pub(super) before: Verdict,
    pub(super) after: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Sort {
    Changed,
    Unknown,
    /// The same verdict by another grant, or for another reason.
    Otherwise,
}

pub(super) struct Count {
    pub(super) count: u64,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// One of them.
    pub(super) sequence: u64,
}

impl Groups {
    pub(super) fn add(&mut self, recorded: &Recorded, change: Change) {
        let asked = &recorded.asked;
        self.requests += asked.count;
        let sort = if change.is_unknown() {
            self.unknown += asked.count;
            Sort::Unknown
        } else if change.is_change() {
            self.changed += asked.count;
            Sort::Changed
        } else if change.before == change.after {
            return;
        } else {
            Sort::Otherwise
        };
        let Change { before, after } = change;
        let key = Key {
            sort,
            box_id: asked.box_id.to_string(),
            target: asked.target.to_string(),
            method: asked.method.as_ref().map_or("?", http::Method::as_str).to_owned(),
            shape: asked.path.as_deref().map_or_else(|| "?".to_owned(), shape),
            before,
            after,
        };
        if self.alike.len() >= MOST && !self.alike.contains_key(&key) {
            self.others += asked.count;
            return;
        }
        let new = || Count { count: 0, first: asked.time, last: asked.last, sequence: asked.sequence };
        let group = self.alike.entry(key).or_insert_with(new);
        group.count += asked.count;
        group.first = group.first.min(asked.time);
        group.last = group.last.max(asked.last);
    }

    /// Of one sort, the largest first.
    pub(super) fn of(&self, sort: Sort) -> Vec<(&Key, &Count)> {
        let mut all: Vec<_> = self.alike.iter().filter(|(key, _)| key.sort == sort).collect();
        all.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
        all
    }

    /// What is missing, and for how many requests.
    pub(super) fn missing(&self) -> BTreeMap<&str, u64> {
        let mut missing = BTreeMap::new();
        for (key, group) in &self.alike {
            if let Verdict::Unknown(fact) = key.after {
                *missing.entry(fact.word()).or_default() += group.count;
            }
        }
        missing
    }

    pub(super) const fn exit(&self, left: Left) -> Exit {
        match (self.changed, self.unknown + left.counted + left.unreadable) {
            (0, 0) => Exit::Done,
            (0, _) => Exit::NotKnown,
            (_, _) => Exit::Changed,
        }
    }

    pub(super) fn json(&self, left: Left) -> Value {
        let Left { unreadable, unclosed, nothing_asked, counted } = left;
        let told = |sort| self.of(sort).into_iter().map(|(key, group)| as_json(key, group)).collect::<Vec<_>>();
        json!({
            "requests": self.requests,
            "changed": self.changed,
            "unknown": self.unknown,
            "missing": self.missing(),
            "changes": told(Sort::Changed),
            "unknowns": told(Sort::Unknown),
            "otherwise": told(Sort::Otherwise),
            "in_other_groups": self.others,
            "unreadable_lines": unreadable,
            "never_closed": unclosed,
            "nothing_asked": nothing_asked,
            "only_counted": counted,
        })
    }
}

fn as_json(key: &Key, group: &Count) -> Value {
    json!({
        "box": key.box_id,
        "target": key.target,
        "method": key.method,
        "path": key.shape,
        "before": told::verdict(&key.before),
        "after": told::verdict(&key.after),
        "count": group.count,
        "first": group.first.to_string(),
        "last": group.last.to_string(),
        "seq": group.sequence,
    })
}

/// The path with a `*` for each segment that looks like the name of one thing among many.
pub(super) fn shape(path: &str) -> String {
    let mut shape: Vec<&str> =
        path.split('/').map(|segment| if is_one_of_many(segment) { "*" } else { segment }).collect();
    if shape.len() > DEEPEST {
        shape.truncate(DEEPEST);
        shape.push("**");
    }
    shape.join("/")
}

/// A number, a version, an address, or a long word that no person would choose.
fn is_one_of_many(segment: &str) -> bool {
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = segment.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_number = digits > 0 && segment.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number
        || (is_hex && digits > 0 && segment.len() >= 7)
        || (digits >= 4 && segment.len() >= 20)
        || segment.len() > 64
        || segment.parse::<IpAddr>().is_ok()
}

const MOST: usize = 4096;
const DEEPEST: usize = 8;

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn what_names_one_of_many_is_a_star() {
        for (path, expected) in [
            ("/v1/messages", "/v1/messages"),
            ("/repos/me/it/issues/17", "/repos/me/it/issues/*"),
            ("/commits/9cd96c9f/files", "/commits/*/files"),
            ("/u/123e4567-e89b-12d3-a456-426614174000", "/u/*"),
            ("/lodash/-/lodash-4.17.21.tgz", "/lodash/-/lodash-4.17.21.tgz"),
            ("/simple/facade", "/simple/facade"),
            ("/a/b/c/d/e/f/g/h/i", "/a/b/c/d/e/f/g/**"),
            ("/", "/"),
        ] {
            assert_eq!(shape(path), expected, "{path}");
        }
    }
}
