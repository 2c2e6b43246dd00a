//! A socket between a box and its door: keeps every byte that the box receives, or swallows what the box sends into tunnels.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A relay. It lives as long as the test program.
pub struct Relay {
    folder: TempDir,
    kept: Arc<Kept>,
}

#[derive(Default)]
struct Kept {
    received: Mutex<Vec<u8>>,
    connections: AtomicU64,
    swallowed: AtomicU64,
}

impl Relay {
    /// Passes everything on, and keeps what comes back.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn recording(door: &Path) -> Result<Self> {
        Self::start(door, false)
    }

    /// Answers every CONNECT by itself, and swallows what follows; the claim is passed on.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn sink(door: &Path) -> Result<Self> {
        Self::start(door, true)
    }

    fn start(door: &Path, sink: bool) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("relay-").tempdir().context("make the relay's folder")?;
        let listener = UnixListener::bind(folder.path().join("door.sock")).context("listen for the box")?;
        let kept = Arc::new(Kept::default());
        let (door, of_listener) = (door.to_owned(), kept.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (door, kept) = (door.clone(), of_listener.clone());
                kept.connections.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || lead(stream, &door, sink, &kept));
            }
        });
        Ok(Self { folder, kept })
    }

    /// What [`crate::BoxRun::door`] takes.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("door.sock")
    }

    /// Everything that the box received, connection by connection as it came.
    #[must_use]
    pub fn received(&self) -> Vec<u8> {
        self.kept.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[must_use]
    pub fn connections(&self) -> u64 {
        self.kept.connections.load(Ordering::Relaxed)
    }

    /// How many bytes were swallowed.
    #[must_use]
    pub fn swallowed(&self) -> u64 {
        self.kept.swallowed.load(Ordering::Relaxed)
    }
}

fn lead(mut client: UnixStream, door: &Path, sink: bool, kept: &Kept) -> Option<()> {
    let mut first = vec![0; 16 * 1024];
    let read = client.read(&mut first).ok()?;
    let first = &first[..read];
    if sink && first.starts_with(b"CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
        let mut piece = vec![0; 256 * 1024];
        while let Ok(read @ 1..) = client.read(&mut piece) {
            kept.swallowed.fetch_add(read as u64, Ordering::Relaxed);
        }
        return Some(());
    }
    let mut server = UnixStream::connect(door).ok()?;
    server.write_all(first).ok()?;
    let (mut up_from, mut up_to) = (client.try_clone().ok()?, server.try_clone().ok()?);
    std::thread::spawn(move || {
        let _broken_is_the_end = std::io::copy(&mut up_from, &mut up_to);
        let _gone = up_to.shutdown(Shutdown::Write);
    });
    let mut piece = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = server.read(&mut piece) {
        kept.received.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..read]);
        if client.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    client.shutdown(Shutdown::Both).ok()
}
