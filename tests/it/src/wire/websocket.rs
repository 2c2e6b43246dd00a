//! WebSockets through the interception, by the byte: the handshake, the session, and how it ends.

pub(super) mod frames;
mod upstream;
pub(super) mod handshake;
pub(super) mod session;
pub(super) mod ends;

use std::time::Duration;

use anyhow::{Result, ensure};
use harness::HouseBuilder;
use harness::door::Inside;
use serde_json::Value;
use standin::{Fault, Options, Then};

use super::base::Wire;
use upstream::Upstream;

/// A house with a grant `ws` that leads `ws.test` to an upstream that greets and echoes.
pub(super) struct Echo {
    pub(super) wire: Wire,
    upstream: Upstream,
}

impl Echo {
    pub(super) fn start() -> Result<Self> {
        Self::with("")
    }

    /// The same with these lines of configuration.
    fn with(extra: &str) -> Result<Self> {
        let upstream = Upstream::start()?;
        let grant = format!(
            "name = \"ws\"\nhosts = [\"ws.test\"]\nsecret = \"anthropic\"\nunsafe_secret_hosts = true\nwebsocket = true\nunsafe_dial = \"{}\"\nupstream_ca = \"ws-ca.pem\"",
            upstream.address
        );
        let ca = upstream.ca_pem.clone();
        let more = |house: HouseBuilder| house.file("ws-ca.pem", ca.as_bytes()).grant(&grant).extra(extra);
        let wire = Wire::with(Options::default(), more)?;
        Ok(Self { wire, upstream })
    }

    /// A session that was greeted.
    pub(super) fn session(&self, path: &str) -> Result<Inside> {
        let mut inside = self.wire.inside("ws.test")?;
        let answer = inside.ask(&asking("ws.test", path, ""))?;
        ensure!(answer.status == 101, "{answer:?}");
        let greeting = frames::read(&mut inside)?;
        ensure!(greeting.payload == upstream::GREETING, "{:?}", greeting.payload);
        Ok(inside)
    }

    /// The line that closed the session.
    fn closed(&self, path: &str) -> Result<Value> {
        Ok(self.wire.closed(path)?.1)
    }
}

/// An opening handshake with these header lines besides.
pub(super) fn asking(host: &str, path: &str, headers: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n{KEY}{headers}\r\n"
    )
    .into_bytes()
}

/// These bytes in place of an answer.
fn raw(bytes: &[u8], then: Then) -> Fault {
    Fault::Raw { pieces: vec![(Duration::ZERO, bytes.to_vec())], then }
}

/// Of RFC 6455 §1.3; [`upstream::ANSWER`] has what it is answered with.
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
