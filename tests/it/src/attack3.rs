//! A hostile box and a hostile host around a WebSocket, and around the providers whose login is a JWT.

pub(crate) mod handshake;
pub(crate) mod session;
pub(crate) mod accounts;
mod hostile;

use anyhow::{Result, ensure};
use harness::door::Inside;
use harness::{Claimed, House, HouseBuilder, Need, Tunnel};
use serde_json::Value;
use standin::Real;

use hostile::{Hostile, Talk};

/// A house whose grant `ws` leads `ws.test` to a host that does what a case says, with boxes `one` and `two`.
struct Stage {
    house: House,
    claimed: Claimed,
    host: Hostile,
}

impl Stage {
    fn with(
        more: impl FnOnce(HouseBuilder) -> HouseBuilder,
        script: impl Fn(&mut Talk) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let host = Hostile::start(script)?;
        let grant = format!(
            "name = \"ws\"\nhosts = [\"ws.test\"]\nsecret = \"anthropic\"\nunsafe_secret_hosts = true\nwebsocket = true\nunsafe_dial = \"{}\"\nupstream_ca = \"ws-ca.pem\"",
            host.address
        );
        let house = House::builder()
            .secret(Real::Bearer(REAL.into()))
            .file("ws-ca.pem", host.ca_pem.as_bytes())
            .grant(&grant)
            .add_box("two", "");
        let house = more(house).start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        Ok(Self { house, claimed, host })
    }

    fn start(script: impl Fn(&mut Talk) -> Result<()> + Send + Sync + 'static) -> Result<Self> {
        Self::with(|house| house, script)
    }

    fn inside(&self) -> Result<Inside> {
        self.inside_of("one", &self.claimed)
    }

    fn inside_of(&self, id: &str, claimed: &Claimed) -> Result<Inside> {
        Tunnel::connect(&self.house.door(id), claimed.token(), "ws.test:443")?.tls(&self.house.ca_pem()?, "ws.test")
    }

    fn session(&self, path: &str) -> Result<Inside> {
        let mut inside = self.inside()?;
        let answer = inside.ask(&asking(path, ""))?;
        ensure!(answer.status == 101, "{answer:?}");
        Ok(inside)
    }

    /// The line that closed the request with this path.
    fn closed(&self, path: &str) -> Result<Value> {
        let opened = self.house.wait_line(path, |line| line["kind"] == "request" && line["path"] == path)?;
        self.house.wait_line("its closing", |line| line["of"] == opened["seq"])
    }
}

/// An opening handshake with these header lines besides.
fn asking(path: &str, headers: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: ws.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    )
    .into_bytes()
}

fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: ws.test\r\n{headers}\r\n").into_bytes()
}

/// To the key of [`asking`], with these header lines besides.
fn switching(headers: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n{headers}\r\n"
    )
    .into_bytes()
}

const REAL: &str = "sk-ant-oat01-REAL-TO-THE-HOSTILE-5d2e";
const GATEWAY: &[Need] = &[Need::Gateway];
