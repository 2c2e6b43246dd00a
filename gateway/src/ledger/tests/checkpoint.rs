//! The checkpoint: what a start takes from it, what it falls back to, and what is found of the part that it skips.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use box_spec::{BoxId, RunId};
use serde_json::Value;

use crate::ledger::checkpoint::{self, Kept};
use crate::ledger::count::{Counts, counts};
use crate::ledger::past::Past;
use crate::ledger::verify::What;
use crate::ledger::{Entry, History, Kind, Ledger, Settings, SyncMode, Verdict};
use crate::refusal::{Reason, Refusal, Told};

use super::{Desk, complete};

impl Desk {
    fn checkpoint(&self) -> PathBuf {
        self.folder.path().join("ledger.jsonl.checkpoint")
    }

    fn new_checkpoint(&self) -> PathBuf {
        self.folder.path().join("ledger.jsonl.checkpoint.new")
    }

    /// A folder with the same ledger, and this beside it.
    fn with(ledger: &[u8], checkpoint: Option<&[u8]>) -> Self {
        let desk = Self::new();
        desk.put(ledger);
        if let Some(bytes) = checkpoint {
            put(&desk.checkpoint(), bytes);
        }
        desk
    }

    fn kept(&self) -> Kept {
        let file = std::fs::File::open(self.file()).expect("a ledger");
        checkpoint::read(&self.file(), &file).expect("it reads")
    }

    fn fits(&self) -> Past {
        match self.kept() {
            Kept::Fits(past) => past,
            Kept::Nothing => panic!("there is no checkpoint"),
            Kept::Useless(why) => panic!("{why}"),
            Kept::Differs(receipt) => panic!("{receipt} is not there"),
        }
    }

    fn alarms(&self) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["alarm"] == "ledger-damaged").collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a test plants what an earlier gateway left")]
fn put(path: &std::path::Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("a file");
}

fn one() -> BoxId {
    "one".parse().expect("a box id")
}

fn run(at: u32) -> RunId {
    format!("20260131T235959-{at:08x}").parse().expect("a run id")
}

fn of(kind: Kind, at: u32) -> Entry {
    Entry::new(kind).box_id(&one()).run_id(&run(at))
}

/// A run with one request that ended, one that did not, and refusals of every kind.
async fn some_of_a_run(ledger: &Ledger, at: u32) -> crate::ledger::Line {
    let no = || Told::new(None, Refusal::new(Reason::NoGrant, "no grant", "no grant matched"));
    for _ in 0..5 {
        let heard = ledger.enter(Verdict::<()>::refuse(no(), of(Kind::Request, at))).await;
        assert!(heard.is_err());
    }
    ledger.refused(of(Kind::Refused, at).reason(Reason::CredentialOutage));
    let ((), done) = ledger.enter(Verdict::allow((), of(Kind::Request, at))).await.expect("up");
    done.close(crate::ledger::Outcome { reason: Some(Reason::SentinelAstray), ..complete() });
    ledger.enter(Verdict::allow((), of(Kind::Request, at))).await.expect("up").1
}

async fn claim(ledger: &Ledger, at: u32) {
    ledger.note(of(Kind::Claim, at)).await.expect("up");
}

/// A ledger that was closed, as bytes, with its checkpoint.
async fn closed() -> (Vec<u8>, Vec<u8>) {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    claim(&ledger, 1).await;
    drop(some_of_a_run(&ledger, 1).await);
    ledger.close().await.expect("the disk takes it");
    (desk.bytes(), std::fs::read(desk.checkpoint()).expect("a checkpoint"))
}

/// Opens it, writes one line, closes it.
async fn goes_on(desk: &Desk) {
    let ledger = desk.open().expect("it starts");
    ledger.note(Entry::new(Kind::Start)).await.expect("up");
    ledger.close().await.expect("the disk takes it");
}

async fn history(ledger: &Ledger) -> History {
    let start = Instant::now();
    while ledger.health().history == History::Reading {
        assert!(start.elapsed() < Duration::from_secs(20), "it is still being read");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ledger.health().history
}

#[tokio::test]
async fn the_checkpoint_of_the_end_is_the_whole_past() {
    let (ledger, kept) = closed().await;
    let desk = Desk::with(&ledger, Some(&kept));
    let past = desk.fits();
    assert_eq!(past, Past { length: ledger.len() as u64, ..desk.verified().past });
    assert_eq!(past.lines, desk.lines().len() as u64);
    assert_eq!(past.tallies.of(&run(1)), Some(Counts { requests: 2, refusals: 6 }));
    let counted = counts(&desk.file(), [run(1)]).expect("it reads");
    assert_eq!(past.tallies.of(&run(1)), counted.get(&run(1)).copied(), "counted line by line it is the same");
    goes_on(&desk).await;
    assert_eq!((desk.codes(), desk.alarms()), (vec![], vec![]));
}

#[tokio::test]
async fn what_stands_behind_an_older_checkpoint_is_read() {
    let first = Desk::new();
    let ledger = first.open().expect("a new ledger");
    claim(&ledger, 1).await;
    let open = some_of_a_run(&ledger, 1).await;
    // As one finds it whose gateway was killed right after its checkpoint: a line is open, and repeats were not told.
    let head = ledger.flush().await.expect("up");
    let past = first.verified().past;
    assert_eq!((past.head, past.open.len()), (head, 1));
    checkpoint::write(&first.checkpoint(), &past).expect("written");
    let kept = std::fs::read(first.checkpoint()).expect("a checkpoint");
    let also_open = some_of_a_run(&ledger, 1).await;
    ledger.flush().await.expect("up");
    let left = Desk::with(&first.bytes(), Some(&kept));
    drop((open, also_open));

    let ledger = left.open().expect("it starts");
    assert_eq!(ledger.left(&run(1)), counts(&left.file(), [run(1)]).expect("it reads").get(&run(1)).copied());
    assert_eq!(ledger.left(&run(1)).map(|counts| counts.requests), Some(4));
    assert_eq!(ledger.left(&run(2)), None);
    assert_eq!(history(&ledger).await, History::Read);
    ledger.close().await.expect("the disk takes it");
    let unknown: Vec<_> = left.lines().into_iter().filter(|line| line["ended"] == "unknown").collect();
    assert_eq!(unknown.len(), 2, "the one before the checkpoint and the one behind it");
    assert_eq!((left.codes(), left.alarms()), (vec![], vec![]));
}

#[tokio::test]
async fn a_growing_ledger_keeps_one_and_a_killed_gateway_leaves_little_to_read() {
    for sync in [SyncMode::Batch, SyncMode::Always] {
        let desk = Desk::new();
        let ledger = Ledger::open(&Settings { sync, ..Settings::new(desk.file()) }).expect("a new ledger");
        claim(&ledger, 1).await;
        let mut open = Vec::new();
        for at in 0..900 {
            let entry = of(Kind::Request, 1).path_and_query(&format!("/{}", "x".repeat(2000)));
            let ((), line) = ledger.enter(Verdict::allow((), entry)).await.expect("up");
            if at % 9 == 0 { open.push(line) } else { line.close(complete()) }
        }
        ledger.flush().await.expect("up");
        let start = Instant::now();
        while !desk.checkpoint().exists() {
            assert!(start.elapsed() < Duration::from_secs(5), "no checkpoint");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let kept = std::fs::read(desk.checkpoint()).expect("a checkpoint");
        let ((), last) = ledger.enter(Verdict::allow((), of(Kind::Request, 1))).await.expect("up");
        last.close(complete());
        ledger.flush().await.expect("up");
        let left = Desk::with(&desk.bytes(), Some(&kept));
        let past = left.fits();
        assert!(past.length > 1 << 20 && past.length < left.bytes().len() as u64, "{}", past.length);
        assert!(past.open.len() > 10, "{}", past.open.len());
        let ledger = left.open().expect("it starts");
        assert_eq!(ledger.left(&run(1)), Some(Counts { requests: 901, refusals: 0 }));
        assert_eq!(history(&ledger).await, History::Read, "what the writer gathered is what a reader finds");
        ledger.close().await.expect("the disk takes it");
        assert_eq!((left.codes(), left.alarms()), (vec![], vec![]));
        assert_eq!(left.lines().iter().filter(|line| line["ended"] == "unknown").count(), 100);
    }
}

/// Wherever the writing of a checkpoint is broken off, the next start finds the one before, or none, or the new one.
#[tokio::test]
async fn a_death_at_every_step_of_writing_one_leaves_a_ledger_that_starts() {
    let (ledger, kept) = closed().await;
    let (before, more) = {
        let desk = Desk::with(&ledger, Some(&kept));
        goes_on(&desk).await;
        (kept, (desk.bytes(), std::fs::read(desk.checkpoint()).expect("a checkpoint")))
    };
    let (ledger, after) = more;
    for old in [None, Some(&before[..])] {
        for new in (0..=after.len()).step_by(13).chain([after.len()]) {
            let desk = Desk::with(&ledger, old);
            put(&desk.new_checkpoint(), &after[..new]);
            goes_on(&desk).await;
            assert_eq!((desk.codes(), desk.alarms()), (vec![], vec![]), "{new}");
            assert_eq!(desk.fits().length, desk.bytes().len() as u64, "what was left does not keep a new one away");
            assert!(!desk.new_checkpoint().exists());
        }
    }
}

#[tokio::test]
async fn a_checkpoint_that_is_torn_changed_or_of_another_version_is_not_believed() {
    let (ledger, kept) = closed().await;
    let text = String::from_utf8(kept.clone()).expect("text");
    let newer = {
        let json = text[65..].trim_end().replacen("\"version\":1", "\"version\":2", 1);
        assert!(json.contains("\"version\":2"));
        format!("{} {json}\n", crate::ledger::chain::hex(&crate::ledger::chain::hash_of(json.as_bytes()))).into_bytes()
    };
    let torn = (0..kept.len()).step_by(11).map(|length| kept[..length].to_vec());
    let changed = (0..kept.len()).step_by(7).map(|at| {
        let mut bytes = kept.clone();
        bytes[at] ^= 1;
        bytes
    });
    for bad in torn.chain(changed).chain([newer, b"{}".to_vec(), vec![0; 4096]]) {
        let desk = Desk::with(&ledger, Some(&bad));
        assert!(matches!(desk.kept(), Kept::Useless(_)), "{}", String::from_utf8_lossy(&bad));
        let opened = desk.open().expect("it starts");
        assert_eq!(opened.health().history, History::Read, "the whole ledger was read");
        assert_eq!(opened.left(&run(1)), Some(Counts { requests: 2, refusals: 6 }));
        opened.close().await.expect("the disk takes it");
        assert_eq!((desk.codes(), desk.alarms()), (vec![], vec![]));
        assert_eq!(desk.fits().length, desk.bytes().len() as u64);
    }
}

#[tokio::test]
async fn a_ledger_that_lost_the_line_of_its_checkpoint_is_an_alarm_with_its_receipt() {
    let (ledger, kept) = closed().await;
    let receipt = Desk::with(&ledger, Some(&kept)).fits().head.to_string();
    let (foreign, _) = closed().await;
    let ends: Vec<_> = ledger.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let cut = ends[..ends.len() - 1].iter().map(|end| ledger[..*end].to_vec());
    for left in cut.chain([Vec::new(), ledger[..ledger.len() - 7].to_vec(), foreign]) {
        let desk = Desk::with(&left, Some(&kept));
        goes_on(&desk).await;
        let alarms = desk.verified_alarms(&left);
        assert_eq!(alarms.len(), 1, "{} of {} bytes", left.len(), ledger.len());
        assert_eq!(alarms[0]["facts"]["receipt"], receipt.as_str());
        assert!(alarms[0]["inside"].as_str().is_some_and(|text| text.contains("cut off")), "{}", alarms[0]);
        goes_on(&desk).await;
        assert_eq!(desk.verified_alarms(&left).len(), 1, "it was told");
    }
}

#[tokio::test]
async fn damage_in_the_part_that_was_skipped_is_found_after_the_start() {
    let (ledger, kept) = closed().await;
    let text = String::from_utf8(ledger.clone()).expect("text");
    let first = text.find('\n').expect("lines") + 1;
    let second = first + text[first..].find('\n').expect("lines") + 1;
    let mut edited = ledger.clone();
    let at = text[first..second].find("no-grant").expect("a refusal") + first;
    edited[at..at + 8].copy_from_slice(b"on-grant");
    let mut zeroed = ledger.clone();
    zeroed[first + 10..first + 40].fill(0);
    let removed = [&ledger[..first], &ledger[second..]].concat();
    for bad in [edited, zeroed] {
        let desk = Desk::with(&bad, Some(&kept));
        let opened = desk.open().expect("it starts");
        assert_eq!(history(&opened).await, History::Damaged);
        opened.flush().await.expect("up");
        assert_eq!(desk.file_text().matches("\"alarm\":\"ledger-damaged\"").count(), 1);
        assert_eq!(opened.health().alarms, 1);
        opened.close().await.expect("the disk takes it");
    }
    // Its line stands elsewhere now, which shows at once.
    let desk = Desk::with(&removed, Some(&kept));
    let opened = desk.open().expect("it starts");
    assert_eq!(opened.health().history, History::Read);
    opened.close().await.expect("the disk takes it");
    assert_eq!(desk.file_text().matches("\"alarm\":\"ledger-damaged\"").count(), 2, "what is lost, and what it did");
    assert!(desk.codes().iter().any(|what| matches!(what, What::Removed { .. })));
}

/// A checkpoint that says other than the ledger, and is whole by itself: the ledger decides, after the start.
#[tokio::test]
async fn a_checkpoint_that_lies_is_found_after_the_start() {
    let (ledger, kept) = closed().await;
    let desk = Desk::with(&ledger, Some(&kept));
    let mut past = desk.fits();
    past.tallies = crate::ledger::past::Tallies::default();
    checkpoint::write(&desk.checkpoint(), &past).expect("written");
    let opened = desk.open().expect("it starts");
    assert_eq!(opened.left(&run(1)), None, "what is not known is counted from the ledger");
    assert_eq!(history(&opened).await, History::Damaged);
    opened.close().await.expect("the disk takes it");
    assert_eq!(desk.alarms().len(), 1);
}

#[tokio::test]
async fn where_none_can_be_written_the_ledger_goes_on_without() {
    let desk = Desk::new();
    std::fs::create_dir(desk.checkpoint()).expect("something in its place");
    goes_on(&desk).await;
    goes_on(&desk).await;
    assert_eq!((desk.lines().len(), desk.codes()), (2, vec![]));
}

#[tokio::test]
async fn a_torn_tail_behind_the_checkpoint_is_kept_and_vouched_for() {
    let (ledger, kept) = closed().await;
    let torn = [&ledger[..], b"{\"seq\":9,\"prev\":\"12"].concat();
    let desk = Desk::with(&torn, Some(&kept));
    let opened = desk.open().expect("it starts");
    assert_eq!(history(&opened).await, History::Read);
    opened.close().await.expect("the disk takes it");
    assert_eq!(desk.codes(), [What::Fragment { bytes: 19 }]);
    let lines = desk.file_text().lines().count() as u64;
    assert_eq!((desk.fits().lines, desk.fits().length), (lines, desk.bytes().len() as u64));
    let opened = desk.open().expect("it starts");
    assert_eq!(history(&opened).await, History::Read);
    assert!(desk.file_text().matches("ledger-damaged").count() == 0);
    opened.close().await.expect("the disk takes it");
}

impl Desk {
    fn file_text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The alarms of a ledger that began with these bytes, torn ones among them.
    fn verified_alarms(&self, before: &[u8]) -> Vec<Value> {
        let bytes = self.bytes();
        assert!(bytes.starts_with(before), "what stood there was changed");
        assert!(!self.verified().is_damaged(), "{:?}", self.codes());
        let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        lines.filter(|line: &Value| line["alarm"] == "ledger-damaged").collect()
    }
}
