//! What a stand-in is started with.

use std::net::SocketAddr;
use std::time::Duration;

use crate::certs::Certificate;
use crate::git::Repositories;
use crate::real::Real;

/// How a stand-in is to behave from the start. Rules, script, [`Expect`] and idle closing can be changed later.
///
/// # Defaults
///
/// A free port on 127.0.0.1, TLS with a certificate of its own authority for the hosts of all providers, no credential
/// accepted, `100 Continue` sent when asked for, WebSockets accepted, connections kept open.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The host names that the leaf is for.
    pub names: Vec<String>,
    /// The credentials that are accepted. Everything else is answered 401.
    pub real: Vec<Real>,
    pub certificate: Certificate,
    /// Speak plain HTTP.
    pub plain: bool,
    /// Offer TLS 1.2 only.
    pub tls12_only: bool,
    /// The protocols offered by ALPN.
    pub alpn: Vec<String>,
    /// How many bytes of a body, and of a connection, are kept. Length and digest always cover all.
    pub keep: usize,
    pub expect: Expect,
    /// Accept WebSockets where OpenAI's responses are; else upgrades are answered 426, after which the agents use SSE.
    pub websocket: bool,
    /// Close a connection on which no request came for so long.
    pub idle_close: Option<Duration>,
    /// Serve these instead of models.
    pub repositories: Option<Repositories>,
}

/// What is done with `Expect: 100-continue`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Expect {
    #[default]
    Continue,
    /// `100 Continue` comes after a while.
    Late(Duration),
    /// Never sent; the body is read when it comes.
    Ignore,
    /// `417 Expectation Failed` instead of reading the body.
    Refuse,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            names: HOSTS.map(str::to_owned).into(),
            real: Vec::new(),
            certificate: Certificate::Good,
            plain: false,
            tls12_only: false,
            alpn: vec!["http/1.1".into()],
            keep: 8 * 1024 * 1024,
            expect: Expect::Continue,
            websocket: true,
            idle_close: None,
            repositories: None,
        }
    }
}

/// Where the providers answer, where they refresh logins, and where a person signs in.
const HOSTS: [&str; 6] =
    ["api.anthropic.com", "platform.claude.com", "claude.ai", "api.openai.com", "chatgpt.com", "auth.openai.com"];
