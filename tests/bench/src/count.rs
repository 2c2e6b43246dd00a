//! The gateway's instructions for one unit of work, counted by callgrind: the same on a busy machine as on an idle one.
//!
//! A house lives twice, once for a short and once for a long piece of work, all else the same; the difference of the two
//! is the work alone, without start and end.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::{Claimed, Tools, process};
use nix::sys::signal::Signal;
use tokio::runtime::Runtime;

use crate::certs::{HOST, MANY};
use crate::ground::{FIRST, Ground, Wanted};
use crate::history;
use crate::origin;
use crate::wire::{Connection, Route};

/// What is done again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Requests on one connection that stays open.
    Requests,
    /// New connections to a known host, one request on each.
    Connections,
    /// New connections, each to a host that was never asked, one request on each.
    Hosts,
}

impl Work {
    pub const ALL: [Self; 3] = [Self::Requests, Self::Connections, Self::Hosts];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Connections => "connections",
            Self::Hosts => "hosts",
        }
    }

    /// The lengths of the short and of the long piece.
    const fn lengths(self) -> (usize, usize) {
        match self {
            Self::Requests => (100, 1100),
            Self::Connections | Self::Hosts => (20, 120),
        }
    }
}

/// Instructions for one unit of this work.
///
/// # Errors
///
/// When the gateway does not get ready, an answer is wrong, or valgrind does not tell its count.
pub fn per_unit(work: Work, wanted: &Wanted) -> Result<f64> {
    let (short, long) = work.lengths();
    let (less, more) = std::thread::scope(|scope| {
        let less = scope.spawn(|| life(work, short, wanted));
        let more = life(work, long, wanted);
        (less.join().unwrap_or_else(|_| bail!("the short piece panicked")), more)
    });
    let (less, more) = (less?, more?);
    let difference = more.checked_sub(less).context("the long piece took less than the short one")?;
    Ok(difference as f64 / (long - short) as f64)
}

/// Instructions of a gateway's whole life with this much work.
fn life(work: Work, units: usize, wanted: &Wanted) -> Result<u64> {
    let folder = Ground::folder()?;
    let runtime = Runtime::new().context("start the client")?;
    let address = runtime.block_on(origin::start(folder.path()))?;
    let ground = Ground::new(folder, address);
    let mut house = ground.house(&Wanted { patient: true, ..wanted.clone() })?.prepare()?;
    if wanted.history > 0 {
        history::give(&mut house, wanted.history)?;
    }
    let counts = ground.path().join("callgrind.out");
    let running = process::start(under_callgrind(&house, &counts)?, None)?;
    let end = Instant::now() + READY;
    let claimed = loop {
        match Claimed::take(&house.door(FIRST)) {
            Ok(claimed) => break claimed,
            Err(fault) if Instant::now() > end => bail!("no claim: {fault:#}; {}", running.stderr()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let route = ground.by_door(&house, &claimed)?;
    // What the start skipped of its ledger is read meanwhile, and is no part of the work.
    while house.status()?["ledger"]["history"] != "read" {
        ensure!(Instant::now() < end, "the ledger's history is not read: {}", running.stderr());
        std::thread::sleep(Duration::from_millis(100));
    }
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, go(work, units, &route)).await.context("the work was not done in time")?
    })?;
    claimed.report()?;
    running.signal(Signal::SIGTERM)?;
    running.wait(PATIENCE)?.expect_code(0)?;
    total(&counts)
}

fn under_callgrind(house: &harness::House, counts: &Path) -> Result<Command> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet"]).arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(Tools::gateway()?).args(["serve", "--config"]).arg(house.config());
    command.current_dir(house.folder());
    Ok(command)
}

async fn go(work: Work, units: usize, route: &Route) -> Result<()> {
    // What every life does: the first connection, the first request of the host.
    let mut kept = Connection::open(route, HOST).await?;
    kept.get("/json").await?;
    let strangers = route.to_strangers();
    for at in 0..units {
        match work {
            Work::Requests => kept.get("/json").await.map(drop)?,
            Work::Connections => Connection::open(route, HOST).await?.get("/json").await.map(drop)?,
            Work::Hosts => {
                Connection::open(&strangers, &format!("h{at}.{MANY}")).await?.get("/json").await.map(drop)?
            }
        }
    }
    Ok(())
}

/// The sum that callgrind writes at the end of its file.
fn total(counts: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(counts).context("read callgrind's count")?;
    let line = text.lines().find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    line.context("find callgrind's sum")?.trim().parse().context("read callgrind's sum")
}

/// All waits are long: callgrind is slow, and the machine may be busy.
const READY: Duration = Duration::from_secs(300);
const PATIENCE: Duration = Duration::from_secs(900);
