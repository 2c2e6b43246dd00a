//! The index: which grants can concern a box and a host at all, so that a judgement costs the same with ten grants as with
//! ten thousand.

use std::collections::HashMap;

use box_spec::BoxId;

use crate::host::Host;

use super::{Boxes, HostPattern, Matching};

/// Numbers of grants, by what they name. Built once.
#[derive(Debug, Default)]
pub(super) struct Index {
    exact: HashMap<Host, Places>,
    /// By the suffix.
    below: HashMap<Box<str>, Places>,
    any: Places,
}

/// Grants of one pattern, ascending.
#[derive(Debug, Default)]
struct Places {
    all: Vec<u32>,
    only: HashMap<BoxId, Vec<u32>>,
}

impl Index {
    pub(super) fn new<'a>(grants: impl Iterator<Item = (u32, &'a Matching)>) -> Self {
        let mut index = Self::default();
        for (at, Matching { boxes, hosts, .. }) in grants {
            for pattern in hosts {
                let places = match pattern {
                    HostPattern::Exact(host) => index.exact.entry(host.clone()).or_default(),
                    HostPattern::Below(suffix) => index.below.entry((**suffix).into()).or_default(),
                    HostPattern::Any => &mut index.any,
                };
                places.add(at, boxes);
            }
        }
        index
    }

    /// Those that name this host for this box, each once and in their order.
    pub(super) fn of(&self, box_id: &BoxId, host: &Host) -> Vec<u32> {
        let mut found = Vec::new();
        self.any.give(box_id, &mut found);
        if let Some(places) = self.exact.get(host) {
            places.give(box_id, &mut found);
        }
        if let Host::Name(name) = host
            && !self.below.is_empty()
        {
            let mut rest: &str = name;
            loop {
                if let Some(places) = self.below.get(rest) {
                    places.give(box_id, &mut found);
                }
                let Some((_, parent)) = rest.split_once('.') else { break };
                rest = parent;
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Places {
    fn add(&mut self, at: u32, boxes: &Boxes) {
        match boxes {
            Boxes::All => self.all.push(at),
            Boxes::Only(ids) => {
                for id in ids {
                    self.only.entry(id.clone()).or_default().push(at);
                }
            }
        }
    }

    fn give(&self, box_id: &BoxId, found: &mut Vec<u32>) {
        found.extend_from_slice(&self.all);
        if let Some(own) = self.only.get(box_id) {
            found.extend_from_slice(own);
        }
    }
}
