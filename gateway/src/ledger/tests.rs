//! The ledger as its callers and a later reader see it, on real files.

use std::path::PathBuf;
use std::time::Duration;

use box_spec::BoxId;
use serde_json::Value;

use crate::refusal::{Reason, Refusal, Told};

use super::verify::{Verified, What, verify};
use super::{Ended, Entry, Kind, Ledger, LedgerError, Outcome, Settings, SyncMode, Verdict};

mod checkpoint;
mod disk;
mod tamper;

/// A ledger in a folder of its own.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ledger.jsonl")
    }

    fn open(&self) -> Result<Ledger, LedgerError> {
        Ledger::open(&Settings::new(self.file()))
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.file()).expect("the ledger reads")
    }

    #[expect(clippy::disallowed_methods, reason = "a test plants what an earlier gateway left")]
    fn put(&self, bytes: &[u8]) {
        std::fs::write(self.file(), bytes).expect("a file");
    }

    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.bytes()).expect("a ledger is UTF-8");
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    fn verified(&self) -> Verified {
        verify(&self.bytes()[..], &[]).expect("memory reads")
    }

    fn codes(&self) -> Vec<What> {
        self.verified().findings.into_iter().map(|finding| finding.what).collect()
    }
}

fn request() -> Entry {
    let id: BoxId = "one".parse().expect("a box id");
    Entry::new(Kind::Request).box_id(&id).method(&http::Method::POST).path_and_query("/v1/messages?beta=true")
}

fn told() -> Told {
    Told::new(None, Refusal::new(Reason::NoGrant, "no grant", "no grant matched"))
}

async fn enter(ledger: &Ledger) -> super::Line {
    ledger.enter(Verdict::allow((), request())).await.expect("the ledger is up").1
}

fn complete() -> Outcome {
    Outcome { status: Some(200), bytes_up: 10, bytes_down: 20, ended: Ended::Complete, ..Outcome::default() }
}

#[tokio::test]
async fn a_line_is_opened_before_its_value_is_given_out_and_closed_once() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let (value, line) = ledger.enter(Verdict::allow("permit", request())).await.expect("up");
    assert_eq!((value, line.sequence()), ("permit", 1));
    let opened = desk.lines();
    assert_eq!((opened.len(), &opened[0]["kind"], &opened[0]["open"]), (1, &"request".into(), &true.into()));
    line.close(complete());
    ledger.close().await.expect("the disk takes it");
    let lines = desk.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[1]["kind"], &lines[1]["of"], &lines[1]["ended"]),
        (&"closed".into(), &1.into(), &"complete".into())
    );
    assert_eq!((&lines[1]["status"], &lines[1]["box"]), (&200.into(), &"one".into()));
    assert_eq!(desk.codes(), []);
}

#[tokio::test]
async fn a_closing_goes_with_the_next_line_and_by_itself_where_none_comes() {
    closes_with_company_or_alone().await;
}

/// The same where a task takes the turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_the_requests_a_closing_goes_with_the_next_line_and_by_itself_where_none_comes() {
    closes_with_company_or_alone().await;
}

/// A runtime that is gone took the task with it: what is left is the thread's.
#[test]
fn a_ledger_outlives_the_runtime_that_it_was_opened_in() {
    let desk = Desk::new();
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let first = runtime();
    let (ledger, line) = first.block_on(async {
        let ledger = desk.open().expect("a new ledger");
        let line = enter(&ledger).await;
        (ledger, line)
    });
    drop(first);
    runtime().block_on(async {
        line.close(complete());
        enter(&ledger).await.close(complete());
        ledger.close().await.expect("the disk takes it");
    });
    assert_eq!((desk.lines().len(), desk.codes()), (4, vec![]));
}

async fn closes_with_company_or_alone() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let kinds = || desk.lines().iter().map(|line| line["kind"].clone()).collect::<Vec<_>>();
    enter(&ledger).await.close(complete());
    let last = enter(&ledger).await;
    assert_eq!(kinds(), ["request", "closed", "request"], "in their order, and before the next is given out");
    // Long enough for the writer to sleep until it is told.
    tokio::time::sleep(Duration::from_millis(300)).await;
    last.close(complete());
    let written = async {
        while kinds().len() < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), written).await.expect("nothing else came, and it was written");
    assert_eq!(desk.codes(), []);
}

#[tokio::test]
async fn a_dropped_line_is_closed_as_aborted() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let mut line = enter(&ledger).await;
    line.note_injected([http::header::AUTHORIZATION]);
    drop(line);
    ledger.close().await.expect("the disk takes it");
    let lines = desk.lines();
    assert_eq!((&lines[1]["ended"], &lines[1]["injected"][0]), (&"aborted".into(), &"authorization".into()));
}

#[tokio::test]
async fn a_line_that_is_dropped_after_its_run_was_over_is_cut() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let over = tokio_util::sync::CancellationToken::new();
    for is_over in [false, true] {
        let mut line = enter(&ledger).await;
        line.note_over(over.clone());
        if is_over {
            over.cancel();
        }
        drop(line);
    }
    ledger.close().await.expect("the disk takes it");
    let lines = desk.lines();
    let ended: Vec<_> = lines.iter().filter_map(|line| line["ended"].as_str()).collect();
    assert_eq!(ended, ["aborted", "cut"]);
}

#[tokio::test]
async fn a_caller_that_goes_away_while_it_waits_leaves_no_line_open() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    for _ in 0..100 {
        let mut entering = Box::pin(ledger.enter(Verdict::allow((), request())));
        drop(futures_util::poll!(&mut entering));
        drop(entering);
    }
    ledger.close().await.expect("the disk takes it");
    assert_eq!(desk.codes(), []);
}

#[tokio::test]
async fn a_refusal_is_a_line_and_those_like_it_are_counted() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    for _ in 0..500 {
        let heard = ledger.enter(Verdict::<()>::refuse(told(), request())).await;
        assert_eq!(heard.err(), Some(told()));
    }
    assert_eq!(ledger.health().refusals, 500);
    ledger.close().await.expect("the disk takes it");
    let lines = desk.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[0]["kind"], &lines[0]["asked"], &lines[0]["reason"]),
        (&"refused".into(), &"request".into(), &"no-grant".into())
    );
    assert_eq!((&lines[1]["kind"], &lines[1]["count"]), (&"repeated".into(), &499.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_once_are_a_thousand_lines_in_one_chain() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let ledger = ledger.clone();
        tasks.spawn(async move {
            let line = enter(&ledger).await;
            let sequence = line.sequence();
            line.close(complete());
            sequence
        });
    }
    let mut sequences: Vec<_> = tasks.join_all().await;
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences.len(), 1000);
    ledger.close().await.expect("the disk takes it");
    let verified = desk.verified();
    assert_eq!((verified.lines, verified.findings.len()), (2000, 0));
}

#[tokio::test]
async fn a_note_is_in_the_file_when_its_receipt_is_given() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let first = ledger.note(Entry::new(Kind::Claim).fact("agent", "claude")).await.expect("up");
    assert_eq!(desk.lines()[0]["facts"]["agent"], "claude");
    let receipt = ledger.note(Entry::new(Kind::Report)).await.expect("up");
    assert_eq!((first.sequence, receipt.sequence, ledger.head()), (1, 2, receipt));
    assert_eq!(ledger.flush().await.expect("up"), receipt);
    assert!(verify(&desk.bytes()[..], &[first, receipt]).expect("memory reads").findings.is_empty());
}

#[tokio::test]
async fn with_sync_always_a_line_is_durable_first() {
    let desk = Desk::new();
    let settings = Settings { sync: SyncMode::Always, ..Settings::new(desk.file()) };
    let ledger = Ledger::open(&settings).expect("a new ledger");
    enter(&ledger).await.close(complete());
    ledger.close().await.expect("the disk takes it");
    assert_eq!((desk.lines().len(), desk.codes()), (2, vec![]));
}

#[tokio::test]
async fn a_second_gateway_is_refused_by_name_of_the_file() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let fault = desk.open().err().expect("locked");
    assert!(matches!(fault, LedgerError::Locked { .. }) && fault.to_string().contains("ledger.jsonl"), "{fault}");
    ledger.close().await.expect("the disk takes it");
    assert!(desk.open().is_ok());
}

#[tokio::test]
async fn the_file_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::new();
    desk.put(b"");
    std::fs::set_permissions(desk.file(), PermissionsExt::from_mode(0o644)).expect("a mode");
    let _ledger = desk.open().expect("an empty ledger");
    assert_eq!(std::fs::metadata(desk.file()).expect("it is there").permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_file_that_is_no_ledger_is_left_alone() {
    let desk = Desk::new();
    desk.put(b"root:x:0:0\nbin:x:1:1\n");
    assert!(matches!(desk.open().err(), Some(LedgerError::NotALedger { .. })));
    assert_eq!(desk.bytes(), b"root:x:0:0\nbin:x:1:1\n");
}

/// Case R20: three lines and a fragment, then two new lines.
#[tokio::test]
async fn a_torn_last_line_does_not_swallow_the_next() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    for _ in 0..3 {
        ledger.note(Entry::new(Kind::Config)).await.expect("up");
    }
    ledger.close().await.expect("the disk takes it");
    let before = desk.bytes();
    let fragment = br#"{"ts":1,"host":"a.te"#;
    desk.put(&[&before[..], fragment].concat());
    assert_eq!(desk.codes(), [What::TornTail { bytes: fragment.len() as u64 }]);

    let ledger = desk.open().expect("it starts");
    for _ in 0..2 {
        ledger.note(Entry::new(Kind::Config)).await.expect("up");
    }
    ledger.close().await.expect("the disk takes it");
    let after = desk.bytes();
    assert!(after.starts_with(&[&before[..], fragment, b"\n"].concat()));
    let verified = desk.verified();
    assert_eq!(verified.lines, 6, "3 + 2 and the one that tells of the fragment");
    assert_eq!(desk.codes(), [What::Fragment { bytes: fragment.len() as u64 }]);
    assert!(!verified.is_damaged());
}

#[tokio::test]
async fn lines_that_a_killed_gateway_left_open_are_closed_as_unknown() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let (_first, _second) = (enter(&ledger).await, enter(&ledger).await);
    let left = Desk::new();
    left.put(&desk.bytes());
    assert_eq!(left.codes(), [What::NeverClosed, What::NeverClosed]);
    left.open().expect("it starts").close().await.expect("the disk takes it");
    let lines = left.lines();
    assert_eq!(lines.len(), 4);
    for (line, of) in lines[2..].iter().zip([1, 2]) {
        assert_eq!((&line["of"], &line["ended"], &line["box"]), (&of.into(), &"unknown".into(), &"one".into()));
    }
    assert_eq!(left.codes(), []);
}

#[tokio::test]
async fn lines_still_open_at_the_end_are_closed_by_it() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let line = enter(&ledger).await;
    ledger.close().await.expect("the disk takes it");
    line.close(complete());
    assert_eq!((desk.lines().len(), desk.codes()), (2, vec![]));
}

#[tokio::test]
async fn alarms_are_counted_each_and_written_by_likeness() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    for _ in 0..20 {
        ledger.alarm("second-claim", request().inside("a claim on a door that has a run"));
    }
    assert_eq!(ledger.health().alarms, 20);
    ledger.close().await.expect("the disk takes it");
    let lines = desk.lines();
    assert_eq!((lines.len(), &lines[0]["alarm"], &lines[1]["count"]), (2, &"second-claim".into(), &19.into()));
}

#[tokio::test]
async fn an_entry_costs_microseconds() {
    let desk = Desk::new();
    let ledger = desk.open().expect("a new ledger");
    let mut costs = Vec::new();
    for _ in 0..2000 {
        let start = std::time::Instant::now();
        let line = enter(&ledger).await;
        costs.push(start.elapsed());
        line.close(complete());
    }
    costs.sort_unstable();
    assert!(costs[1000] < Duration::from_millis(5), "{:?}", costs[1000]);
}
