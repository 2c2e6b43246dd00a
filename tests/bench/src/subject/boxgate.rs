//! boxgate as a subject: a fresh house, a run that is claimed, and in one form boxd with its shim before it.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::ground::{FIRST, Ground, Wanted};
use bench::wire::{Entrance, Route};
use harness::fakes::FakeAgents;
use harness::{BoxRun, Claimed, House, Running, Tools, process, until};

use super::{Prepare, Started};

/// How the client comes to the house.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Door,
    /// Through boxd.
    Box,
    /// Through the door, the ledger synced for each line.
    Always,
}

pub(crate) struct Boxgate {
    form: Form,
}

impl Boxgate {
    pub(super) const fn new(form: Form) -> Self {
        Self { form }
    }
}

impl Prepare for Boxgate {
    fn start(&mut self, ground: &Ground) -> Result<Started> {
        let wanted = Wanted { sync: if self.form == Form::Always { "always" } else { "batch" }, ..Wanted::default() };
        let house = ground.house(&wanted)?;
        match self.form {
            Form::Door | Form::Always => start(ground, house.prepare()?),
            // The client comes by the machine's loopback, which is then the box's own.
            Form::Box => in_box(house.open_network().prepare()?),
        }
    }

    fn version(&self) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }
}

/// Starts a house that was prepared, and claims a run.
fn start(ground: &Ground, house: House) -> Result<Started> {
    settle();
    let began = Instant::now();
    let gateway = gateway(&house)?;
    let claimed = claim(&house, &gateway)?;
    let route = ground.by_door(&house, &claimed)?;
    Ok(Started { route, began, roots: vec![gateway.pid()], _held: Box::new((claimed, gateway, house)) })
}

/// A house that ran before, with a ledger of this many bytes. The ledger is the same lines again and again, with the true
/// ones at its end.
pub(crate) fn old_house(ground: &Ground, ledger: u64) -> Result<Started> {
    let mut house = ground.house(&Wanted::default())?.prepare()?;
    house.start()?;
    Claimed::take(&house.door(FIRST))?.report()?;
    house.term()?.expect_code(0)?;
    lengthen(&house, ledger)?;
    start(ground, house)
}

fn lengthen(house: &House, bytes: u64) -> Result<()> {
    use std::io::Write;
    let lines = std::fs::read(house.ledger_file()).context("read the ledger")?;
    let block = lines.repeat((1 << 20) / lines.len().max(1) + 1);
    let mut file = std::fs::OpenOptions::new().write(true).open(house.ledger_file()).context("open the ledger")?;
    let mut left = bytes;
    while left > 0 {
        file.write_all(&block).context("lengthen the ledger")?;
        left = left.saturating_sub(block.len() as u64);
    }
    file.write_all(&lines).and_then(|()| file.sync_all()).context("lengthen the ledger")
}

/// A secret's file that was written just now is read again for each request, since another change could bear the same time.
/// That is not what is to be measured.
fn settle() {
    std::thread::sleep(Duration::from_millis(2100));
}

fn gateway(house: &House) -> Result<Running> {
    let mut command = Command::new(Tools::gateway()?);
    command.args(["serve", "--config"]).arg(house.config()).env_clear().current_dir(house.folder());
    process::start(command, None)
}

fn claim(house: &House, gateway: &Running) -> Result<Claimed> {
    let end = Instant::now() + READY;
    loop {
        match Claimed::take(&house.door(FIRST)) {
            Ok(claimed) => return Ok(claimed),
            Err(fault) if Instant::now() > end => {
                return Err(fault.context(format!("the gateway did not get ready: {}", gateway.stderr())));
            }
            Err(_) => std::thread::sleep(Duration::from_micros(500)),
        }
    }
}

/// An agent that says where its proxy is and then does nothing.
fn in_box(house: House) -> Result<Started> {
    settle();
    let began = Instant::now();
    let gateway = gateway(&house)?;
    until("the door", READY, || house.identity(FIRST).ok()).with_context(|| gateway.stderr())?;
    let fakes = FakeAgents::shell("echo \"$HTTPS_PROXY\"; exec sleep 36000")?;
    let launch = BoxRun::new(&house, FIRST)?.agents(fakes.folder()).prompt("wait");
    let boxd = launch.start()?;
    let proxy = until("the agent", READY, || {
        let said = String::from_utf8_lossy(&boxd.stdout()).into_owned();
        said.lines().next()?.strip_prefix("http://")?.trim_end_matches('/').parse::<SocketAddr>().ok()
    })
    .with_context(|| boxd.stderr())?;
    let seeded = std::fs::read(launch.session_folder().join("claude/.credentials.json")).context("read a sentinel")?;
    let seeded: serde_json::Value = serde_json::from_slice(&seeded).context("read a sentinel")?;
    let route = Route {
        entrance: Entrance::Proxy(proxy),
        port: 443,
        token: None,
        authorization: seeded["claudeAiOauth"]["accessToken"].as_str().context("find a sentinel")?.to_owned(),
        tls: bench::certs::client(house.ca_pem()?.as_bytes())?,
    };
    let roots = vec![gateway.pid(), boxd.pid()];
    Ok(Started { route, began, roots, _held: Box::new((boxd, launch, fakes, gateway, house)) })
}

const READY: Duration = Duration::from_secs(20);
