//! A raw client at a door: CONNECT by bytes, then TLS with the house's certificate, then bytes again.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::raw::{self, Response};

/// A connection to a door, before TLS.
pub struct Tunnel {
    stream: UnixStream,
}

/// TLS inside a tunnel.
pub struct Inside {
    stream: StreamOwned<ClientConnection, UnixStream>,
}

impl Tunnel {
    /// # Errors
    ///
    /// When nothing listens there.
    pub fn open(door: &Path) -> Result<Self> {
        let stream = UnixStream::connect(door).context("connect the door")?;
        stream.set_read_timeout(Some(WAIT)).context("set a deadline")?;
        stream.set_write_timeout(Some(WAIT)).context("set a deadline")?;
        Ok(Self { stream })
    }

    /// Opens a tunnel to `target` with a run token.
    ///
    /// # Errors
    ///
    /// When it is not answered 200.
    pub fn connect(door: &Path, token: &str, target: &str) -> Result<Self> {
        let mut tunnel = Self::open(door)?;
        let answer = tunnel.ask(connect_head(target, Some(token)).as_bytes())?;
        if answer.status != 200 {
            bail!("CONNECT {target} was answered {}: {}", answer.status, answer.text());
        }
        Ok(tunnel)
    }

    /// Sends a head and reads the answer to it.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub fn ask(&mut self, head: &[u8]) -> Result<Response> {
        self.send(head)?;
        let connect = head.starts_with(b"CONNECT ");
        raw::response(&mut self.stream, !connect)
    }

    /// # Errors
    ///
    /// When the door is closed.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("send to the door")
    }

    /// All that comes until the door closes.
    ///
    /// # Errors
    ///
    /// When it does not close in time.
    pub fn rest(&mut self) -> Result<Vec<u8>> {
        raw::rest(&mut self.stream)
    }

    /// TLS as `name`, trusting this certificate alone.
    ///
    /// # Errors
    ///
    /// When the handshake fails.
    pub fn tls(self, ca_pem: &str, name: &str) -> Result<Inside> {
        self.tls_with(client_config(ca_pem)?, name)
    }

    /// # Errors
    ///
    /// When the handshake fails.
    pub fn tls_with(self, config: Arc<ClientConfig>, name: &str) -> Result<Inside> {
        let name = ServerName::try_from(name.to_owned()).context("read the server name")?;
        let session = ClientConnection::new(config, name).context("prepare TLS")?;
        let mut stream = StreamOwned::new(session, self.stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).context("shake hands")?;
        }
        Ok(Inside { stream })
    }

    /// The socket itself.
    #[must_use]
    pub const fn socket(&self) -> &UnixStream {
        &self.stream
    }
}

impl Inside {
    /// # Errors
    ///
    /// When the tunnel is closed.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush()).context("send into the tunnel")
    }

    /// Sends these bytes and reads one answer.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub fn ask(&mut self, bytes: &[u8]) -> Result<Response> {
        self.send(bytes)?;
        let head = bytes.starts_with(b"HEAD ");
        raw::response(&mut self.stream, !head)
    }

    /// The next answer.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn response(&mut self) -> Result<Response> {
        raw::response(&mut self.stream, true)
    }

    /// What can be read at once, at least one byte; nothing at the end.
    ///
    /// # Errors
    ///
    /// When the tunnel breaks, or nothing comes in time.
    pub fn piece(&mut self) -> Result<Vec<u8>> {
        let mut piece = vec![0; 64 * 1024];
        let read = self.stream.read(&mut piece).context("read from the tunnel")?;
        piece.truncate(read);
        Ok(piece)
    }

    /// # Errors
    ///
    /// When it does not close in time.
    pub fn rest(&mut self) -> Result<Vec<u8>> {
        raw::rest(&mut self.stream)
    }

    /// The certificates that were shown.
    #[must_use]
    pub fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.stream.conn.peer_certificates().unwrap_or_default().iter().map(|one| one.clone().into_owned()).collect()
    }

    #[must_use]
    pub fn alpn(&self) -> Option<String> {
        self.stream.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// # Errors
    ///
    /// When the socket is gone.
    pub fn deadline(&self, time: Duration) -> Result<()> {
        self.stream.sock.set_read_timeout(Some(time)).context("set a deadline")
    }

    /// Says the end of TLS and of what is sent; what comes can still be read.
    ///
    /// # Errors
    ///
    /// When the tunnel is closed.
    pub fn finish(&mut self) -> Result<()> {
        self.stream.conn.send_close_notify();
        self.stream.flush().context("end the tunnel")?;
        self.stream.sock.shutdown(Shutdown::Write).context("end the tunnel")
    }

    /// Ends the connection without a word.
    pub fn cut(self) {
        let _gone = self.stream.sock.shutdown(Shutdown::Both);
    }
}

impl Read for Inside {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(buffer)
    }
}

/// A CONNECT head, with a run token or without.
#[must_use]
pub fn connect_head(target: &str, token: Option<&str>) -> String {
    let credential = token.map(|token| {
        let pair =
            base64::engine::general_purpose::STANDARD.encode(format!("{token}:{}", box_spec::wire::TOKEN_PASSWORD));
        format!("Proxy-Authorization: Basic {pair}\r\n")
    });
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{}\r\n", credential.unwrap_or_default())
}

/// A client that trusts this certificate alone, and offers HTTP/1.1.
///
/// # Errors
///
/// When it is no certificate.
pub fn client_config(ca_pem: &str) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.context("read the house's certificate")?).context("trust the house's certificate")?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("choose TLS versions")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

const WAIT: Duration = Duration::from_secs(15);
