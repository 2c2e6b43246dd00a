//! The measures: each is one load on one fresh subject, and gives a few numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::certs::HOST;
use bench::ground::{Ground, SECRET};
use bench::wire::Connection;
use clap::ValueEnum;
use tokio::runtime::Runtime;

use crate::cost;
use crate::flat;
use crate::load::{self, Done};
use crate::subject::{Prepare, Started, Subject};

/// One load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Measure {
    /// New connections to a known host.
    Connect,
    /// New connections, each to a new host.
    Mint,
    /// Requests on 1 connection.
    Single,
    /// Requests on 16 connections.
    Sixteen,
    /// Requests on 64 connections.
    SixtyFour,
    /// Large answers.
    Down,
    /// Large requests.
    Up,
    /// 1,000 streams of events.
    Events,
    /// 5,000 connections that do nothing.
    Idle,
    /// The start.
    Start,
    /// The start of a house that has a history.
    StartOld,
    /// Instructions of a request with 10,000 grants and with 10.
    ManyGrants,
    /// The same with a long ledger and with an empty one.
    LongLedger,
    /// The same with 1,000 doors and with one, and the memory of a door.
    ManyDoors,
}

/// What a measure gave, by name.
pub(crate) type Numbers = BTreeMap<String, f64>;

/// How long, and how much.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) time: Duration,
    pub(crate) hosts: usize,
    pub(crate) streams: usize,
    pub(crate) events: u64,
    pub(crate) idle: usize,
    /// Bytes of ledger before a start.
    pub(crate) ledger: u64,
    /// The same where each is read under callgrind.
    pub(crate) history: u64,
}

impl Size {
    /// Tells it from other sizes.
    pub(crate) fn words(&self) -> String {
        let Self { time, hosts, streams, events, idle, ledger, history } = self;
        format!("{time:?} {hosts} {streams} {events} {idle} {ledger} {history}")
    }
}

impl Measure {
    /// Whom it is taken of.
    pub(crate) const fn subjects(self) -> &'static [Subject] {
        use Subject::{Boxgate, BoxgateAlways, BoxgateBox, BoxgateTcp, Direct, Hudsucker, Mitmproxy, Nginx};
        match self {
            Self::Connect | Self::Sixteen => &[Direct, Boxgate, BoxgateTcp, Nginx, Hudsucker, Mitmproxy],
            Self::Mint | Self::Start => &[Boxgate, Nginx, Hudsucker, Mitmproxy],
            Self::Single => &[Direct, Boxgate, BoxgateBox, BoxgateTcp, Nginx, Hudsucker, Mitmproxy],
            Self::SixtyFour => &[Direct, Boxgate, BoxgateAlways, Nginx, Hudsucker],
            Self::Down => &[Direct, Boxgate, BoxgateBox, BoxgateTcp, Nginx, Hudsucker, Mitmproxy],
            Self::Up => &[Direct, Boxgate, Nginx, Hudsucker, Mitmproxy],
            Self::Events => &[Direct, Boxgate, Nginx, Hudsucker],
            Self::Idle => &[Boxgate, Nginx, Hudsucker],
            Self::StartOld | Self::ManyGrants | Self::LongLedger | Self::ManyDoors => &[Boxgate],
        }
    }

    /// Whether what others do changes nothing of it, so that once is enough.
    pub(crate) const fn is_steady(self) -> bool {
        matches!(self, Self::ManyGrants | Self::LongLedger | Self::ManyDoors)
    }

    /// Starts the subject, takes the measure, ends the subject.
    pub(crate) fn take(self, of: &mut dyn Prepare, ground: &Ground, runtime: &Runtime, size: &Size) -> Result<Numbers> {
        if let Some(done) = flat::take(self, ground, size) {
            return done;
        }
        if self == Self::StartOld {
            let started = of.start_old(ground, size.ledger)?;
            return runtime.block_on(first(&started)).map(|ms| named([("ms", ms)]));
        }
        let started = of.start(ground)?;
        let ms = runtime.block_on(first(&started))?;
        runtime.block_on(overwrites(&started))?;
        let noise = cost::Noise::begin()?;
        let spent = cost::cpu(&started.roots);
        let mut numbers = match self {
            Self::Start => start(&started, ms)?,
            Self::Idle => runtime.block_on(load::in_time(idle(&started, size)))?,
            _ => {
                let done = runtime.block_on(load::in_time(self.load(&started, size)))?;
                self.numbers(&done, &started, spent)
            }
        };
        numbers.insert("foreign".to_owned(), noise.cores()?);
        Ok(numbers)
    }

    async fn load(self, started: &Started, size: &Size) -> Result<Done> {
        let route = &started.route;
        match self {
            Self::Connect => load::connections(route, 16, size.time).await,
            Self::Mint => load::hosts(route, 1, size.hosts, 8).await,
            Self::Single => load::requests(route, 1, size.time).await,
            Self::Sixteen => load::requests(route, 16, size.time).await,
            Self::SixtyFour => load::requests(route, 64, size.time).await,
            Self::Down => load::bulk(route, false, size.time).await,
            Self::Up => load::bulk(route, true, size.time).await,
            Self::Events => load::events(route, size.streams, size.events, EVENT_PAUSE).await,
            Self::Idle | Self::Start | Self::StartOld | Self::ManyGrants | Self::LongLedger | Self::ManyDoors => {
                anyhow::bail!("{self:?} is no load")
            }
        }
    }

    fn numbers(self, done: &Done, started: &Started, before: f64) -> Numbers {
        let spent = cost::cpu(&started.roots) - before;
        let each = |per: f64| spent / done.units as f64 * per;
        match self {
            Self::Connect | Self::Mint | Self::Events => named([
                ("cpu", each(1e6)),
                ("rate", done.rate()),
                ("p50", done.micros(0.5)),
                ("p99", done.micros(0.99)),
            ]),
            Self::Down | Self::Up => {
                // The first opens TLS; what stands before it is the shim.
                let shim = started.roots.get(1).map(|root| cost::cpu(&[*root]) / done.units as f64 * 1e9);
                let mut numbers = named([("cpu", each(1e9)), ("rate", done.rate() / 1e6)]);
                numbers.extend(shim.map(|shim| ("shim".to_owned(), shim)));
                numbers
            }
            _ => named([
                ("cpu", each(1e4)),
                ("rate", done.rate()),
                ("p50", done.micros(0.5)),
                ("p99", done.micros(0.99)),
            ]),
        }
    }
}

/// Milliseconds from the start of the process until it served the first request.
async fn first(started: &Started) -> Result<f64> {
    loop {
        let asked = async { Connection::open(&started.route, HOST).await?.get("/json").await };
        match asked.await {
            Ok(_) => return Ok(started.began.elapsed().as_secs_f64() * 1e3),
            Err(fault) if started.began.elapsed() > READY => return Err(fault.context("it never answered")),
            Err(_) => tokio::time::sleep(Duration::from_micros(500)).await,
        }
    }
}

/// A subject that does not do its work is not measured.
async fn overwrites(started: &Started) -> Result<()> {
    let mut seen = Vec::new();
    let mut connection = Connection::open(&started.route, HOST).await?;
    connection.get_each("/echo", |piece| seen.extend_from_slice(piece)).await?;
    let seen: String = String::from_utf8_lossy(&seen).chars().rev().collect();
    let expected = format!("Bearer {SECRET}");
    ensure!(started.roots.is_empty() || seen == expected, "the credential was not overwritten");
    Ok(())
}

fn start(started: &Started, ms: f64) -> Result<Numbers> {
    std::thread::sleep(Duration::from_millis(300));
    Ok(named([("ms", ms), ("memory", cost::memory(&started.roots)? / 1024.0)]))
}

async fn idle(started: &Started, size: &Size) -> Result<Numbers> {
    let before = cost::memory(&started.roots)?;
    let held = load::hold(&started.route, size.idle).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = cost::memory(&started.roots)?;
    let alive = load::alive(held).await;
    ensure!(alive == size.idle, "only {alive} of {} connections were alive at the end", size.idle);
    Ok(named([("memory", (after - before) / size.idle as f64), ("alive", alive as f64)]))
}

fn named<const N: usize>(numbers: [(&str, f64); N]) -> Numbers {
    numbers.into_iter().map(|(name, number)| (name.to_owned(), number)).collect()
}

/// Names a measure as it is asked for.
pub(crate) fn name(measure: Measure) -> Result<String> {
    Ok(measure.to_possible_value().context("name a measure")?.get_name().to_owned())
}

const EVENT_PAUSE: Duration = Duration::from_millis(500);
const READY: Duration = Duration::from_secs(30);
