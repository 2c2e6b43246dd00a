//! Refused with E0616: a verdict cannot be reached into.

use gateway::flow::judge::Ruling;
use gateway::ledger::Verdict;

pub fn reached(verdict: Verdict<Ruling>) {
    let _ruling = verdict.0;
}
