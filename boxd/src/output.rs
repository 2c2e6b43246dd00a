//! The agent's standard output: read to its end whatever happens, kept byte for byte, and looked at line by line.
//!
//! Writing is done by a thread of its own, since a full terminal, pipe or disk may block it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use box_spec::Agent;
use box_spec::StdoutRecord;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::agent::{Answer, Listener, Word};
use crate::screen::Outlet;

/// The agent's output on its way.
pub(crate) struct Drain {
    reader: JoinHandle<()>,
    answered: watch::Receiver<Option<Answer>>,
    written: oneshot::Receiver<Written>,
}

/// What became of the bytes.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) record: StdoutRecord,
    /// Why not all of them were printed, where the caller should have had them. A reader that went away had enough.
    pub(crate) unprinted: Option<io::Error>,
}

/// Where the bytes go.
pub(crate) struct Sinks {
    /// The transcript, where it could be made.
    pub(crate) transcript: Option<File>,
    /// Whether the bytes go to boxd's own standard output too.
    pub(crate) native: bool,
}

/// Starts reading.
pub(crate) fn drain(pipe: OwnedFd, agent: Agent, sinks: Sinks) -> io::Result<Drain> {
    let pipe = Receiver::from_owned_fd(pipe)?;
    let (chunks, to_write) = mpsc::channel(CHUNKS);
    let (done, written) = oneshot::channel();
    thread::Builder::new().name("output".to_owned()).stack_size(STACK).spawn(move || {
        let _ = done.send(write_all(to_write, sinks));
    })?;
    let (said, answered) = watch::channel(None);
    let reader = tokio::spawn(read_all(pipe, agent, chunks, said));
    Ok(Drain { reader, answered, written })
}

impl Drain {
    /// Waits until the agent has given its final answer, or where it `stands` already has taken it back; tells whether
    /// one stands now.
    pub(crate) async fn answer(&mut self, stands: bool) -> bool {
        if self.answered.wait_for(|answer| answer.is_some() != stands).await.is_err() {
            std::future::pending::<()>().await;
        }
        !stands
    }

    /// Takes what is left once every writer should be gone, and says what there was. Does not wait for a process
    /// that holds the pipe open, nor for a reader of ours that takes nothing.
    pub(crate) async fn finish(mut self) -> (Written, Option<Answer>) {
        if timeout(REST, &mut self.reader).await.is_err() {
            self.reader.abort();
        }
        let written = timeout(REST, self.written).await;
        let written = written.ok().and_then(Result::ok).unwrap_or_default();
        let answer = self.answered.borrow().clone();
        (written, answer)
    }
}

async fn read_all(
    mut pipe: Receiver,
    agent: Agent,
    chunks: mpsc::Sender<Vec<u8>>,
    said: watch::Sender<Option<Answer>>,
) {
    let mut lines = Lines::default();
    let mut listener = Listener::new(agent);
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        match pipe.read_buf(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        lines.take(&chunk, |line| match listener.hear(line) {
            Some(Word::Final(answer)) => drop(said.send_replace(Some(answer))),
            Some(Word::Anew) => drop(said.send_if_modified(|answer| answer.take().is_some())),
            None => {}
        });
        // The writer lives until this sender is dropped.
        let _ = chunks.send(chunk).await;
    }
    if let Some(answer) = listener.last_word().filter(|_| said.borrow().is_none()) {
        said.send_replace(Some(answer));
    }
}

/// Cuts a stream into lines at line feeds alone. A line above the limit is skipped, here and nowhere else.
#[derive(Default)]
struct Lines {
    held: Vec<u8>,
    skipping: bool,
}

impl Lines {
    fn take(&mut self, chunk: &[u8], mut see: impl FnMut(&[u8])) {
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if self.skipping {
                self.skipping = false;
            } else if self.held.is_empty() {
                see(line);
            } else {
                self.held.extend_from_slice(line);
                see(&self.held);
            }
            self.held = Vec::new();
            rest = after;
        }
        if self.held.len() + rest.len() > LINE_LIMIT {
            self.held = Vec::new();
            self.skipping = true;
        } else if !self.skipping {
            self.held.extend_from_slice(rest);
        }
    }
}

/// The writing thread. A sink that fails is left alone from then on; the bytes are counted all the same.
fn write_all(mut chunks: mpsc::Receiver<Vec<u8>>, sinks: Sinks) -> Written {
    let mut digest = Sha256::new();
    let mut bytes = 0_u64;
    let mut transcript = sinks.transcript;
    let mut own = sinks.native.then(|| Outlet::new(io::stdout()));
    let mut unprinted = None;
    while let Some(chunk) = chunks.blocking_recv() {
        digest.update(&chunk);
        bytes += chunk.len() as u64;
        if transcript.as_mut().is_some_and(|file| file.write_all(&chunk).is_err()) {
            transcript = None;
        }
        if let Some(Err(fault)) = own.as_mut().map(|own| own.write(&chunk)) {
            unprinted = matters(fault);
            own = None;
        }
    }
    let record = StdoutRecord { bytes, sha256: hex(&digest.finalize()), kept: transcript.is_some() };
    Written { record, unprinted }
}

/// A fault of printing, unless the reader went away: then it had enough, as `head` has.
pub(crate) fn matters(fault: io::Error) -> Option<io::Error> {
    (fault.kind() != io::ErrorKind::BrokenPipe).then_some(fault)
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

const CHUNK: usize = 16 * 1024;
/// Chunks between the reader and the writer; then the agent waits.
const CHUNKS: usize = 8;
const LINE_LIMIT: usize = 1024 * 1024;
/// For what is left when the agent has ended, and for its writing.
const REST: Duration = Duration::from_secs(3);
const STACK: usize = 128 * 1024;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
mod tests {
    use std::fs::File;
    use std::io::{self, Write};
    use std::os::fd::OwnedFd;

    use box_spec::Agent;

    use super::{LINE_LIMIT, Lines, Sinks, Written, drain, matters};

    fn lines_of(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for chunk in chunks {
            lines.take(chunk, |line| seen.push(line.to_vec()));
        }
        seen
    }

    #[test]
    fn lines_end_at_line_feeds_alone() {
        let seen = lines_of(&[b"a\rb\xe2\x80\xa8c", b"d\n\n", b"e\nf"]);
        assert_eq!(seen, [&b"a\rb\xe2\x80\xa8cd"[..], b"", b"e"]);
    }

    #[test]
    fn a_line_above_the_limit_is_skipped_and_the_next_is_seen() {
        let half = vec![b'x'; LINE_LIMIT / 2 + 1];
        assert_eq!(lines_of(&[&half, &half, &half, b"end\nnext\n"]), [b"next"]);
    }

    #[tokio::test]
    async fn every_byte_is_kept_and_hashed_and_the_answer_is_seen() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("t");
        let (read, write) = nix::unistd::pipe().expect("a pipe");
        let sinks = Sinks { transcript: Some(File::create(&path).expect("a file")), native: false };
        let mut drain = drain(read, Agent::Claude, sinks).expect("started");
        let mut sent = vec![0xff; 3_000_000];
        sent.extend_from_slice(b"\n{\"type\":\"result\",\"result\":\"hi\"}\nno end");
        let writing = std::thread::spawn({
            let sent = sent.clone();
            move || File::from(write).write_all(&sent).expect("sent")
        });
        drain.answer(false).await;
        let (Written { record, .. }, answer) = drain.finish().await;
        writing.join().expect("the writer");
        assert_eq!(answer.expect("an answer").text, "hi");
        assert!(record.kept && record.bytes == sent.len() as u64);
        assert!(std::fs::read(&path).expect("read") == sent);
    }

    #[test]
    fn a_full_disk_matters_and_a_reader_that_went_away_does_not() {
        let kind = |kind: io::ErrorKind| matters(io::Error::from(kind)).map(|fault| fault.kind());
        assert_eq!(kind(io::ErrorKind::StorageFull), Some(io::ErrorKind::StorageFull));
        assert_eq!(kind(io::ErrorKind::BrokenPipe), None);
    }

    #[tokio::test]
    async fn the_pipe_is_drained_when_the_transcript_cannot_be_written() {
        let (read, write) = nix::unistd::pipe().expect("a pipe");
        let full: OwnedFd = File::options().write(true).open("/dev/full").expect("opened").into();
        let sinks = Sinks { transcript: Some(full.into()), native: false };
        let drain = drain(read, Agent::Claude, sinks).expect("started");
        let writing = std::thread::spawn(move || File::from(write).write_all(&[7; 1_000_000]).expect("drained"));
        let (Written { record, .. }, _) = drain.finish().await;
        writing.join().expect("the writer");
        assert!(!record.kept && record.bytes == 1_000_000);
    }
}
