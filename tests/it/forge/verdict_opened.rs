//! Refused with E0624: nobody but the ledger opens a verdict.

use gateway::flow::judge::Ruling;
use gateway::ledger::Verdict;

pub fn opened(verdict: Verdict<Ruling>) {
    let _ruling = verdict.open();
}
