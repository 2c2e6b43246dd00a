//! Health: asks the shim of this box which run it serves. Without a token, and at loopback alone.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::listen::Loopback;
use crate::near::Near;

/// The id of the run whose shim listens there, as it says itself: also where it has as many connections as it takes.
///
/// # Errors
///
/// When nobody listens there, or what answers within a second is no shim.
pub async fn run_at(at: Loopback) -> io::Result<String> {
    timeout(PATIENCE, ask(at)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn ask(at: Loopback) -> io::Result<String> {
    let mut stream = Near::shim(at).connect().await?;
    // A shim that is full answers and closes without reading: what it said is there all the same.
    let sent = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut answer = Vec::new();
    let read = stream.take(LIMIT).read_to_end(&mut answer).await;
    if let Some(run) = run_of(&answer) {
        return Ok(run);
    }
    sent.and(read)?;
    Err(io::Error::new(io::ErrorKind::InvalidData, "what answers is no shim"))
}

fn run_of(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if head.starts_with("HTTP/1.1 503 ") {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        return fields.find(|(name, _)| *name == RUN).map(|(_, run)| run.to_owned());
    }
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    head.starts_with("HTTP/1.1 200 ").then(|| body["run"].as_str().map(ToOwned::to_owned))?
}

/// The field by which a shim that is full names its run.
pub(crate) const RUN: &str = "Boxgate-Run";
const PATIENCE: Duration = Duration::from_secs(1);
/// Of an answer, in bytes: some hundred are usual.
const LIMIT: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::run_of;

    #[test]
    fn only_a_shims_own_answer_names_a_run() {
        let shim = crate::pass::answer("200 OK", "{\"run\":\"r-1\"}");
        assert_eq!(run_of(&shim).as_deref(), Some("r-1"));
        for other in ["200 OK", "404 Not Found"].map(|status| crate::pass::answer(status, "hello")) {
            assert_eq!(run_of(&other), None);
        }
        assert_eq!(run_of(&crate::pass::answer("502 Bad Gateway", "{\"run\":\"r-1\"}")), None);
        assert_eq!(run_of(b"{\"run\":\"r-1\"}"), None);
    }
}
