//! What `verify` makes of a ledger that was tampered with: each deed has a name of its own.

use crate::ledger::chain::{hash_of, hex};
use crate::ledger::verify::{What, verify};
use crate::ledger::{Entry, Kind, Receipt};

use super::{Desk, complete, enter};

/// Ten lines, and the receipts of all of them.
async fn written() -> (Vec<String>, Vec<Receipt>) {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let mut receipts = Vec::new();
    for at in 0..8 {
        receipts.push(ledger.note(Entry::new(Kind::Config).fact("at", at)).await.expect("up"));
    }
    enter(&ledger).await.close(complete());
    ledger.close().await.expect("the disk takes it");
    let text = String::from_utf8(desk.bytes()).expect("UTF-8");
    (text.lines().map(str::to_owned).collect(), receipts)
}

fn text(lines: &[String]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
}

fn seen(bytes: &[u8], receipts: &[Receipt]) -> Vec<(u64, Option<u64>, What)> {
    let verified = verify(bytes, receipts).expect("memory reads");
    verified.findings.iter().map(|finding| (finding.line, finding.sequence, finding.what)).collect()
}

/// The chain made to fit again from the given line on, as someone with the file and the time can.
fn recompute(lines: &mut [String], from: usize) {
    for at in from.max(1)..lines.len() {
        let hash = hex(&hash_of(lines[at - 1].as_bytes()));
        let prev = lines[at].find("\"prev\":\"").expect("a ledger line") + 8;
        lines[at].replace_range(prev..prev + 64, &hash);
    }
}

#[tokio::test]
async fn an_untouched_ledger_has_nothing_to_find() {
    let (lines, receipts) = written().await;
    assert_eq!(lines.len(), 10);
    assert_eq!(seen(&text(&lines), &receipts), []);
    assert_eq!(seen(&text(&lines), &[Receipt::NONE]), [], "the receipt of an empty ledger fits every ledger");
}

#[tokio::test]
async fn a_torn_tail_is_one_wherever_the_last_line_is_cut() {
    let (lines, receipts) = written().await;
    let whole = text(&lines);
    let last = lines[9].len();
    for cut in 1..=last {
        let findings = seen(&whole[..whole.len() - cut], &receipts);
        assert_eq!(findings[0], (10, None, What::TornTail { bytes: (last + 1 - cut) as u64 }), "{cut}");
    }
}

#[tokio::test]
async fn a_cut_tail_shows_by_a_receipt_alone() {
    let (lines, receipts) = written().await;
    let cut = text(&lines[..5]);
    assert_eq!(seen(&cut, &[]), []);
    assert_eq!(seen(&cut, &receipts[4..6]), [(0, Some(6), What::CutTail { last: 5 })]);
}

#[tokio::test]
async fn a_removed_line_is_named() {
    let (mut lines, receipts) = written().await;
    lines.drain(3..5);
    assert_eq!(seen(&text(&lines), &[]), [(4, Some(6), What::Removed { first: 4, last: 5 })]);
    assert_eq!(seen(&text(&lines), &receipts[3..4])[1], (0, Some(4), What::Missing));
    lines.remove(0);
    assert_eq!(seen(&text(&lines), &[])[0], (1, Some(2), What::Removed { first: 1, last: 1 }));
    recompute(&mut lines, 1);
    assert_eq!(seen(&text(&lines), &[]).len(), 2, "the numbers still show it");
}

#[tokio::test]
async fn an_edited_line_breaks_the_link_to_it() {
    let (mut lines, receipts) = written().await;
    lines[3] = lines[3].replace("\"at\":3", "\"at\":4");
    assert_eq!(seen(&text(&lines), &[]), [(5, Some(5), What::BrokenLink { before: 4 })]);
    assert_eq!(seen(&text(&lines), &receipts)[1..], [(0, Some(4), What::NotVouched)]);
}

#[tokio::test]
async fn a_recomputed_chain_shows_by_a_receipt_alone() {
    let (mut lines, receipts) = written().await;
    lines[3] = lines[3].replace("\"at\":3", "\"at\":4");
    recompute(&mut lines, 4);
    assert_eq!(seen(&text(&lines), &receipts[..3]), []);
    assert_eq!(seen(&text(&lines), &receipts[6..7]), [(0, Some(7), What::Recomputed)]);
}

#[tokio::test]
async fn what_is_no_line_in_the_middle_is_vouched_for_by_nothing() {
    let (mut lines, _) = written().await;
    lines.insert(4, "garbage".to_owned());
    assert_eq!(seen(&text(&lines), &[]), [(5, None, What::NotALine { bytes: 7 })]);
    lines.swap(5, 6);
    assert!(seen(&text(&lines), &[]).iter().any(|(_, _, what)| matches!(what, What::OutOfOrder { .. })));
}

#[tokio::test]
async fn a_line_with_a_key_twice_is_no_line() {
    let (mut lines, _) = written().await;
    lines[3] = lines[3].replace("{\"seq\":4,", "{\"seq\":4,\"seq\":4,");
    assert!(matches!(seen(&text(&lines), &[])[0], (4, None, What::NotALine { .. })));
}

#[test]
fn whatever_bytes_there_are_the_verifier_reads_them_to_their_end() {
    for bytes in [&b""[..], b"\n", b"\n\n{}", b"{\"seq\":18446744073709551615,\"prev\":\"\"}\n", &[0; 100_000]] {
        let verified = verify(bytes, &[]).expect("memory reads");
        assert_eq!((verified.lines, verified.is_damaged()), (0, !bytes.is_empty()));
    }
    let last = format!("{{\"seq\":{},\"prev\":\"{}\",\"kind\":\"x\"}}\n", u64::MAX, "0".repeat(64)).repeat(2);
    assert!(verify(last.as_bytes(), &[]).expect("memory reads").is_damaged());
}
