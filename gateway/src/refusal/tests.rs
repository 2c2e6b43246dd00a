//! The list of reasons, and the page that tells it.

use std::collections::BTreeSet;

use super::Reason;

#[test]
fn every_reason_has_a_code_of_its_own_and_a_hint() {
    let codes: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
    assert_eq!(codes.len(), Reason::ALL.len());
    for reason in Reason::ALL {
        assert!(!reason.hint().is_empty(), "{reason}");
        assert!(reason.status().is_client_error() || reason.status().is_server_error(), "{reason}");
    }
}

#[test]
fn the_table_of_reasons_is_this_list() {
    let rows: Vec<Vec<&str>> = include_str!("../../../docs/reasons.md")
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), Reason::ALL.len());
    for (row, reason) in rows.iter().zip(Reason::ALL) {
        let code = format!("`{reason}`");
        let status = reason.status().as_u16().to_string();
        let policy = if reason.is_policy() { "policy" } else { "outage" };
        let finality = if reason.is_final() { "final" } else { "transient" };
        assert_eq!(row[..4], [code.as_str(), status.as_str(), policy, finality]);
        assert_eq!(row[5], reason.hint());
    }
}
