//! boxgate as a subject: a fresh house, a run that is claimed, and in one form boxd with its shim before it.

use std::net::SocketAddr;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::ground::{FIRST, Ground, Wanted};
use bench::history;
use bench::wire::{Entrance, Route};
use box_spec::wire::{Identity, proof_text};
use harness::claim::{self, Answer};
use harness::fakes::FakeAgents;
use harness::network::free_port;
use harness::{BoxRun, Claimed, House, HouseBuilder, Running, Tools, process, until};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::{Prepare, Started};

/// How the client comes to the house.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Door,
    /// Through boxd.
    Box,
    /// Through a TCP door.
    Tcp,
    /// Through the door, the ledger synced for each line.
    Always,
}

pub(crate) struct Boxgate {
    form: Form,
    /// The house that has a history, made once.
    old: Option<Rc<House>>,
}

impl Boxgate {
    pub(super) const fn new(form: Form) -> Self {
        Self { form, old: None }
    }
}

impl Prepare for Boxgate {
    fn start(&mut self, ground: &Ground) -> Result<Started> {
        let wanted = Wanted { sync: if self.form == Form::Always { "always" } else { "batch" }, ..Wanted::default() };
        let house = ground.house(&wanted)?;
        match self.form {
            Form::Door | Form::Always => start(ground, Rc::new(house.prepare()?)),
            Form::Tcp => at_tcp_door(ground, house),
            // The client comes by the machine's loopback, which is then the box's own.
            Form::Box => in_box(house.open_network().prepare()?),
        }
    }

    fn start_old(&mut self, ground: &Ground, ledger: u64) -> Result<Started> {
        let house = match &self.old {
            Some(house) => {
                // The gateway of the round before was killed, and its run would be waited for.
                let live = house.state().join("live");
                std::fs::remove_dir_all(&live).with_context(|| format!("remove {}", live.display()))?;
                Rc::clone(house)
            }
            None => {
                let mut house = ground.house(&Wanted::default())?.prepare()?;
                history::give(&mut house, ledger)?;
                Rc::clone(self.old.insert(Rc::new(house)))
            }
        };
        start(ground, house)
    }

    fn version(&self) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }
}

/// Starts a house that was prepared, and claims a run.
fn start(ground: &Ground, house: Rc<House>) -> Result<Started> {
    settle();
    let began = Instant::now();
    let gateway = gateway(&house)?;
    let claimed = claimed(&house, &gateway)?;
    let route = ground.by_door(&house, &claimed)?;
    Ok(Started { route, began, roots: vec![gateway.pid()], _held: Box::new((claimed, gateway, house)) })
}

/// A house as it is wanted, that has a run and nothing to do.
pub(crate) fn waiting_house(ground: &Ground, wanted: &Wanted) -> Result<Started> {
    start(ground, Rc::new(ground.house(wanted)?.prepare()?))
}

/// The run is claimed at a TCP door, and its client comes there.
fn at_tcp_door(ground: &Ground, house: HouseBuilder) -> Result<Started> {
    let at = free_port(std::net::Ipv4Addr::LOCALHOST.into())?;
    let over = format!(
        "\n[[box]]\nid = \"over\"\nagent = \"claude\"\nlisten = \"{at}\"\nkey_file = \"over.key\"\nunsafe_loopback = true\n"
    );
    let house = house.file("over.key", KEY.as_bytes()).extra(&over).prepare()?;
    settle();
    let began = Instant::now();
    let gateway = gateway(&house)?;
    let claimed = until("the TCP door", READY, || match Claimed::ask_at(at, &claim::claim(), proof) {
        Ok(Answer::Taken(claimed)) => Some(claimed),
        Ok(Answer::Refused { .. }) | Err(_) => None,
    });
    let claimed = claimed.with_context(|| gateway.stderr())?.attested()?;
    let route = Route { entrance: Entrance::Proxy(at), ..ground.by_door(&house, &claimed)? };
    Ok(Started { route, began, roots: vec![gateway.pid()], _held: Box::new((claimed, gateway, house)) })
}

/// The key of the TCP door, proved on what it says of itself.
fn proof(door: &Identity) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).ok()?;
    mac.update(proof_text(&door.house, &door.box_id, door.challenge.as_deref()?).as_bytes());
    Some(mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect())
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

fn claimed(house: &House, gateway: &Running) -> Result<Claimed> {
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
const KEY: &str = "the-box-key-of-the-bench-5f1c0d9a77e2";
