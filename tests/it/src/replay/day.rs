//! A day of three boxes at a real house, on record: what each sent, and what was said to it.

use anyhow::{Context, Result, ensure};
use harness::raw::Response;
use harness::{Claimed, House, Tunnel};
use serde_json::json;
use standin::{Fault, Options, Real, Rule, StandIn, Then};

/// The house, and all that was asked of it.
pub(super) struct Day {
    pub(super) house: House,
    pub(super) sent: Vec<Sent>,
    /// Tunnels that were refused for their port.
    pub(super) odd_ports: usize,
    /// Tunnels of box three that were let in.
    pub(super) tunnels_of_three: usize,
    standin: StandIn,
}

/// One request that was sent. Its path is its own.
pub(super) struct Sent {
    pub(super) by: &'static str,
    pub(super) what: What,
    pub(super) path: String,
}

/// What was sent, and with that what was said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Read,
    Posted,
    /// The same a second time: only counted.
    PostedAgain,
    /// Of the API, by boxes that may.
    Called,
    /// By the box that may not.
    CalledInVain,
    Second,
    Lost,
    /// MCP: a tool that reads, one that writes, and the end of a session, which has no body.
    Used,
    Wrote,
    Ended,
    /// A model: asked for nothing, for a search, for a fetch.
    Asked,
    Searched,
    Fetched,
    Session,
    NoSession,
    Minted,
    Told,
    /// With the stand-in of a model.
    Astray,
}

impl What {
    pub(super) const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Read
            | Self::Called
            | Self::Used
            | Self::Ended
            | Self::Asked
            | Self::Searched
            | Self::Session
            | Self::Told => None,
            Self::Posted | Self::PostedAgain | Self::CalledInVain | Self::Second | Self::Lost => Some("no-grant"),
            Self::Wrote => Some("mcp-refused"),
            Self::Fetched => Some("provider-egress"),
            Self::NoSession => Some("upgrade-refused"),
            Self::Minted => Some("durable-credential"),
            Self::Astray => Some("sentinel-astray"),
        }
    }

    pub(super) fn was_let_through(self) -> bool {
        self.reason().is_none() && self != Self::Told
    }

    pub(super) const fn grant(self) -> &'static str {
        match self {
            Self::Called => "api",
            Self::Used | Self::Ended => "mcp",
            Self::Asked | Self::Searched => "model-anthropic",
            Self::Session => "sock",
            _ => "docs",
        }
    }
}

impl Day {
    pub(super) fn recorded() -> Result<Self> {
        let real = Real::Bearer("sk-ant-oat01-REAL-of-a-day".into());
        let names = ["docs.test", "api.test", "mcp.test", "sock.test", "api.anthropic.com"].map(str::to_owned).to_vec();
        let standin = StandIn::start(Options { names, real: vec![real.clone()], ..Options::default() })?;
        let there = format!("unsafe_dial = \"{}\"\nupstream_ca = \"standin-anthropic-ca.pem\"", standin.address());
        let grants = [
            format!("name = \"docs\"\nhosts = [\"docs.test\"]\nmethods = [\"GET\", \"HEAD\"]\n{there}"),
            format!("name = \"api\"\nboxes = [\"one\", \"two\"]\nhosts = [\"api.test\"]\npaths = [\"/v1\"]\n{there}"),
            format!(
                "name = \"mcp\"\nhosts = [\"mcp.test\"]\nmcp_methods = [\"tools/*\"]\nmcp_tools = [\"read_*\"]\n{there}"
            ),
            format!("name = \"sock\"\nhosts = [\"sock.test\"]\nwebsocket = true\n{there}"),
        ];
        let house =
            House::builder().add_box("two", "").add_box("three", "").of_models("provider_tools = [\"web_search\"]");
        let house = house.serve(&standin, box_spec::Provider::Anthropic, real);
        let house = grants.iter().fold(house, |house, grant| house.grant(grant)).start()?;
        let fine = Fault::Status { status: 200, headers: Vec::new(), body: b"fine".to_vec() };
        let switch = Fault::Raw { pieces: vec![(std::time::Duration::ZERO, SWITCHED.to_vec())], then: Then::Close };
        standin.rules(vec![Rule::new("/session-", switch), Rule::new("", fine)]);
        let mut day = Self { house, sent: Vec::new(), odd_ports: 0, tunnels_of_three: 0, standin };
        for by in ["one", "two", "three"] {
            day.of(by).with_context(|| format!("the day of box {by}"))?;
        }
        ensure!(!day.standin.seen().is_empty(), "nothing arrived");
        Ok(day)
    }

    fn of(&mut self, by: &'static str) -> Result<()> {
        let claimed = Claimed::take(&self.house.door(by))?;
        let own = claimed.spec.sentinels.first().context("no sentinel")?.access.clone();
        let bearer = format!("Authorization: Bearer {own}\r\n");
        let mut box_of = Sender { day: self, by, token: claimed.token().to_owned() };
        box_of.many(What::Read, 60, "docs.test", |at| (format!("/read-{at}"), "GET", String::new(), None))?;
        box_of.many(What::Posted, 5, "docs.test", |at| {
            (format!("/post-{at}"), "POST", String::new(), Some("x".into()))
        })?;
        box_of.many(What::PostedAgain, 1, "docs.test", |_| {
            ("/post-0".to_owned(), "POST", String::new(), Some("x".into()))
        })?;
        let called = if by == "three" { What::CalledInVain } else { What::Called };
        box_of.many(called, 12, "api.test", |at| (format!("/v1/call-{at}?page=2"), "GET", String::new(), None))?;
        box_of.many(What::Second, 6, "api.test", |at| (format!("/v2/call-{at}"), "DELETE", String::new(), None))?;
        box_of.many(What::Lost, 4, "nowhere.test", |at| (format!("/lost-{at}"), "GET", String::new(), None))?;
        let tool = |name: &str| {
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}).to_string()
        };
        let kind = || "Content-Type: application/json\r\n".to_owned();
        box_of
            .many(What::Used, 5, "mcp.test", |at| (format!("/mcp/used-{at}"), "POST", kind(), Some(tool("read_it"))))?;
        box_of.many(What::Wrote, 5, "mcp.test", |at| {
            (format!("/mcp/wrote-{at}"), "POST", kind(), Some(tool("write_it")))
        })?;
        box_of.many(What::Ended, 2, "mcp.test", |at| (format!("/mcp/ended-{at}"), "DELETE", String::new(), None))?;
        let ask = |tool: &str| match tool {
            "" => json!({"model": "m", "messages": []}).to_string(),
            tool => json!({"model": "m", "tools": [{"type": tool, "name": "x"}], "messages": []}).to_string(),
        };
        let (api, model) = ("api.anthropic.com", |name: &str, at: usize| format!("/v1/messages/{name}-{at}"));
        box_of.many(What::Asked, 5, api, |at| (model("asked", at), "POST", kind() + &bearer, Some(ask(""))))?;
        box_of.many(What::Searched, 3, api, |at| {
            (model("searched", at), "POST", kind() + &bearer, Some(ask("web_search_20250305")))
        })?;
        box_of.many(What::Fetched, 3, api, |at| {
            (model("fetched", at), "POST", kind() + &bearer, Some(ask("web_fetch_20250910")))
        })?;
        box_of
            .many(What::Session, 2, "sock.test", |at| (format!("/session-{at}"), "GET", HANDSHAKE.to_owned(), None))?;
        box_of.many(What::NoSession, 2, "docs.test", |at| {
            (format!("/no-session-{at}"), "GET", HANDSHAKE.to_owned(), None)
        })?;
        box_of.many(What::Minted, 1, api, |_| {
            ("/api/oauth/claude_cli/create_api_key".to_owned(), "POST", String::new(), None)
        })?;
        box_of.many(What::Told, 1, api, |_| ("/api/event_logging/batch".to_owned(), "POST", String::new(), None))?;
        box_of.many(What::Astray, 2, "docs.test", |at| (format!("/astray-{at}"), "GET", bearer.clone(), None))?;
        let odd = Tunnel::connect(&self.house.door(by), claimed.token(), "docs.test:8443")?;
        let said =
            odd.tls(&self.house.ca_pem()?, "docs.test")?.ask(b"GET / HTTP/1.1\r\nHost: docs.test:8443\r\n\r\n")?;
        ensure!(said.reason() == Some("port-refused"), "{said:?}");
        self.odd_ports += 1;
        self.closed()
    }

    /// Waits until every line that awaits a closing has it.
    fn closed(&self) -> Result<()> {
        harness::until("all to be closed", std::time::Duration::from_secs(10), || {
            let lines = self.house.ledger().ok()?;
            let closed: Vec<_> = lines.iter().filter_map(|line| line["of"].as_u64()).collect();
            let mut open = lines.iter().filter(|line| line["open"] == true).filter_map(|line| line["seq"].as_u64());
            open.all(|sequence| closed.contains(&sequence)).then_some(())
        })
    }
}

/// One box, while it sends.
struct Sender<'a> {
    day: &'a mut Day,
    by: &'static str,
    token: String,
}

impl Sender<'_> {
    /// So many, each in a tunnel of its own.
    fn many(
        &mut self,
        what: What,
        count: usize,
        host: &str,
        request: impl Fn(usize) -> (String, &'static str, String, Option<String>),
    ) -> Result<()> {
        for at in 0..count {
            let (address, method, headers, body) = request(at);
            let length = body.as_ref().map(|body| format!("Content-Length: {}\r\n", body.len())).unwrap_or_default();
            let body = body.unwrap_or_default();
            let head = format!("{method} {address} HTTP/1.1\r\nHost: {host}\r\n{headers}{length}\r\n{body}");
            let answer = self.ask(host, head.as_bytes())?;
            let told = answer.reason();
            ensure!(told == what.reason(), "{what:?} {address}: {answer:?}");
            let path = address.split('?').next().unwrap_or_default().to_owned();
            self.day.sent.push(Sent { by: self.by, what, path });
        }
        Ok(())
    }

    fn ask(&mut self, host: &str, bytes: &[u8]) -> Result<Response> {
        let house = &self.day.house;
        let tunnel = Tunnel::connect(&house.door(self.by), &self.token, &format!("{host}:443"))?;
        if self.by == "three" {
            self.day.tunnels_of_three += 1;
        }
        tunnel.tls(&house.ca_pem()?, host)?.ask(bytes)
    }
}

/// With the key of RFC 6455 §1.3, and its answer.
const HANDSHAKE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
