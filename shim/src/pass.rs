//! Passing: one connection of the agent, from its head to its end.
//!
//! An idle connection holds no buffer: bytes go through one scratch buffer of the thread, and only what the other
//! side cannot take at once is kept, for that moment.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio::time::timeout;

use crate::door::Door;
use crate::tag::{RunTag, Tagged, tag};

/// Carries one connection. Nothing that goes wrong here concerns another connection, so nothing is returned.
pub(crate) async fn carry(mut client: TcpStream, door: &Door, run: &RunTag) {
    let _ = client.set_nodelay(true);
    let Ok(Ok(opening)) = timeout(HEAD_TIME, read_head(&mut client, run)).await else {
        return;
    };
    let (head, early) = match opening {
        Opening::Pass { head, early } => (head, early),
        Opening::Answer(answer) => {
            let _ = client.write_all(&answer).await;
            let _ = client.shutdown().await;
            return;
        }
    };
    match door.connect_within(PATIENCE).await {
        Ok(door) => relay(client, door, head, early).await,
        Err(fault) => {
            let _ = client.write_all(&no_door(door, &fault)).await;
            let _ = client.shutdown().await;
        }
    }
}

/// A whole response of the shim's own.
pub(crate) fn answer(status: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
    .into_bytes()
}

enum Opening {
    /// The head for the door, and what the client sent behind its own.
    Pass {
        head: Vec<u8>,
        early: Vec<u8>,
    },
    Answer(Vec<u8>),
}

async fn read_head(client: &mut TcpStream, run: &RunTag) -> io::Result<Opening> {
    let mut bytes = Vec::with_capacity(2048);
    loop {
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match tag(&bytes, run) {
            Tagged::Pass { head, consumed } => {
                let early = bytes.split_off(consumed);
                return Ok(Opening::Pass { head, early });
            }
            Tagged::Health => return Ok(Opening::Answer(health(run))),
            Tagged::Refuse(why) => {
                let text = format!("boxgate shim: {why}\n");
                return Ok(Opening::Answer(answer("400 Bad Request", &text)));
            }
            Tagged::Incomplete if bytes.len() > HEAD_LIMIT => {
                let text = "boxgate shim: the request head is longer than 64 KiB\n";
                return Ok(Opening::Answer(answer("431 Request Header Fields Too Large", text)));
            }
            Tagged::Incomplete => {}
        }
    }
}

fn health(run: &RunTag) -> Vec<u8> {
    let body = serde_json::json!({ "run": run.run() }).to_string();
    answer("200 OK", &body)
}

fn no_door(door: &Door, fault: &io::Error) -> Vec<u8> {
    let text = format!(
        "boxgate shim: the gateway does not answer at {} ({fault}). Is `gateway serve` running, and is the door mounted?\n",
        door.name()
    );
    answer("502 Bad Gateway", &text)
}

async fn relay(client: TcpStream, door: UnixStream, head: Vec<u8>, early: Vec<u8>) {
    let (from_client, to_client) = client.into_split();
    let (from_door, mut to_door) = door.into_split();
    let up = async {
        to_door.write_all(&head).await?;
        to_door.write_all(&early).await?;
        drop((head, early));
        pump(&from_client, &mut to_door).await
    };
    let mut to_client = to_client;
    let down = async { pump(&from_door, &mut to_client).await };
    tokio::pin!(up, down);
    // The door's answer is carried to its end even when the door takes no more; the answer's end does not end
    // what the client still sends, unless the door has gone altogether.
    tokio::select! {
        _ = &mut up => { let _ = down.await; }
        ended = &mut down => {
            if ended.is_ok() && !is_gone(&from_door).await {
                let _ = up.await;
            }
        }
    }
}

/// Whether the other end of the door's socket is closed in both directions.
async fn is_gone(door: &unix::OwnedReadHalf) -> bool {
    match door.ready(Interest::WRITABLE | Interest::READABLE).await {
        Ok(ready) => ready.is_write_closed(),
        Err(_) => true,
    }
}

/// Copies until the end of `from`, then tells `to` that there is no more.
async fn pump<R: Readable, W: Writable>(from: &R, to: &mut W) -> io::Result<()> {
    loop {
        from.ready().await?;
        let step = SCRATCH.with_borrow_mut(|scratch| -> io::Result<Step> {
            let count = match from.take(scratch) {
                Ok(0) => return Ok(Step::End),
                Ok(count) => count,
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Wait),
                Err(fault) => return Err(fault),
            };
            let bytes = &scratch[..count];
            let sent = match to.give(bytes) {
                Ok(sent) => sent,
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => 0,
                Err(fault) => return Err(fault),
            };
            Ok(if sent == count { Step::Wait } else { Step::Rest(bytes[sent..].to_vec()) })
        })?;
        match step {
            Step::Wait => tokio::task::yield_now().await,
            Step::Rest(rest) => to.write_all(&rest).await?,
            Step::End => return to.shutdown().await,
        }
    }
}

enum Step {
    Wait,
    Rest(Vec<u8>),
    End,
}

trait Readable {
    async fn ready(&self) -> io::Result<()>;
    fn take(&self, into: &mut [u8]) -> io::Result<usize>;
}

trait Writable: AsyncWriteExt + Unpin {
    fn give(&self, bytes: &[u8]) -> io::Result<usize>;
}

macro_rules! halves {
    ($($family:ident),*) => {$(
        impl Readable for $family::OwnedReadHalf {
            async fn ready(&self) -> io::Result<()> {
                self.readable().await
            }
            fn take(&self, into: &mut [u8]) -> io::Result<usize> {
                self.try_read(into)
            }
        }
        impl Writable for $family::OwnedWriteHalf {
            fn give(&self, bytes: &[u8]) -> io::Result<usize> {
                self.try_write(bytes)
            }
        }
    )*};
}
halves!(tcp, unix);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_SIZE].into_boxed_slice());
}

const SCRATCH_SIZE: usize = 32 * 1024;
const HEAD_LIMIT: usize = 64 * 1024;
/// A client that has connected must say what it wants.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection waits for a gateway that is starting again.
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests play the agent, on loopback")]
mod tests;
