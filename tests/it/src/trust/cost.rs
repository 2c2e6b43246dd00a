//! What boxd costs: milliseconds to the agent's start, and memory while bytes pass.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use box_spec::Agent;
use harness::fakes::FakeAgents;
use harness::process::descendants;
use harness::{BoxRun, Relay, until};
use nix::sys::signal::Signal;

use super::SOON;
use crate::seeds;

/// What the house waits for its own disk is no cost of boxd's, and differs by the machine: its state lies in memory here.
pub(super) fn start() -> Result<()> {
    let house = seeds::builder().in_memory().start()?;
    let started = |agent| median_start(agent, &seeds::launch(&house, agent)?, Duration::from_millis(10));
    Agent::ALL.into_iter().try_for_each(started)
}

pub(super) fn start_isolated() -> Result<()> {
    let house = seeds::builder().in_memory().start()?;
    let started = |agent| median_start(agent, &seeds::launch(&house, agent)?.isolated(), Duration::from_millis(20));
    Agent::ALL.into_iter().try_for_each(started)
}

/// How much later the agent starts than it does by itself: the median of 20 starts through boxd without that of 20 bare
/// starts, each from before the fork to the first byte that comes out. A busy machine makes it longer and nothing makes
/// it shorter, so the best round counts; rounds go on for a while, since others may keep a machine busy for seconds.
fn median_start(agent: Agent, launch: &BoxRun, bound: Duration) -> Result<()> {
    let fakes = FakeAgents::shell_as(agent, &format!("{LIST}\necho x"))?;
    let launch = launch.clone().agents(fakes.folder());
    // The first launch of codex asks for the list of models; the measured ones find it.
    launch.run(SOON)?.expect_code(0)?;
    let mut rounds = Vec::new();
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let bare = median_of_round(|| Ok(Command::new(fakes.itself(agent))))?;
        let governed = median_of_round(|| launch.command())?;
        rounds.push(governed.saturating_sub(bare));
        if rounds.iter().any(|median| *median <= bound) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    bail!("boxd takes {rounds:?} to the start of {agent}, more than {bound:?}");
}

fn median_of_round(command: impl Fn() -> Result<Command>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..20 {
        let mut command = command()?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let began = Instant::now();
        let mut child = command.spawn().context("start")?;
        let mut first = [0];
        // Blocks: a loop that looks would take the processor away from what is measured. The read ends with the child.
        let read = child.stdout.take().context("no output")?.read(&mut first)?;
        times.push(began.elapsed());
        let ended = child.wait()?;
        ensure!(read == 1 && first == *b"x" && ended.success(), "the agent did not start: {ended}");
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// The claim goes to a real gateway; what passes the tunnels is swallowed at the door.
pub(super) fn memory() -> Result<()> {
    let house = seeds::house()?;
    for (agent, isolated) in Agent::ALL.into_iter().flat_map(|agent| [(agent, false), (agent, true)]) {
        let relay = Relay::sink(&house.door(agent.as_str()))?;
        let fakes = FakeAgents::shell_as(agent, &format!("{LIST}\nexec python3 -c \"{TUNNELS}\""))?;
        let launch = seeds::launch(&house, agent)?;
        let launch = if isolated { launch.isolated() } else { launch };
        let running = launch.agents(fakes.folder()).door(&relay.socket()).start()?;
        until("a gibibyte to pass", SOON, || running.stdout().starts_with(b"passed").then_some(()))
            .with_context(|| running.stderr())?;
        until("a gibibyte to arrive", SOON, || (relay.swallowed() == 1 << 30).then_some(()))
            .with_context(|| format!("{} bytes arrived", relay.swallowed()))?;
        let boxds: Vec<i32> = [running.pid()].into_iter().chain(descendants(running.pid())).filter(is_boxd).collect();
        ensure!(boxds.len() == if isolated { 2 } else { 1 }, "{boxds:?}");
        // The last piece has arrived before boxd has let go of what carried it.
        let mut sizes = Vec::new();
        let small = || {
            sizes.push(boxds.iter().map(|pid| pss(*pid)).sum::<Result<u64>>().ok()?);
            (sizes.last() <= Some(&(3 * 1024))).then_some(())
        };
        until("boxd to be small again", Duration::from_secs(5), small)
            .with_context(|| format!("Pss of boxd in KiB: {:?}, {agent}, isolated: {isolated}", sizes.last()))?;
        running.signal(Signal::SIGTERM)?;
        running.wait(Duration::from_secs(100))?.expect_code(143)?;
    }
    Ok(())
}

fn is_boxd(pid: &i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program.ends_with("boxd"))
}

fn pss(pid: i32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("read the sizes of boxd")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).context("find Pss")?;
    line.trim().trim_end_matches(" kB").parse().context("read Pss")
}

/// A list of models as large as that of codex.
const LIST: &str = "[ \"$1\" != debug ] || { printf '{\"models\":[{\"slug\":\"'; head -c 920000 /dev/zero | tr '\\0' a; printf '\"}]}'; exit 0; }";
/// 32 tunnels, each with 32 MiB.
const TUNNELS: &str = "
import os, socket, time
host, port = os.environ['HTTPS_PROXY'].removeprefix('http://').split(':')
tunnels = []
for _ in range(32):
    s = socket.create_connection((host, int(port)))
    s.sendall(bytes.fromhex('434f4e4e454354206170692e616e7468726f7069632e636f6d3a34343320485454502f312e310d0a486f73743a20780d0a0d0a'))
    assert s.recv(1000).startswith(b'HTTP/1.1 200')
    tunnels.append(s)
piece = b'x' * (1 << 20)
for _ in range(32):
    for s in tunnels: s.sendall(piece)
print('passed', flush=True)
time.sleep(30)";
const PATIENCE: Duration = Duration::from_secs(90);
