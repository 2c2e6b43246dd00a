//! What the ledger does when its disk is full, fails, hangs, or is changed by someone else.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::ledger::book::Book;
use crate::ledger::paper::{Paper, Sheet};
use crate::ledger::past::{Past, Tallies};
use crate::ledger::queue::Queue;
use crate::ledger::verify::What;
use crate::ledger::writer::Writer;
use crate::ledger::{Entry, Kind, Ledger, LedgerError, Receipt, SyncMode, Verdict};
use crate::refusal::Reason;

use super::{Desk, complete, enter, request};

/// What goes wrong, changed by the test while the writer runs.
#[derive(Default)]
struct Faults {
    /// The file may not grow beyond this.
    room: Option<u64>,
    cut_fails: bool,
    sync_fails: bool,
    hang: Duration,
}

struct Faulty {
    sheet: Sheet,
    faults: Arc<Mutex<Faults>>,
}

impl Faulty {
    fn with<T>(&self, look: impl FnOnce(&Faults) -> T) -> T {
        look(&self.faults.lock().expect("no test panics with it"))
    }
}

impl Paper for Faulty {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::thread::sleep(self.with(|faults| faults.hang));
        let length = self.sheet.length()?.unwrap_or_default();
        let room = self.with(|faults| faults.room).map_or(u64::MAX, |room| room.saturating_sub(length));
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.sheet.append(&bytes[..fits])
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        if self.with(|faults| faults.cut_fails) { Err(io::Error::other("EIO")) } else { self.sheet.cut(length) }
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.with(|faults| faults.sync_fails) { Err(io::Error::other("EIO")) } else { self.sheet.sync() }
    }

    fn syncing(&mut self) -> io::Result<impl FnMut() -> io::Result<()> + Send + 'static> {
        let mut sync = self.sheet.syncing()?;
        let faults = Arc::clone(&self.faults);
        Ok(move || {
            let fails = faults.lock().expect("no test panics with it").sync_fails;
            if fails { Err(io::Error::other("EIO")) } else { sync() }
        })
    }

    fn length(&mut self) -> io::Result<Option<u64>> {
        self.sheet.length()
    }

    fn is_in_place(&mut self) -> io::Result<bool> {
        self.sheet.is_in_place()
    }

    fn rewrite(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.with(|faults| faults.sync_fails) {
            Err(io::Error::other("EIO"))
        } else {
            self.sheet.rewrite(bytes, offset)
        }
    }
}

struct Faultable {
    desk: Desk,
    ledger: Ledger,
    faults: Arc<Mutex<Faults>>,
}

fn faultable(sync: SyncMode, deadline: Duration) -> Faultable {
    let desk = Desk::new();
    let faults = Arc::new(Mutex::new(Faults::default()));
    let sheet = Sheet::open(&desk.file()).expect("a new file");
    let book = Book::new(Faulty { sheet, faults: Arc::clone(&faults) }, 0, Receipt::NONE, false);
    let queue = Arc::new(Queue::new(book.head(), 0));
    let writer = Writer::new(Arc::clone(&queue), book, Past::NONE, sync, deadline).expect("a thread");
    let ledger = Ledger::start(queue, writer, deadline, Tallies::default()).expect("a thread");
    Faultable { desk, ledger, faults }
}

impl Faultable {
    fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.faults.lock().expect("no test panics with it"));
    }

    async fn refused(&self) -> bool {
        let told = self.ledger.enter(Verdict::allow((), request())).await.err();
        told.is_some_and(|told| told.refusal.reason() == Reason::LedgerDown)
    }

    /// Whether the file holds just this, once what the writer tries meanwhile was cut back.
    async fn holds(&self, whole: &[u8]) -> bool {
        let start = Instant::now();
        while self.desk.bytes() != whole {
            if start.elapsed() > Duration::from_secs(5) {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    }

    async fn is_up_again(&self) {
        let start = Instant::now();
        while !self.ledger.health().writable {
            assert!(start.elapsed() < Duration::from_secs(5), "{:?}", self.ledger.health());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

const DEADLINE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_full_disk_refuses_and_flows_again_without_a_torn_line() {
    let house = faultable(SyncMode::Batch, DEADLINE);
    let line = enter(&house.ledger).await;
    let whole = house.desk.bytes();
    house.set(|faults| faults.room = Some(whole.len() as u64 + 30));
    assert!(house.refused().await);
    assert!(house.holds(&whole).await, "the short write was cut back");
    let health = house.ledger.health();
    assert!(!health.writable && health.last_error.is_some() && health.alarms == 1, "{health:?}");

    line.close(complete());
    house.set(|faults| faults.room = None);
    house.is_up_again().await;
    enter(&house.ledger).await.close(complete());
    house.ledger.close().await.expect("there is room");
    let kinds: Vec<_> =
        house.desk.lines().iter().map(|line| line["kind"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "request").count(), 2, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "closed").count(), 2, "{kinds:?}");
    assert!(kinds.contains(&"alarm".to_owned()) && kinds.contains(&"refused".to_owned()), "{kinds:?}");
    assert_eq!(house.desk.codes(), []);
}

#[tokio::test]
async fn closings_wait_through_a_full_disk_in_their_order() {
    let house = faultable(SyncMode::Batch, DEADLINE);
    let mut lines = Vec::new();
    for _ in 0..1000 {
        lines.push(enter(&house.ledger).await);
    }
    house.set(|faults| faults.room = Some(0));
    for line in lines.drain(..) {
        line.close(complete());
    }
    assert!(house.refused().await);
    house.set(|faults| faults.room = None);
    house.is_up_again().await;
    house.ledger.close().await.expect("there is room");
    let closed: Vec<_> = house.desk.lines().iter().filter_map(|line| line["of"].as_u64()).collect();
    assert_eq!(closed, (1..=1000).collect::<Vec<_>>());
    assert_eq!(house.desk.codes(), []);
}

#[tokio::test]
async fn what_cannot_be_cut_back_at_once_is_cut_before_the_next_line() {
    let house = faultable(SyncMode::Batch, DEADLINE);
    drop(enter(&house.ledger).await);
    house.ledger.flush().await.expect("up");
    let whole = house.desk.bytes();
    house.set(|faults| (faults.room, faults.cut_fails) = (Some(whole.len() as u64 + 30), true));
    assert!(house.refused().await);
    assert_eq!(house.desk.bytes().len(), whole.len() + 30);
    house.set(|faults| (faults.room, faults.cut_fails) = (None, false));
    house.is_up_again().await;
    assert!(!house.refused().await);
    house.ledger.close().await.expect("there is room");
    assert_eq!(house.desk.codes(), []);
}

#[tokio::test]
async fn with_sync_always_nothing_goes_out_that_may_not_last() {
    let house = faultable(SyncMode::Always, DEADLINE);
    drop(enter(&house.ledger).await);
    house.ledger.flush().await.expect("up");
    house.set(|faults| faults.sync_fails = true);
    assert!(house.refused().await);
    assert!(house.refused().await, "a second sync would lie: it must stay down until the lines are written again");
    house.set(|faults| faults.sync_fails = false);
    house.is_up_again().await;
    assert!(!house.refused().await);
    house.ledger.close().await.expect("there is room");
    assert_eq!(house.desk.codes(), [], "the line that was refused is closed too");
}

#[tokio::test]
async fn a_note_that_may_not_last_has_no_receipt_yet() {
    let house = faultable(SyncMode::Batch, Duration::from_millis(200));
    house.set(|faults| faults.sync_fails = true);
    assert!(matches!(house.ledger.note(Entry::new(Kind::Claim)).await, Err(LedgerError::Late)));
    house.set(|faults| faults.sync_fails = false);
    house.is_up_again().await;
    house.ledger.flush().await.expect("up");
    assert_eq!(house.desk.lines()[0]["kind"], "claim");
}

#[tokio::test]
async fn a_disk_that_hangs_is_a_refusal_at_the_deadline() {
    let house = faultable(SyncMode::Batch, Duration::from_millis(200));
    house.set(|faults| faults.hang = Duration::from_millis(600));
    let start = Instant::now();
    assert!(house.refused().await);
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    house.set(|faults| faults.hang = Duration::ZERO);
    house.is_up_again().await;
    house.ledger.close().await.expect("there is room");
    assert_eq!(house.desk.codes(), [], "what came too late is closed");
}

/// The turns are a task's here, and the disk holds up the thread that it runs on; the other one waits for nothing that could
/// tell it of the time.
#[test]
fn a_disk_that_hangs_holds_up_one_thread_alone_and_is_a_refusal_at_the_deadline() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let house = runtime.block_on(async { faultable(SyncMode::Batch, Duration::from_millis(200)) });
    for _ in 0..5 {
        house.set(|faults| faults.hang = Duration::from_millis(900));
        let ledger = house.ledger.clone();
        let (tell, told) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            // Who is woken by the clock, or by a socket, wakes nobody else.
            tokio::time::sleep(Duration::from_millis(20)).await;
            let start = Instant::now();
            let told = ledger.enter(Verdict::allow((), request())).await.err();
            let _ = tell.send((told.map(|told| told.refusal.reason()), start.elapsed()));
        });
        let (reason, elapsed) = told.recv().expect("it is told");
        assert_eq!(reason, Some(Reason::LedgerDown));
        assert!(elapsed < Duration::from_millis(600), "{elapsed:?}");
        house.set(|faults| faults.hang = Duration::ZERO);
        runtime.block_on(house.is_up_again());
        std::thread::sleep(Duration::from_millis(50));
    }
    runtime.block_on(house.ledger.clone().close()).expect("there is room");
    assert_eq!(house.desk.codes(), [], "what came too late is closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_the_requests_a_full_disk_refuses_and_flows_again() {
    let house = faultable(SyncMode::Batch, DEADLINE);
    let line = enter(&house.ledger).await;
    let whole = house.desk.bytes();
    house.set(|faults| faults.room = Some(whole.len() as u64 + 30));
    assert!(house.refused().await);
    assert!(house.holds(&whole).await, "the short write was cut back");
    line.close(complete());
    house.set(|faults| faults.room = None);
    house.is_up_again().await;
    enter(&house.ledger).await.close(complete());
    house.ledger.close().await.expect("there is room");
    let lines = house.desk.lines();
    assert_eq!(lines.iter().filter(|line| line["kind"] == "closed").count(), 2, "{lines:?}");
    assert_eq!(house.desk.codes(), []);
}

#[tokio::test]
async fn a_file_changed_by_someone_else_is_never_written_on() {
    let house = faultable(SyncMode::Batch, DEADLINE);
    drop(enter(&house.ledger).await);
    house.ledger.flush().await.expect("up");
    std::fs::OpenOptions::new().write(true).open(house.desk.file()).and_then(|file| file.set_len(10)).expect("a cut");
    assert!(house.refused().await);
    assert!(house.refused().await);
    let health = house.ledger.health();
    assert!(health.last_error.as_deref().is_some_and(|error| error.contains("changed by someone else")), "{health:?}");
    assert_eq!(house.desk.bytes().len(), 10);
}

#[tokio::test]
async fn a_removed_file_is_an_outage() {
    let house = faultable(SyncMode::Batch, DEADLINE);
    drop(enter(&house.ledger).await);
    std::fs::remove_file(house.desk.file()).expect("it was there");
    assert!(house.refused().await);
    assert!(!house.ledger.health().writable);
}

#[tokio::test]
async fn a_replaced_file_is_an_outage_within_a_second() {
    let house = faultable(SyncMode::Batch, DEADLINE);
    drop(enter(&house.ledger).await);
    let kept = house.desk.file().with_extension("kept");
    std::fs::rename(house.desk.file(), &kept).expect("it was there");
    std::fs::copy(&kept, house.desk.file()).expect("a copy");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(house.refused().await);
    std::fs::rename(&kept, house.desk.file()).expect("it was there");
    house.is_up_again().await;
    assert!(!house.refused().await);
}

#[tokio::test]
async fn refusals_that_find_no_place_are_told_as_a_number() {
    let house = faultable(SyncMode::Batch, DEADLINE);
    house.set(|faults| faults.room = Some(0));
    assert!(house.refused().await);
    for at in 0..5000 {
        let id = format!("box-{at}").parse().expect("a box id");
        house.ledger.refused(Entry::new(Kind::Refused).box_id(&id).reason(Reason::NoGrant));
    }
    let unrecorded = house.ledger.health().unrecorded;
    assert!((900..1000).contains(&unrecorded), "{unrecorded}");
    house.set(|faults| faults.room = None);
    house.is_up_again().await;
    house.ledger.close().await.expect("there is room");
    let lines = house.desk.lines();
    let told: u64 =
        lines.iter().filter(|line| line["kind"] == "repeated").filter_map(|line| line["count"].as_u64()).sum();
    assert_eq!(told, unrecorded);
    assert_eq!(house.desk.codes(), []);
}

#[tokio::test]
async fn an_end_on_a_full_disk_says_that_lines_are_lost() {
    let house = faultable(SyncMode::Batch, Duration::from_secs(1));
    let line = enter(&house.ledger).await;
    house.set(|faults| faults.room = Some(0));
    line.close(complete());
    assert!(matches!(house.ledger.close().await, Err(LedgerError::Lost)));
    assert_eq!(house.desk.codes(), [What::NeverClosed]);
}

#[test]
fn of_a_batch_that_does_not_fit_the_whole_lines_stay() {
    let desk = Desk::new();
    let faults = Arc::new(Mutex::new(Faults::default()));
    let sheet = Sheet::open(&desk.file()).expect("a new file");
    let mut book = Book::new(Faulty { sheet, faults: Arc::clone(&faults) }, 0, Receipt::NONE, false);
    let body = Entry::new(Kind::Config).body();
    book.stage(&body);
    assert_eq!(book.commit().lines, 1);
    let line = desk.bytes().len() as u64;
    faults.lock().expect("not poisoned").room = Some(line * 3 + line / 2);
    let receipts: Vec<_> = (0..3).map(|_| book.stage(&body)).collect();
    let committed = book.commit();
    assert_eq!((committed.lines, committed.fault.is_some()), (2, true));
    assert_eq!((book.head(), book.staged_head()), (receipts[1], receipts[1]));
    assert_eq!((desk.lines().len(), desk.codes()), (3, vec![]));
}
