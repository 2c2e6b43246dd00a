//! Passing: one connection of the agent, from its head to its end.
//!
//! An idle connection holds no buffer: bytes go through one scratch buffer of the thread, and only what the other
//! side cannot take at once is kept, for that moment.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, recv};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpStream, tcp, unix};
use tokio::time::timeout;

use crate::door::{Door, DoorStream};
use crate::health;
use crate::listen::Loopback;
use crate::near::Near;
use crate::tag::{Body, RunTag, Tagged, tag};

/// Carries one connection that came to the shim `at` its port. Nothing that goes wrong here concerns another
/// connection, so nothing is returned.
pub(crate) async fn carry(mut client: TcpStream, at: Loopback, door: &Door, run: &RunTag) {
    let _ = client.set_nodelay(true);
    let Ok(Ok(opening)) = timeout(HEAD_TIME, read_head(&mut client, run)).await else {
        return;
    };
    let answer = match opening {
        Opening::Answer(answer) => answer,
        Opening::Near { near, .. } if near.is_shim(at) => own_port(near),
        Opening::Pass { head, early } => match door.connect_within(PATIENCE).await {
            Ok(door) => {
                let sending = Sending { head, early, body: Body::Tunnel };
                return match door {
                    DoorStream::Socket(door) => relay(client, door.into_split(), sending).await,
                    DoorStream::Network(door) => relay(client, door.into_split(), sending).await,
                };
            }
            Err(fault) => no_door(door, &fault),
        },
        Opening::Near { near, sending } => match near.connect().await {
            Ok(server) => {
                if sending.body == Body::Tunnel && client.write_all(CONNECTED).await.is_err() {
                    return;
                }
                return relay(client, server.into_split(), sending).await;
            }
            Err(fault) => no_server(near, &fault),
        },
    };
    let _ = client.write_all(&answer).await;
    let _ = client.shutdown().await;
}

/// A whole response of the shim's own.
pub(crate) fn answer(status: &str, text: &str) -> Vec<u8> {
    with_fields(status, "", text)
}

/// For a connection that is one too many. It names the run, so that who asks for it is not told that there is none.
pub(crate) fn full(run: &RunTag, most: usize) -> Vec<u8> {
    let text = format!("boxgate shim: more than {most} connections at once in this box\n");
    with_fields("503 Service Unavailable", &format!("{}: {}\r\n", health::RUN, run.run()), &text)
}

fn with_fields(status: &str, fields: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n{fields}\r\n{text}"
    )
    .into_bytes()
}

enum Opening {
    /// The head for the door, and what the client sent behind its own.
    Pass {
        head: Vec<u8>,
        early: Vec<u8>,
    },
    /// The same for a server within the box.
    Near {
        near: Near,
        sending: Sending,
    },
    Answer(Vec<u8>),
}

/// What goes up.
struct Sending {
    head: Vec<u8>,
    early: Vec<u8>,
    body: Body,
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
            Tagged::Near { near, head, consumed, body } => {
                let early = bytes.split_off(consumed);
                return Ok(Opening::Near { near, sending: Sending { head, early, body } });
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
        "boxgate shim: the gateway does not answer at {} ({fault}). Is `gateway serve` running, and can this box reach its door?\n",
        door.name()
    );
    answer("502 Bad Gateway", &text)
}

fn no_server(near: Near, fault: &io::Error) -> Vec<u8> {
    let text = match fault.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "boxgate shim: port {near} is closed: nothing in this box listens there. Loopback is the box's own and never \
             the host's; start the server in the box, or correct the port.\n"
        ),
        _ => format!("boxgate shim: {near} in this box does not answer: {fault}\n"),
    };
    answer("502 Bad Gateway", &text)
}

fn own_port(near: Near) -> Vec<u8> {
    let text = format!("boxgate shim: {near} is this proxy itself, and no server behind it\n");
    answer("400 Bad Request", &text)
}

async fn relay<R: Readable, W: Writable>(client: TcpStream, server: (R, W), sending: Sending) {
    let (from_client, mut to_client) = client.into_split();
    let (from_server, mut to_server) = server;
    let Sending { head, early, body } = sending;
    let up = async {
        let most = match body {
            Body::Tunnel | Body::Chunked => u64::MAX,
            Body::Sized(length) => length,
        };
        let left = most.checked_sub(early.len() as u64).ok_or(io::ErrorKind::InvalidData)?;
        to_server.write_all(&head).await?;
        to_server.write_all(&early).await?;
        drop((head, early));
        pump(&from_client, &mut to_server, left).await
    };
    let down = async { pump(&from_server, &mut to_client, u64::MAX).await };
    tokio::pin!(up, down);
    // The answer is carried to its end even when the other side takes no more; the answer's end does not end what the
    // client still sends, unless the other side has gone altogether, or it was the answer to a single request.
    tokio::select! {
        sent = &mut up => {
            // One more request behind the only one: nobody here can tell whom it is for.
            if !sent.is_err_and(|fault: io::Error| fault.kind() == io::ErrorKind::InvalidData) {
                let _ = down.await;
            }
        }
        ended = &mut down => match body {
            _ if ended.is_err() || from_server.is_gone().await => {}
            Body::Tunnel => { let _ = up.await; }
            Body::Sized(_) | Body::Chunked => { let _ = timeout(LINGER, up).await; }
        }
    }
}

/// Copies until the end of `from`, then tells `to` that there is no more. More than `left` bytes are a fault.
async fn pump<R: Readable, W: Writable>(from: &R, to: &mut W, mut left: u64) -> io::Result<()> {
    let mut turns = 0;
    loop {
        from.ready().await?;
        let step = SCRATCH.with_borrow_mut(|scratch| -> io::Result<Step> {
            let count = match from.take(scratch) {
                Ok(0) => return Ok(Step::End),
                Ok(count) => count,
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Wait),
                Err(fault) => return Err(fault),
            };
            left = left.checked_sub(count as u64).ok_or(io::ErrorKind::InvalidData)?;
            let bytes = &scratch[..count];
            let sent = match to.give(bytes) {
                Ok(sent) => sent,
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => 0,
                Err(fault) => return Err(fault),
            };
            Ok(if sent == count { Step::Wait } else { Step::Rest(bytes[sent..].to_vec()) })
        })?;
        match step {
            // Who always has more lets others go first now and then.
            Step::Wait => {
                turns += 1;
                if turns % TURNS == 0 {
                    tokio::task::yield_now().await;
                }
            }
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
    /// Reads once. What is short was all: it is not asked for more before more is told of.
    fn take(&self, into: &mut [u8]) -> io::Result<usize>;
    /// Whether the other end is closed in both directions.
    async fn is_gone(&self) -> bool;
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
                let mut short = None;
                let read = self.as_ref().try_io(Interest::READABLE, || {
                    let count = recv(self.as_ref().as_raw_fd(), into, MsgFlags::empty())?;
                    if count == 0 || count == into.len() {
                        return Ok(count);
                    }
                    short = Some(count);
                    Err(io::ErrorKind::WouldBlock.into())
                });
                short.map_or(read, Ok)
            }
            async fn is_gone(&self) -> bool {
                match self.ready(Interest::WRITABLE | Interest::READABLE).await {
                    Ok(ready) => ready.is_write_closed(),
                    Err(_) => true,
                }
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

const CONNECTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
/// With a quarter of it a gigabyte costs half as much CPU again, most of it in system calls; twice as much shows in the size of boxd.
const SCRATCH_SIZE: usize = 128 * 1024;
/// So many reads in a row.
const TURNS: u32 = 8;
const HEAD_LIMIT: usize = 64 * 1024;
/// A client that has connected must say what it wants.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection waits for a gateway that is starting again.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a client may go on with the body of a request within the box that has its answer: an answer that is read
/// late would be lost if the connection were cut at once.
const LINGER: Duration = Duration::from_secs(2);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests play the agent, on loopback")]
mod tests;
