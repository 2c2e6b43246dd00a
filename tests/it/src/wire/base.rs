//! What the cases on the wire start from: a stand-in, a house whose grants lead to it, and a run at its door.

use anyhow::{Context, Result, ensure};
use harness::door::Inside;
use harness::raw::Response;
use harness::{Claimed, House, HouseBuilder, Need, Tunnel};
use serde_json::Value;
use standin::{Fault, Options, Real, Rule, StandIn};

/// A stand-in, a house, and a run of box `one`.
pub(super) struct Wire {
    pub(super) standin: StandIn,
    pub(super) house: House,
    pub(super) claimed: Claimed,
}

impl Wire {
    /// `api.test` is given the secret, `open.test` and `evil.test` are open, `sock.test` is given the secret and may be asked
    /// for a WebSocket; all at a stand-in that speaks TLS.
    pub(super) fn start() -> Result<Self> {
        Self::with(Options::default(), |house| house)
    }

    /// The same, with other options of the stand-in and more of the house.
    pub(super) fn with(options: Options, more: impl FnOnce(HouseBuilder) -> HouseBuilder) -> Result<Self> {
        let standin = StandIn::start(Options {
            names: NAMES.map(str::to_owned).to_vec(),
            real: vec![Real::Bearer(REAL.into())],
            ..options
        })?;
        let house = more(House::builder()).file("standin-ca.pem", standin.ca_pem().as_bytes());
        let house = house.secret(Real::Bearer(REAL.into())).grant(&secret_grant(&standin)).grant(&open_grant(&standin));
        let house = house.grant(&socket_grant(&standin));
        let house = house.start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        Ok(Self { standin, house, claimed })
    }

    /// TLS in a tunnel to port 443 of a host.
    pub(super) fn inside(&self, host: &str) -> Result<Inside> {
        self.inside_of(&format!("{host}:443"), host)
    }

    pub(super) fn inside_of(&self, target: &str, name: &str) -> Result<Inside> {
        Tunnel::connect(&self.house.door("one"), self.claimed.token(), target)?.tls(&self.house.ca_pem()?, name)
    }

    /// A plain request in absolute form, with the run's token.
    pub(super) fn plain(&self, first: &str, headers: &str, body: &str) -> Result<Response> {
        let head = format!("{first} HTTP/1.1\r\n{}{headers}\r\n{body}", self.credential());
        Tunnel::open(&self.house.door("one"))?.ask(head.as_bytes())
    }

    /// The header line with the run's token.
    pub(super) fn credential(&self) -> String {
        let head = harness::door::connect_head("x:1", Some(self.claimed.token()));
        let line = head.lines().find(|line| line.starts_with("Proxy-Authorization"));
        format!("{}\r\n", line.unwrap_or_default())
    }

    pub(super) fn sentinel(&self) -> Result<String> {
        Ok(self.claimed.spec.sentinels.first().context("no sentinel")?.access.clone())
    }

    /// Everything that reached the stand-in.
    pub(super) fn upstream(&self) -> Vec<u8> {
        self.standin.connections().into_iter().flat_map(|one| one.raw).collect()
    }

    /// Every request is answered 200 from now on.
    pub(super) fn answer_all(&self) {
        self.standin
            .rules(vec![Rule::new("", Fault::Status { status: 200, headers: Vec::new(), body: b"fine".to_vec() })]);
    }

    /// The line of the request with this path, and the line that closed it.
    pub(super) fn closed(&self, path: &str) -> Result<(Value, Value)> {
        let opened = self.house.wait_line(path, |line| line["kind"] == "request" && line["path"] == path)?;
        let closed = self.house.wait_line("its closing", |line| line["of"] == opened["seq"])?;
        Ok((opened, closed))
    }
}

/// Exactly one request came, and this is it.
pub(super) fn only(standin: &StandIn) -> Result<standin::Seen> {
    let mut seen = standin.seen();
    ensure!(seen.len() == 1, "{} requests: {seen:?}", seen.len());
    Ok(seen.remove(0))
}

pub(super) fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

pub(super) fn get(host: &str, path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n").into_bytes()
}

pub(super) fn post(host: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

fn secret_grant(standin: &StandIn) -> String {
    format!(
        "name = \"api\"\nhosts = [\"api.test\", \"api.ok.test\"]\nsecret = \"anthropic\"\nunsafe_secret_hosts = true\n{}",
        there(standin)
    )
}

fn open_grant(standin: &StandIn) -> String {
    format!("name = \"open\"\nhosts = [\"open.test\", \"evil.test\"]\nplain = true\n{}", there(standin))
}

fn socket_grant(standin: &StandIn) -> String {
    format!(
        "name = \"sock\"\nhosts = [\"sock.test\"]\nsecret = \"anthropic\"\nunsafe_secret_hosts = true\nwebsocket = true\n{}",
        there(standin)
    )
}

/// The lines of a grant that lead to the stand-in.
pub(super) fn there(standin: &StandIn) -> String {
    format!("unsafe_dial = \"{}\"\nupstream_ca = \"standin-ca.pem\"", standin.address())
}

pub(super) const GATEWAY: &[Need] = &[Need::Gateway];
pub(super) const REAL: &str = "sk-ant-oat01-REAL-ON-THE-WIRE-77c1";
const NAMES: [&str; 10] = [
    "api.test",
    "api.ok.test",
    "open.test",
    "evil.test",
    "sock.test",
    "xn--bcher-kva.test",
    "host_with_underscore.test",
    "a-label-of-fifty-characters-that-is-very-long-indeed.and-one-of-thirty-two-characters.r2.test",
    "api.anthropic.com",
    "platform.claude.com",
];
