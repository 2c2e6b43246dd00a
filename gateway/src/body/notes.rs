//! Notes: what was found in a body while it passed, for the closing of its line.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by whoever reads the body and whoever closes the line.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>);

impl Notes {
    /// One more under this key; each once, and of too many the first.
    pub fn add(&self, key: &'static str, what: String) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let under = notes.entry(key).or_default();
        if under.len() < MOST && !under.contains(&what) {
            under.push(what);
        }
    }

    /// All of them.
    #[must_use]
    pub fn read(&self) -> BTreeMap<&'static str, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

const MOST: usize = 16;
