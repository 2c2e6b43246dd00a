//! Told: a refusal is answered, written down, and counted against the run where it is policy.

use box_spec::{BoxId, Provider};
use http::Response;

use crate::flow::identify::Caller;
use crate::flow::record::Reply;
use crate::ledger::{Ended, Entry, Kind, Ledger, Line, Outcome};
use crate::refusal::{Reason, Told, answer};

/// A refusal that has no line yet: writes it and answers.
#[must_use]
pub fn refuse(ledger: &Ledger, box_id: &BoxId, caller: Option<&Caller>, told: &Told) -> Response<Reply> {
    refused(ledger, box_id, caller, told);
    answer::response(&told.refusal, None).map(Reply::Said)
}

/// The same inside a tunnel, where a model route has the provider's shape.
#[must_use]
pub fn refuse_inside(ledger: &Ledger, caller: &Caller, told: &Told, shape: Option<Provider>) -> Response<Reply> {
    refused(ledger, caller.box_id(), Some(caller), told);
    answer::response(&told.refusal, shape).map(Reply::Said)
}

/// A refusal that has no line yet and nobody to answer to: writes it.
pub fn refused(ledger: &Ledger, box_id: &BoxId, caller: Option<&Caller>, told: &Told) {
    let mut entry = Entry::new(Kind::Refused).box_id(box_id).refusal(&told.refusal);
    if let Some(caller) = caller {
        entry = entry.run_id(&caller.run().id);
        count(caller, told);
    }
    if let Some(target) = &told.target {
        entry = entry.target(target);
    }
    ledger.refused(entry);
}

/// A refusal whose line the ledger wrote as it opened the verdict: only answers.
#[must_use]
pub fn told(ledger: &Ledger, caller: &Caller, told: &Told, shape: Option<Provider>) -> Response<Reply> {
    weigh(ledger, caller, told);
    answer::response(&told.refusal, shape).map(Reply::Said)
}

/// A refusal that came after the line was opened: closes it and answers.
#[must_use]
pub fn refused_after(
    ledger: &Ledger,
    caller: &Caller,
    line: Line,
    told: &Told,
    shape: Option<Provider>,
) -> Response<Reply> {
    weigh(ledger, caller, told);
    let response = answer::response(&told.refusal, shape).map(Reply::Said);
    line.close(Outcome {
        status: Some(response.status().as_u16()),
        ended: if told.refusal.reason() == Reason::RunOver { Ended::Cut } else { Ended::Failed },
        reason: Some(told.refusal.reason()),
        inside: Some(told.refusal.inside().to_owned()),
        ..Outcome::default()
    });
    response
}

/// Counts what is policy, and raises the alarm for what an operator must look at.
pub(super) fn weigh(ledger: &Ledger, caller: &Caller, told: &Told) {
    count(caller, told);
    if is_alarming(told.refusal.reason()) {
        alarm(ledger, caller, told);
    }
}

/// A refusal that was written and will be told elsewhere: only counts it.
pub fn count(caller: &Caller, told: &Told) {
    if told.refusal.reason().counts() {
        caller.run().count_refusal();
    }
}

fn alarm(ledger: &Ledger, caller: &Caller, told: &Told) {
    let entry = Entry::new(Kind::Alarm).box_id(caller.box_id()).run_id(&caller.run().id).refusal(&told.refusal);
    ledger.alarm(
        told.refusal.reason().code(),
        match &told.target {
            Some(target) => entry.target(target),
            None => entry,
        },
    );
}

/// Whether a refusal is one that an operator must look at.
#[must_use]
const fn is_alarming(reason: Reason) -> bool {
    matches!(reason, Reason::SentinelAstray | Reason::DurableCredential | Reason::SecretOutbound)
}
