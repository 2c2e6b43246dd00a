//! `kill -9` of the gateway at random moments under load: what the upstream saw has its line.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use box_spec::RunToken;
use harness::{Case, Claimed, House, case};
use standin::StandIn;

use super::{GATEWAY, inside, model, post, take_up};

pub(crate) const CASES: &[Case] =
    &[case("crash::after_50_kills_under_load_every_request_the_upstream_saw_has_its_line", kills).needs(GATEWAY)];

/// One box that keeps its run through all the deaths of the gateway.
struct Client {
    id: &'static str,
    token: RunToken,
    sent: usize,
}

fn kills() -> Result<()> {
    let (standin, builder) = model()?;
    let mut house = BOXES[1..].iter().fold(builder.ceiling("10m"), |house, id| house.add_box(id, "")).prepare()?;
    house.start()?;
    let claims = BOXES.iter().map(|id| Claimed::take(&house.door(id))).collect::<Result<Vec<_>>>()?;
    house.kill()?;
    let tokens = claims.into_iter().map(|claimed| claimed.spec.token);
    let mut clients: Vec<Client> = BOXES.iter().zip(tokens).map(|(id, token)| Client { id, token, sent: 0 }).collect();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 | 1;
    let mut random = seed;
    let taken_up = AtomicUsize::new(0);
    for round in 0..KILLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let moment = Duration::from_micros(1000 + random % 150_000);
        one_life(&mut house, &standin, &mut clients, moment, &taken_up)
            .with_context(|| format!("kill {round}, seed {seed}"))?;
    }
    house.start()?;
    house.term()?.expect_code(0)?;
    let told = house.gateway(&["ledger", "verify"])?.expect_code(0)?.text();
    // A write that a kill cut off between two pages leaves a piece of a line, which `verify` knows; all else it held to be whole.
    let ledger = std::fs::read_to_string(house.ledger_file()).context("read the ledger")?;
    let written: HashSet<String> = ledger
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| line["kind"] == "request")
        .filter_map(|line| line["path"].as_str().map(str::to_owned))
        .collect();
    let seen = standin.seen();
    let missing: Vec<_> = seen.iter().map(|seen| &seen.path).filter(|path| !written.contains(*path)).collect();
    ensure!(missing.is_empty(), "{} requests without a line (seed {seed}): {missing:?}", missing.len());
    ensure!(seen.len() >= KILLS, "only {} requests in {KILLS} lives", seen.len());
    let taken_up = taken_up.load(Ordering::Relaxed);
    ensure!(taken_up >= KILLS * 2, "only {taken_up} runs were taken up again: {told}");
    Ok(())
}

/// Starts the gateway, lets the clients go, and kills it `moment` after the first request of this life was seen.
fn one_life(
    house: &mut House,
    standin: &StandIn,
    clients: &mut [Client],
    moment: Duration,
    taken_up: &AtomicUsize,
) -> Result<()> {
    house.start()?;
    let pid = nix::unistd::Pid::from_raw(house.pid().context("no gateway")?);
    let before = standin.seen().len();
    let dead = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                let (house, dead) = (&*house, &dead);
                scope.spawn(move || client.run(house, dead, taken_up))
            })
            .collect();
        let saw = standin.wait_seen(before + 1, Duration::from_secs(20));
        std::thread::sleep(moment);
        dead.store(true, Ordering::Release);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).context("kill the gateway")?;
        for one in running {
            one.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        saw.map(drop)
    })?;
    let ran = house.kill()?;
    ensure!(ran.signal == Some(9), "the gateway had ended by itself: {}", ran.stderr);
    Ok(())
}

impl Client {
    /// Requests until the gateway dies. What fails after that is no fault.
    fn run(&mut self, house: &House, dead: &AtomicBool, taken_up: &AtomicUsize) -> Result<()> {
        match self.requests(house, dead, taken_up) {
            Err(fault) if !dead.load(Ordering::Acquire) => {
                // The kill comes a moment after the flag; a break before it is the gateway's.
                Err(fault.context(format!("box {} while the gateway lived", self.id)))
            }
            _ => Ok(()),
        }
    }

    fn requests(&mut self, house: &House, dead: &AtomicBool, taken_up: &AtomicUsize) -> Result<()> {
        let mut claimed = take_up(&house.door(self.id), &self.token)?;
        taken_up.fetch_add(1, Ordering::Relaxed);
        while !dead.load(Ordering::Acquire) {
            let mut tunnel = inside(house, self.id, claimed.token())?;
            for _ in 0..8 {
                self.sent += 1;
                tunnel.ask(post(&format!("/v1/messages/{}-{}", self.id, self.sent), "{}").as_bytes())?;
            }
        }
        // Held open until the gateway is dead: a claim that breaks before it is a run that was lost.
        let _dead = claimed.next(Duration::from_secs(10));
        Ok(())
    }
}

const KILLS: usize = 50;
const BOXES: [&str; 4] = ["one", "two", "three", "four"];
