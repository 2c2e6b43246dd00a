//! What is measured: boxgate in its forms, and its peers. Each is started afresh for each measure.

mod boxgate;
mod peers;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use bench::certs;
use bench::ground::Ground;
use bench::wire::{Entrance, Route};
use clap::ValueEnum;

use boxgate::Form;
pub(crate) use boxgate::{Boxgate, waiting_house};

/// One that is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Subject {
    /// The client and the origin alone.
    Direct,
    /// boxgate at a box's unix door.
    Boxgate,
    /// The same behind boxd's shim, as an agent sees it.
    BoxgateBox,
    /// boxgate at a box's TCP door.
    BoxgateTcp,
    /// The unix door, with each line of the ledger synced to the disk before its request goes on.
    BoxgateAlways,
    /// Terminates and encrypts again, without CONNECT: the limit.
    Nginx,
    /// The best intercepting peer, with TCP_NODELAY.
    Hudsucker,
    /// What people use today.
    Mitmproxy,
}

/// Where the programs of the peers are.
#[derive(Clone, clap::Args)]
pub(crate) struct Programs {
    #[arg(long)]
    pub(crate) nginx: Option<PathBuf>,
    #[arg(long)]
    pub(crate) hudsucker: Option<PathBuf>,
    #[arg(long)]
    pub(crate) mitmproxy: Option<PathBuf>,
}

/// A subject that runs. Dropped, it is ended with all that it started.
pub(crate) struct Started {
    pub(crate) route: Route,
    /// Just before its first process.
    pub(crate) began: Instant,
    /// Its processes, the one that opens TLS first; what they started counts too.
    pub(crate) roots: Vec<i32>,
    /// What ends with it.
    pub(crate) _held: Box<dyn std::any::Any>,
}

impl Subject {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Boxgate => "boxgate",
            Self::BoxgateBox => "boxgate-box",
            Self::BoxgateTcp => "boxgate-tcp",
            Self::BoxgateAlways => "boxgate-always",
            Self::Nginx => "nginx",
            Self::Hudsucker => "hudsucker",
            Self::Mitmproxy => "mitmproxy",
        }
    }

    /// Makes what it needs before it can be started, again and again.
    pub(crate) fn prepare(self, ground: &Ground, programs: &Programs) -> Result<Box<dyn Prepare>> {
        let program = |given: &Option<PathBuf>| given.clone().with_context(|| format!("{} is not there", self.name()));
        Ok(match self {
            Self::Direct => Box::new(Direct),
            Self::Boxgate => Box::new(Boxgate::new(Form::Door)),
            Self::BoxgateBox => Box::new(Boxgate::new(Form::Box)),
            Self::BoxgateTcp => Box::new(Boxgate::new(Form::Tcp)),
            Self::BoxgateAlways => Box::new(Boxgate::new(Form::Always)),
            Self::Nginx => Box::new(peers::Nginx::new(ground, program(&programs.nginx)?)?),
            Self::Hudsucker => Box::new(peers::Hudsucker::new(program(&programs.hudsucker)?)),
            Self::Mitmproxy => Box::new(peers::Mitmproxy::new(ground, program(&programs.mitmproxy)?)?),
        })
    }
}

/// Something that can be started.
pub(crate) trait Prepare {
    /// Starts it; it may not answer yet.
    fn start(&mut self, ground: &Ground) -> Result<Started>;

    /// The same with a ledger of this many bytes, where it has one.
    fn start_old(&mut self, _ground: &Ground, _ledger: u64) -> Result<Started> {
        anyhow::bail!("it keeps no ledger")
    }

    /// What it says of its version.
    fn version(&self) -> Result<String>;
}

struct Direct;

impl Prepare for Direct {
    fn start(&mut self, ground: &Ground) -> Result<Started> {
        let route = Route {
            entrance: Entrance::Tls(ground.origin),
            port: ground.origin.port(),
            token: None,
            authorization: STRANGER.to_owned(),
            tls: certs::client(&ground.read(certs::ORIGIN_CA)?)?,
        };
        Ok(Started { route, began: Instant::now(), roots: Vec::new(), _held: Box::new(()) })
    }

    fn version(&self) -> Result<String> {
        Ok("the origin itself".to_owned())
    }
}

/// What a client sends to a peer in the place of a sentinel.
const STRANGER: &str = "sk-ant-oat01-boxgate-sentinel-0123456789abcdef0123456789abcdef";
