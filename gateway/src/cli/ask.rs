//! Asking a running gateway, over its operator's socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// The gateway did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskFault {
    #[error("ask the gateway at {path}: is `gateway serve` running with this configuration?")]
    Connect { path: PathBuf, source: std::io::Error },
    #[error("understand the answer of the gateway at {path}")]
    Answer { path: PathBuf },
}

/// One request and its answer: whether the status was a success, and the body.
///
/// # Errors
/// Nobody answers, or not in a form that can be read.
pub fn ask(socket: &Path, method: &str, path: &str) -> Result<(bool, Value), AskFault> {
    ask_patiently(socket, method, path, Duration::from_secs(10))
}

/// The same, of what may take so long.
///
/// # Errors
/// As [`ask`].
pub fn ask_patiently(socket: &Path, method: &str, path: &str, patience: Duration) -> Result<(bool, Value), AskFault> {
    let connect = |source| AskFault::Connect { path: socket.to_owned(), source };
    let mut stream = UnixStream::connect(socket).map_err(connect)?;
    stream.set_read_timeout(Some(patience)).map_err(connect)?;
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(connect)?;
    let mut answer = Vec::new();
    stream.take(16 * 1024 * 1024).read_to_end(&mut answer).map_err(connect)?;
    parse(&answer).ok_or_else(|| AskFault::Answer { path: socket.to_owned() })
}

fn parse(answer: &[u8]) -> Option<(bool, Value)> {
    let split = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..split]).ok()?;
    let status = head.split(' ').nth(1)?;
    Some((status.starts_with('2'), serde_json::from_slice(&answer[split + 4..]).ok()?))
}
