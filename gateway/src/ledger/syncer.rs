//! The syncer: a thread that waits for the disk, so that the writer does not. One sync at a time, and the checkpoints.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use super::checkpoint;
use super::past::Past;
use super::queue::Queue;

/// Makes the file durable when asked, and answers through the queue.
pub(super) struct Syncer {
    /// Taken at the end, so that the thread ends.
    asks: Option<mpsc::SyncSender<Ask>>,
    thread: Option<JoinHandle<()>>,
}

/// Up to which length, and the checkpoint to be written when that is durable, with its path.
type Ask = (u64, Option<(PathBuf, Past)>);

impl Syncer {
    pub(super) fn start(
        queue: Arc<Queue>,
        mut sync: impl FnMut() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (asks, asked) = mpsc::sync_channel::<Ask>(1);
        let run = move || {
            for (length, checkpoint) in asked {
                let synced = sync();
                let checkpoint = checkpoint.filter(|_| synced.is_ok());
                // Who waits for the sync does not wait for this.
                queue.synced(length, synced);
                if let Some((path, past)) = checkpoint {
                    checkpoint::write_or_tell(&path, &past);
                }
            }
        };
        let thread = thread::Builder::new().name("ledger-sync".to_owned()).spawn(run)?;
        Ok(Self { asks: Some(asks), thread: Some(thread) })
    }

    /// Asks for everything up to this length. Not to be called before the answer to the last ask has come.
    pub(super) fn ask(&self, length: u64, checkpoint: Option<(PathBuf, Past)>) -> io::Result<()> {
        let asks = self.asks.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        asks.try_send((length, checkpoint)).map_err(|_| io::Error::other("the ledger's syncer does not answer"))
    }
}

impl Drop for Syncer {
    /// Waits for the thread: it holds the file, and with it the lock.
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // It ends by itself; if it failed, there is nothing left to do.
            let _ = thread.join();
        }
    }
}
