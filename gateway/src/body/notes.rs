//! Notes: what was found in a body while it passed, for the closing of its line.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Shared by whoever reads the body and whoever closes the line.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Pad>);

#[derive(Default)]
struct Pad {
    notes: Mutex<BTreeMap<&'static str, Vec<String>>>,
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Notes {
    /// Who is told, once, when a stand-in was seen where it is let through.
    pub fn tell(&self, bell: impl Fn() + Send + Sync + 'static) {
        // The first stays.
        let _ = self.0.bell.set(Box::new(bell));
    }

    /// A stand-in was seen.
    pub(super) fn ring(&self) {
        if self.add("sentinel", "in the body".to_owned())
            && let Some(bell) = self.0.bell.get()
        {
            bell();
        }
    }

    /// One more under this key; each once, and of too many the first. Tells whether it is new.
    pub fn add(&self, key: &'static str, what: String) -> bool {
        let mut notes = self.0.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let under = notes.entry(key).or_default();
        let is_new = under.len() < MOST && !under.contains(&what);
        if is_new {
            under.push(what);
        }
        is_new
    }

    /// All of them.
    #[must_use]
    pub fn read(&self) -> BTreeMap<&'static str, Vec<String>> {
        self.0.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Pad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pad").field("notes", &self.notes).finish_non_exhaustive()
    }
}

const MOST: usize = 16;
