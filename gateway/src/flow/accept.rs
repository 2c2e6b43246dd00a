//! Accept: a connection at a door, within its limits, and a head that comes in time.

pub mod door;
pub mod side;
pub mod exchange;
pub mod rest;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use box_spec::BoxId;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::TokioTimer;
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;

use crate::config::Limits;
use crate::drain::Drain;
use crate::house::{BoxHouse, House};
use crate::refusal::{Reason, Refusal, Told};

use door::{DoorListener, DoorStream};
use side::{Side, SideHandle, Waits};

/// A connection of one box, counted against its limits while it lives.
pub struct Conn {
    pub stream: Counted,
}

/// The socket with its places in the limits.
pub struct Counted {
    stream: DoorStream,
    _places: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

/// The next connection, or the refusal that it was told.
///
/// # Errors
/// The box, or the house, has too many connections open already.
pub async fn next(door: &DoorListener, house: &House, here: &BoxHouse) -> Result<Conn, Told> {
    let mut stream = loop {
        match door.accept().await {
            Ok(stream) => break stream,
            // Out of descriptors, or a client that left: neither takes the door down.
            Err(error) => {
                door.complain(&error);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    let places =
        (Arc::clone(&here.connections).try_acquire_owned(), Arc::clone(&house.connections).try_acquire_owned());
    if let (Ok(of_box), Ok(of_house)) = places {
        return Ok(Conn { stream: Counted { stream, _places: (of_box, of_house) } });
    }
    let refusal = Refusal::new(
        Reason::TooMany,
        "too many connections are open from this box",
        format!("box {} reached its limit of open connections", here.id),
    );
    let answer = "HTTP/1.1 503 Service Unavailable\r\nx-boxgate-reason: too-many\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    // A client that does not read its refusal must not hold up the door.
    let _ = tokio::time::timeout(Duration::from_millis(100), stream.write_all(answer.as_bytes())).await;
    Err(Told::new(None, refusal))
}

/// HTTP/1.1 as the house speaks it to a box: bounded head, bounded time, header names as they were written.
#[must_use]
pub fn http(limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    // The head's deadline is kept by `side`: hyper's own ends silent connections too, and says nothing.
    http.timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(8192))
        .max_header_size(limits.head_bytes)
        .max_headers(limits.head_headers)
        .half_close(false)
        .preserve_header_case(true);
    http
}

/// A box's stream, watched as the limits say. `prompt`: its first head must begin at once.
pub fn watched<S>(stream: S, limits: &Limits, prompt: bool) -> (Side<S>, SideHandle) {
    Side::new(stream, Waits { silence: limits.idle_tunnel, head: limits.head_deadline, rests: false }, prompt)
}

/// The same for one that may rest, and of which the first byte may have been read.
pub fn watched_to_rest<S>(stream: S, limits: &Limits, first: Option<u8>) -> (Side<S>, SideHandle) {
    let waits = Waits { silence: limits.idle_tunnel, head: limits.head_deadline, rests: true };
    let (side, handle) = Side::new(stream, waits, first.is_some());
    match first {
        Some(byte) => (side.after(byte), handle),
        None => (side, handle),
    }
}

/// How a connection ended that was no refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    Over,
    /// It is silent between two requests: its stream is open, and the next may come.
    Resting,
}

/// Reads what the box still sends of a body that nobody wants and throws it away, within bounds, so that the box gets
/// to its answer instead of a reset.
pub fn discard(body: Incoming) {
    if !body.is_end_stream()
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        runtime.spawn(tokio::time::timeout(DISCARD_TIME, swallow(body)));
    }
}

async fn swallow(mut body: Incoming) {
    let mut left = DISCARD_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, hyper::body::Bytes::len));
        if left == 0 {
            return;
        }
    }
}

/// Runs a connection to its end; when the house drains it finishes the request at hand and takes no other. What it became
/// by an upgrade is run to its end too, or until the time to drain is over.
///
/// # Errors
/// The refusal to record when the head was malformed, too long or late. A client that went away is no refusal.
pub async fn until<C: Gentle>(connection: Pin<Box<C>>, drain: Drain, side: &SideHandle) -> Result<Served, Told> {
    let ended = {
        let mut connection = connection;
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = side.rests() => {
                connection.as_mut().finish();
                connection.await
            }
            () = drain.started() => {
                connection.as_mut().finish();
                connection.await
            }
        }
        // It is let go here: of a box that left, what still waits for an answer ends now, and its upgrade with it.
    };
    if let Some(afterwards) = side.take_afterwards() {
        tokio::select! {
            biased;
            () = drain.over() => {}
            () = afterwards => {}
        }
    }
    if side.was_late() {
        let outside = "the request head did not come in time";
        return Err(Told::new(None, Refusal::new(Reason::HeadLate, outside, "a head was not whole in time")));
    }
    match ended {
        Ok(()) if side.is_at_rest() => Ok(Served::Resting),
        Ok(()) => Ok(Served::Over),
        Err(error) => broken(&error).map_or(Ok(Served::Over), Err),
    }
}

/// A server connection that can be told to take no further request.
pub trait Gentle: Future<Output = hyper::Result<()>> {
    fn finish(self: Pin<&mut Self>);
}

impl<I, S, B> Gentle for http1::Connection<I, S>
where
    I: Read + Write + Unpin,
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, B> Gentle for http1::UpgradeableConnection<I, S>
where
    I: Read + Write + Unpin + Send + 'static,
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// A request over the box's limit of requests in flight.
#[must_use]
pub fn too_many_requests(box_id: &BoxId) -> Told {
    Told::new(
        None,
        Refusal::new(
            Reason::TooMany,
            "too many requests are in flight from this box",
            format!("box {box_id} reached its limit of requests in flight"),
        ),
    )
}

/// A request or a tunnel over what the box may have in a minute; `key` is the limit that says so.
#[must_use]
pub fn too_often(box_id: &BoxId, what: &str, key: &str) -> Told {
    let refusal = Refusal::new(
        Reason::TooMany,
        format!("too many {what} came from this box in a minute"),
        format!("box {box_id} reached its limit of {what} in a minute"),
    );
    Told::new(None, refusal.with_hint(format!("send fewer at a time; an operator can raise `{key}` in [limits]")))
}

fn broken(error: &hyper::Error) -> Option<Told> {
    let (reason, outside) = if error.is_parse_too_large() {
        (Reason::HeadTooLarge, "the request head is too long")
    } else if error.is_parse() {
        (Reason::BadRequest, "the request is not well-formed HTTP/1.1")
    } else {
        return None;
    };
    Some(Told::new(None, Refusal::new(reason, outside, error.to_string())))
}

/// What is still read of a body that nobody wants.
const DISCARD_BYTES: usize = 64 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(10);

impl tokio::io::AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl tokio::io::AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> std::task::Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
