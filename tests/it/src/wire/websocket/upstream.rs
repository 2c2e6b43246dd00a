//! An upstream that speaks WebSocket by the byte: it greets in the segment of its 101, echoes every frame, and keeps a book.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::frames;

/// Listens on loopback, under TLS as `ws.test`.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    pub(super) ca_pem: String,
    book: Book,
}

/// One connection.
#[derive(Clone, Default, Debug)]
pub(super) struct Seen {
    /// The handshake as it came.
    pub(super) head: String,
    /// Frames that came whole.
    pub(super) frames: usize,
    /// The bytes of them.
    pub(super) bytes: usize,
    pub(super) ended: bool,
}

type Book = Arc<Mutex<Vec<Seen>>>;

impl Upstream {
    pub(super) fn start() -> Result<Self> {
        let (tls, ca_pem) = standin::server_for(&["ws.test"])?;
        let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
        let address = listener.local_addr().context("read the address")?;
        let book = Book::default();
        let shared = Arc::clone(&book);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (tls, book) = (Arc::clone(&tls), Arc::clone(&shared));
                std::thread::spawn(move || connection(stream, tls, &book));
            }
        });
        Ok(Self { address, ca_pem, book })
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until this many connections have ended.
    pub(super) fn wait_ended(&self, count: usize, time: Duration) -> Result<Vec<Seen>> {
        harness::until("the connections to end", time, || {
            let seen = self.seen();
            (seen.iter().filter(|one| one.ended).count() >= count).then_some(seen)
        })
    }
}

fn connection(stream: TcpStream, tls: Arc<ServerConfig>, book: &Book) {
    let number = note(book, |seen| {
        seen.push(Seen::default());
        seen.len() - 1
    });
    // How it ends is in the book; what ended it is the business of each case.
    let _ended = serve(stream, tls, book, number);
    note(book, |seen| seen[number].ended = true);
}

fn serve(stream: TcpStream, tls: Arc<ServerConfig>, book: &Book, number: usize) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).context("set a deadline")?;
    let mut stream = StreamOwned::new(ServerConnection::new(tls).context("prepare TLS")?, stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        ensure!(stream.read(&mut byte).context("read the handshake")? == 1, "the end came within the handshake");
        head.push(byte[0]);
    }
    note(book, |seen| seen[number].head = String::from_utf8_lossy(&head).into_owned());
    let greeting = [ANSWER.as_bytes(), &frames::frame(frames::TEXT, GREETING, None)].concat();
    stream.write_all(&greeting).and_then(|()| stream.flush()).context("answer")?;
    loop {
        let frame = frames::read(&mut stream)?;
        note(book, |seen| {
            seen[number].frames += 1;
            seen[number].bytes += frame.raw.len();
        });
        let opcode = if frame.opcode == frames::PING { frames::PONG } else { frame.opcode };
        let echo = frames::frame(opcode, &frame.payload, None);
        stream.write_all(&echo).and_then(|()| stream.flush()).context("echo")?;
        if opcode == frames::CLOSE {
            stream.conn.send_close_notify();
            stream.flush().context("end")?;
            return stream.sock.shutdown(std::net::Shutdown::Both).context("end");
        }
    }
}

fn note<T>(book: &Book, work: impl FnOnce(&mut Vec<Seen>) -> T) -> T {
    work(&mut book.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(super) const GREETING: &[u8] = b"here already";
/// To the key of RFC 6455 §1.3, which all cases send.
pub(super) const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Mine: kept\r\n\r\n";
