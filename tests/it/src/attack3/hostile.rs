//! A host on loopback, under TLS as `ws.test`, that does on each connection what its script says, and keeps the heads.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Listens until the case is over.
pub(super) struct Hostile {
    pub(super) address: SocketAddr,
    pub(super) ca_pem: String,
    book: Book,
}

/// One connection, after its first head.
pub(super) struct Talk {
    pub(super) stream: StreamOwned<ServerConnection, TcpStream>,
    /// The last head as it came.
    pub(super) head: Vec<u8>,
    book: Book,
}

#[derive(Default)]
pub(super) struct Seen {
    pub(super) heads: Vec<Vec<u8>>,
    pub(super) open: usize,
}

type Book = Arc<Mutex<Seen>>;

impl Hostile {
    pub(super) fn start(script: impl Fn(&mut Talk) -> Result<()> + Send + Sync + 'static) -> Result<Self> {
        let (tls, ca_pem) = standin::server_for(&["ws.test"])?;
        let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
        let address = listener.local_addr().context("read the address")?;
        let book = Book::default();
        let (shared, script) = (Arc::clone(&book), Arc::new(script));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (tls, book, script) = (Arc::clone(&tls), Arc::clone(&shared), Arc::clone(&script));
                std::thread::spawn(move || {
                    lock(&book).open += 1;
                    // What a script runs into is what its case looks at.
                    let _ended = talk(stream, tls, &book).and_then(|mut talk| script(&mut talk));
                    lock(&book).open -= 1;
                });
            }
        });
        Ok(Self { address, ca_pem, book })
    }

    pub(super) fn heads(&self) -> Vec<Vec<u8>> {
        lock(&self.book).heads.clone()
    }

    /// How many connections are open.
    pub(super) fn open(&self) -> usize {
        lock(&self.book).open
    }
}

impl Talk {
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush()).context("send")
    }

    /// The next head of the connection.
    pub(super) fn next_head(&mut self) -> Result<()> {
        self.head.clear();
        while !self.head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            ensure!(self.stream.read(&mut byte).context("read a head")? == 1, "the end came within a head");
            self.head.push(byte[0]);
        }
        lock(&self.book).heads.push(self.head.clone());
        Ok(())
    }

    /// What comes within this time; nothing at its end.
    pub(super) fn within(&mut self, time: Duration) -> Result<Vec<u8>> {
        self.stream.sock.set_read_timeout(Some(time)).context("set a deadline")?;
        let mut piece = vec![0; 64 * 1024];
        let read = self.stream.read(&mut piece);
        self.stream.sock.set_read_timeout(Some(LONGEST)).context("set a deadline")?;
        piece.truncate(read.unwrap_or_default());
        Ok(piece)
    }

    /// All that comes until the other side ends.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut piece = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = self.stream.read(&mut piece) {
            all.extend_from_slice(&piece[..read]);
        }
        all
    }

    /// Reads on to the end, and goes no further where anything else came.
    pub(super) fn rest_is(&mut self, expected: &[u8]) -> Result<()> {
        let came = self.rest();
        ensure!(came == expected, "{came:?} came");
        Ok(())
    }

    /// The path that was asked for.
    pub(super) fn path(&self) -> String {
        Self::text(&self.head).split(' ').nth(1).unwrap_or_default().to_owned()
    }

    pub(super) fn text(head: &[u8]) -> String {
        String::from_utf8_lossy(head).into_owned()
    }

    /// Ends its half of the connection.
    pub(super) fn end(&mut self) -> Result<()> {
        self.stream.conn.send_close_notify();
        self.stream.flush().context("end")?;
        self.stream.sock.shutdown(Shutdown::Write).context("end")
    }
}

fn talk(stream: TcpStream, tls: Arc<ServerConfig>, book: &Book) -> Result<Talk> {
    stream.set_read_timeout(Some(LONGEST)).context("set a deadline")?;
    let stream = StreamOwned::new(ServerConnection::new(tls).context("prepare TLS")?, stream);
    let mut talk = Talk { stream, head: Vec::new(), book: Arc::clone(book) };
    talk.next_head()?;
    Ok(talk)
}

fn lock(book: &Book) -> std::sync::MutexGuard<'_, Seen> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

const LONGEST: Duration = Duration::from_secs(60);
