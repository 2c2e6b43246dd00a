//! Ledgers: any bytes are read to their end, in any pieces alike; of a ledger that was written well no change goes unseen.

use std::io::BufReader;

use gateway::ledger::story::{Story, is_of_run, short};
use gateway::ledger::verify::verify;
use gateway::ledger::{Entry, Kind, Receipt};
use gateway::recorded::stream::{self, Wanted};
use sha2::{Digest, Sha256};

use crate::cut;

pub(crate) fn holds(data: &[u8]) {
    let (sizes, bytes) = cut(data);
    let size = sizes.first().map_or(1, |size| usize::from(*size).max(1));
    let read = |size: usize| verify(BufReader::with_capacity(size, bytes), &[]).expect("memory reads");
    let (whole, in_pieces) = (read(1 << 16), read(size));
    assert_eq!(whole.findings, in_pieces.findings);
    assert_eq!((whole.lines, whole.head), (in_pieces.lines, in_pieces.head));
    assert!(whole.findings.len() <= 1000);
    let mut story = Story::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        story.add(line);
        let _told = is_of_run(line, "20260131T235959-0a1b2c3d");
        if let Some(short) = short(line) {
            assert!(!short.contains(|letter: char| letter.is_control()), "{short:?}");
        }
    }
    let requests = |size: usize| {
        let mut told = Vec::new();
        let reader = BufReader::with_capacity(size, bytes);
        let left = stream::read(reader, &Wanted::default(), |one| told.push(format!("{one:?}"))).expect("memory reads");
        (told, left)
    };
    assert_eq!(requests(1 << 16), requests(size));
    assert!(!story.tell().contains(|letter: char| letter.is_control() && letter != '\n'));
    changed(sizes, bytes);
}

/// A ledger whose lines say what the input says, then with one change.
fn changed(sizes: &[u8], bytes: &[u8]) {
    let (mut ledger, mut head) = (Vec::new(), Receipt::NONE);
    for text in bytes.split(|byte| *byte == b'\n').take(8) {
        let text = String::from_utf8_lossy(text);
        let entry = Entry::new(Kind::Refused).path_and_query(&text).inside(&text).fact("said", &*text);
        let prev = head.hash_text();
        let begun = format!("{{\"seq\":{},\"prev\":\"{prev}\",", head.sequence + 1);
        let line = [begun.as_bytes(), &entry.line()].concat();
        assert!(!line.contains(&b'\n'), "one line");
        head = Receipt { sequence: head.sequence + 1, hash: Sha256::digest(&line).into() };
        ledger.extend_from_slice(&line);
        ledger.push(b'\n');
    }
    let read = |ledger: &[u8]| verify(ledger, &[head]).expect("memory reads");
    let good = read(&ledger);
    assert!(good.findings.is_empty() && good.head == head, "{:?}", good.findings);
    let [kind, at, to, ..] = *sizes else { return };
    let at = (usize::from(at) * 256 + usize::from(to)) % ledger.len();
    let was = ledger.clone();
    match kind % 3 {
        0 => ledger[at] = to,
        1 => drop(ledger.remove(at)),
        _ => ledger.insert(at, to),
    }
    // The last line feed alone is no part of a line that is chained.
    if ledger != was && ledger.strip_suffix(b"\n").unwrap_or(&ledger) != was.strip_suffix(b"\n").unwrap_or(&was) {
        assert!(
            read(&ledger).findings.iter().any(|finding| finding.sequence.is_some() || finding.what.is_damage()),
            "a change at {at}"
        );
    }
}
