//! The caller's terminal: what an agent says is shown on it and never steers it.
//!
//! Into a pipe or a file the bytes go as they came; that is for whoever reads them.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// The agent's standard error on its way to the caller's. The agent itself holds one end of a pipe and nothing of its
/// caller's: from a descriptor of a terminal or a file it could read, and open it again for more.
pub(crate) struct Errors {
    ended: oneshot::Receiver<()>,
}

/// Where an agent's bytes go: as they are, or as text that a terminal only shows.
pub(crate) struct Outlet<W> {
    to: W,
    plain: Option<Plain>,
}

/// Starts to pass on what comes through the pipe.
pub(crate) fn errors(pipe: OwnedFd) -> io::Result<Errors> {
    let (done, ended) = oneshot::channel();
    thread::Builder::new().name("errors".to_owned()).stack_size(STACK).spawn(move || {
        pass_on(File::from(pipe), Outlet::new(io::stderr()));
        // Nobody waits any more when something of the agent held the pipe for too long.
        let _ = done.send(());
    })?;
    Ok(Errors { ended })
}

impl Errors {
    /// Waits until all is passed on, but not for a process that keeps the pipe open.
    pub(crate) async fn finish(self) {
        let _ = timeout(REST, self.ended).await;
    }
}

impl<W: Write + IsTerminal> Outlet<W> {
    pub(crate) fn new(to: W) -> Self {
        let plain = to.is_terminal().then(Plain::default);
        Self { to, plain }
    }
}

impl<W: Write> Outlet<W> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.plain {
            Some(plain) => self.to.write_all(plain.take(bytes).as_bytes())?,
            None => self.to.write_all(bytes)?,
        }
        self.to.flush()
    }
}

/// A pipe is read to its end even when nobody takes what comes: a full one would hold up the agent.
fn pass_on<W: Write>(mut pipe: File, mut outlet: Outlet<W>) {
    let mut chunk = [0; 16 * 1024];
    let mut is_heard = true;
    loop {
        match pipe.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => is_heard = is_heard && outlet.write(&chunk[..count]).is_ok(),
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Bytes made into text without control characters, across the cuts between chunks.
#[derive(Default)]
struct Plain {
    /// The beginning of a character whose rest has not come.
    begun: Vec<u8>,
}

impl Plain {
    fn take(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let rest = self.begun.split_off(self.begun.len() - unfinished(&self.begun));
        let text = String::from_utf8_lossy(&self.begun).chars().map(shown).collect();
        self.begun = rest;
        text
    }
}

/// How many bytes at the end begin a character and do not end it.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let start = (0..tail.len()).find(|at| {
        std::str::from_utf8(&tail[*at..]).is_err_and(|fault| fault.valid_up_to() == 0 && fault.error_len().is_none())
    });
    start.map_or(0, |at| tail.len() - at)
}

/// A control character, or one that turns the direction of text, is replaced; lines and tabs stay.
fn shown(character: char) -> char {
    let is_command = character.is_control() && !matches!(character, '\n' | '\r' | '\t')
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if is_command { '\u{fffd}' } else { character }
}

/// For what is still in the pipe once every writer should be gone.
const REST: Duration = Duration::from_secs(2);
const STACK: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::Plain;

    #[test]
    fn a_terminal_is_shown_everything_and_told_nothing() {
        for (chunks, expected) in [
            (&[&b"a\tb\r\n"[..]][..], "a\tb\r\n"),
            (&[b"\x1b]0;x\x07"], "\u{fffd}]0;x\u{fffd}"),
            (&[b"\xc2", b"\x9b2J"], "\u{fffd}2J"),
            (&["é🦀".as_bytes()], "é🦀"),
            (&[b"\xf0\x9f", b"\xa6", b"\x80!"], "🦀!"),
            (&[b"\xff\xe2\x80", b"\xaex"], "\u{fffd}\u{fffd}x"),
            (&[b"\x9b2J\x7f"], "\u{fffd}2J\u{fffd}"),
        ] {
            let mut plain = Plain::default();
            let told: String = chunks.iter().map(|chunk| plain.take(chunk)).collect();
            assert_eq!(told, expected, "{chunks:?}");
        }
    }
}
