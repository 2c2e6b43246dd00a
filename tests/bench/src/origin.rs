//! The origin: TLS and HTTP/1.1 by hand, so that it costs as little as it can beside what is measured.
//!
//! `/json` 200 bytes; `/bytes/N`; `/sink` takes a body and tells its length; `/echo` tells backwards the `authorization`
//! that came, since a house lets no credential back to a box; `/events/COUNT/MILLISECONDS/START` is a stream of events, each
//! with the clock at which it was written.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::certs;
use crate::wire::{field, head_end, now};

/// Listens on a loopback port and serves until its runtime ends.
///
/// # Errors
///
/// When it cannot listen, or the certificates in `folder` cannot be read.
pub async fn start(folder: &Path) -> Result<SocketAddr> {
    let acceptor = TlsAcceptor::from(certs::server(folder)?);
    let socket = tokio::net::TcpSocket::new_v4().context("make the origin's socket")?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).context("bind the origin")?;
    let listener = socket.listen(BACKLOG).context("listen as the origin")?;
    let address = listener.local_addr().context("read the origin's address")?;
    tokio::spawn(accept(listener, acceptor));
    Ok(address)
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let acceptor = acceptor.clone();
        // A client that leaves is no fault of the origin's; what it missed, the client itself tells.
        tokio::spawn(async move { serve(stream, acceptor).await.ok() });
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor) -> Result<()> {
    stream.set_nodelay(true).context("set TCP_NODELAY")?;
    let mut stream = acceptor.accept(stream).await.context("shake hands")?;
    let mut buffer = Vec::with_capacity(16 * 1024);
    loop {
        let end = loop {
            if let Some(end) = head_end(&buffer) {
                break end;
            }
            ensure!(buffer.len() < HEAD, "the head is too long");
            if stream.read_buf(&mut buffer).await.context("read a head")? == 0 {
                return Ok(());
            }
        };
        let rest = buffer.split_off(end);
        let head = String::from_utf8(std::mem::replace(&mut buffer, rest)).context("read a head")?;
        answer(&mut stream, &head, &mut buffer).await?;
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, head: &str, rest: &mut Vec<u8>) -> Result<()> {
    let path = head.split(' ').nth(1).context("find the path")?;
    let mut parts = path.trim_start_matches('/').split('/');
    let number = |parts: &mut std::str::Split<'_, char>| parts.next().and_then(|text| text.parse::<u64>().ok());
    match parts.next() {
        Some("json") => whole(stream, &[b'j'; 200]).await,
        Some("echo") => {
            let backwards: String = field(head, "authorization").unwrap_or_default().chars().rev().collect();
            whole(stream, backwards.as_bytes()).await
        }
        Some("bytes") => bytes(stream, number(&mut parts).context("read the length")?).await,
        Some("sink") => {
            let length = field(head, "content-length").and_then(|text| text.parse().ok()).context("read the length")?;
            swallow(stream, rest, length).await?;
            whole(stream, length.to_string().as_bytes()).await
        }
        Some("events") => {
            let mut next = || number(&mut parts).context("read the events that are asked for");
            events(stream, next()?, next()?, next()?).await
        }
        _ => bail!("the origin has no {path}"),
    }
}

async fn whole<S: AsyncWrite + Unpin>(stream: &mut S, body: &[u8]) -> Result<()> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len())
            .into_bytes();
    answer.extend_from_slice(body);
    stream.write_all(&answer).await.context("answer")?;
    stream.flush().await.context("answer")
}

async fn bytes<S: AsyncWrite + Unpin>(stream: &mut S, length: u64) -> Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.context("answer")?;
    let mut left = length;
    while left > 0 {
        let piece = left.min(PIECE.len() as u64);
        stream.write_all(&PIECE[..usize::try_from(piece)?]).await.context("answer")?;
        left -= piece;
    }
    stream.flush().await.context("answer")
}

async fn swallow<S: AsyncRead + Unpin>(stream: &mut S, rest: &mut Vec<u8>, length: u64) -> Result<()> {
    let here = rest.len().min(usize::try_from(length)?);
    rest.drain(..here);
    let mut left = length - here as u64;
    let mut piece = vec![0; PIECE.len()];
    while left > 0 {
        let most = usize::try_from(left)?.min(piece.len());
        let read = stream.read(&mut piece[..most]).await.context("read a body")?;
        ensure!(read > 0, "the body is cut");
        left -= read as u64;
    }
    Ok(())
}

/// Events of 230 bytes, one chunk each: the first at `start` on the monotonic clock, then one every `pause` milliseconds.
async fn events<S: AsyncWrite + Unpin>(stream: &mut S, count: u64, pause: u64, start: u64) -> Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.context("answer")?;
    stream.flush().await.context("answer")?;
    for at in 0..count {
        let due = start + at * pause * 1_000_000;
        tokio::time::sleep(Duration::from_nanos(due.saturating_sub(now()))).await;
        let event =
            format!("event: content_block_delta\ndata: {{\"at\":{:020},\"text\":\"{}\"}}\n\n", now(), "x".repeat(160));
        stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await.context("send an event")?;
        stream.flush().await.context("send an event")?;
    }
    stream.write_all(b"0\r\n\r\n").await.context("end the events")?;
    stream.flush().await.context("end the events")
}

const HEAD: usize = 64 * 1024;
const BACKLOG: u32 = 4096;
static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];
