//! Turns: who lets the writer write. A task takes the turn that a request waits for, on the thread that the request is served
//! on, so that neither has to be woken. The ledger's own thread takes all others: what is due, what nobody waits for, the end.
//!
//! A disk that hangs holds up the task, and with it one thread of the runtime. The ledger's thread sees that and wakes another,
//! so that whoever waits is refused in time. Where the runtime has no other, there is no task.

use std::io;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;

use super::paper::Paper;
use super::queue::Queue;
use super::writer::Writer;

/// The writer, while there is one. Never waited for: whoever finds it taken leaves the turn to who has it.
type Seat<P> = Arc<Mutex<Option<Writer<P>>>>;

/// Begins. What is given changes when the writer has gone: whether it left nothing unwritten.
pub(super) fn start<P: Paper>(queue: Arc<Queue>, writer: Writer<P>) -> io::Result<watch::Receiver<bool>> {
    let (alive, gone) = watch::channel(false);
    queue.next_due(writer.wakes_at());
    let seat: Seat<P> = Arc::new(Mutex::new(Some(writer)));
    let runtime = Handle::try_current().ok().filter(has_another_thread);
    if let Some(runtime) = &runtime {
        queue.has_task(true);
        runtime.spawn(beside_requests(Task(Arc::clone(&queue)), Arc::clone(&seat)));
    }
    let thread = std::thread::Builder::new().name("ledger".to_owned());
    thread.spawn(move || {
        let is_whole = by_thread(&queue, &seat, runtime.as_ref());
        alive.send_replace(is_whole);
    })?;
    Ok(gone)
}

fn has_another_thread(runtime: &Handle) -> bool {
    runtime.runtime_flavor() == RuntimeFlavor::MultiThread && runtime.metrics().num_workers() > 1
}

async fn beside_requests<P: Paper>(task: Task, seat: Seat<P>) {
    let Task(queue) = &task;
    let mut has_had_turn = false;
    while std::future::poll_fn(|cx| queue.poll_urgent(cx, &mut has_had_turn)).await {
        let _gone = Gone { queue, always: false };
        let was_taken = match seat.try_lock() {
            Ok(mut seat) => seat.as_mut().map(Writer::turn).is_some(),
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => false,
        };
        queue.turn_ended(was_taken);
        has_had_turn = true;
    }
}

/// Until the queue is stopped. Whether nothing was left unwritten.
fn by_thread<P: Paper>(queue: &Queue, seat: &Seat<P>, runtime: Option<&Handle>) -> bool {
    let _gone = Gone { queue, always: true };
    loop {
        queue.turn_of_thread(|| rouse(runtime));
        queue.tell_repeats(false);
        let mut seat = match seat.try_lock() {
            Ok(seat) => seat,
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(TryLockError::Poisoned(_)) => return false,
        };
        let Some(writer) = seat.as_mut() else { return false };
        if writer.turn() && writer.finish() {
            return seat.take().is_some_and(Writer::end);
        }
    }
}

/// Wakes a thread of the runtime, which then waits for sockets and timers in the place of the one that is held up.
fn rouse(runtime: Option<&Handle>) {
    if let Some(runtime) = runtime {
        runtime.spawn(async {});
    }
}

/// The task; when it ends, with the runtime or before, its turns are the thread's.
struct Task(Arc<Queue>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.has_task(false);
    }
}

/// Tells the queue that nobody takes from it any more: at the end, and when the writer fails.
struct Gone<'a> {
    queue: &'a Queue,
    always: bool,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let has_failed = std::thread::panicking();
        if has_failed {
            self.queue.health.went_down("the ledger's writer failed");
        }
        if has_failed || self.always {
            self.queue.abandon();
        }
    }
}

/// For the other to end its turn.
const PAUSE: Duration = Duration::from_millis(1);
