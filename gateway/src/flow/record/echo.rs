//! Echo: the alarm of a credential that came back. It is raised once for an answer, when the first is found.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::body::Reads;
use crate::flow::identify::Caller;
use crate::flow::relay::Watch;
use crate::ledger::{Entry, Kind, Ledger, Line};

/// What one answer is looked through for, and whom to tell.
pub struct Bell {
    watch: Watch,
    ledger: Ledger,
    caller: Caller,
    rung: AtomicBool,
}

impl Bell {
    /// The head of the answer was looked at before.
    pub(super) fn new(watch: Watch, ledger: &Ledger, caller: &Caller) -> Self {
        let bell = Self { watch, ledger: ledger.clone(), caller: caller.clone(), rung: AtomicBool::new(false) };
        bell.heard(0);
        bell
    }

    pub(super) const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// So many were found in the body, or whatever follows the head.
    pub(super) fn heard(&self, found: u64) {
        if found + self.watch.in_heads.load(Ordering::Relaxed) == 0 || self.rung.swap(true, Ordering::Relaxed) {
            return;
        }
        let Watch { target, grant, .. } = &self.watch;
        let inside = format!("{target} sent back the credential that grant {grant} put in; it was blotted out");
        let entry = Entry::new(Kind::Alarm).box_id(self.caller.box_id()).run_id(&self.caller.run().id);
        self.ledger.alarm(ECHO, entry.target(target).grant(grant.as_str()).inside(&inside));
    }
}

const ECHO: &str = "credential-echo";

/// Ties a body that goes out to its line: what is found in it stands in the closing, and a stand-in that it tells is an alarm.
pub fn watch_body(ledger: &Ledger, caller: &Caller, reads: &Reads, line: &mut Line) {
    line.note_body(reads.notes().clone());
    let (ledger, caller) = (ledger.clone(), caller.clone());
    let (target, grant) = reads.way();
    let (target, grant) = (target.clone(), grant.to_owned());
    reads.notes().tell(move || {
        let entry = Entry::new(Kind::Alarm).box_id(caller.box_id()).run_id(&caller.run().id);
        let inside = format!("a sentinel in what the box tells {target}; it was let through, for it is worth nothing");
        ledger.alarm(TOLD, entry.target(&target).grant(grant.as_str()).inside(&inside));
    });
}

const TOLD: &str = "sentinel-told";
