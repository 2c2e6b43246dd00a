//! `compose.yaml` on a real engine: the demo, the three stock agents, what a box cannot reach, and what ends when.

pub(crate) mod powers;
pub(crate) mod mistakes;
pub(crate) mod devcontainer;
pub(crate) mod images;
pub(crate) mod down;
pub(crate) mod engines;
pub(crate) mod clients;
pub(crate) mod network;
pub(crate) mod attacks;
pub(crate) mod shells;
pub(crate) mod reload;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::{Case, Engine, Generation, Need, Running, case, files, until};
use standin::{Options, Real, StandIn};

const NEEDS: &[Need] = &[Need::Docker, Need::Gateway, Need::Boxd, Need::Agent, Need::Codex, Need::Pi];

pub(crate) const CASES: &[Case] = &[
    case("docker::the_demo_takes_all_three_agents_the_whole_way", || demo(Generation::Old)).needs(NEEDS).alone(),
    case("docker::a_missing_secret_stops_no_house_and_each_mistake_names_its_fix", || mistakes(Generation::Old))
        .needs(NEEDS)
        .alone(),
    case("docker::the_stock_agents_run_governed_by_compose", || governed(Generation::Old)).needs(NEEDS).alone(),
    case("docker::nothing_in_a_box_reaches_further_than_its_door", || reach(Generation::Old)).needs(NEEDS).alone(),
    case("docker::a_run_outlives_a_restart_of_the_gateway_and_stops_when_told", || stop(Generation::Old))
        .needs(NEEDS)
        .alone(),
];

/// No container of the demo has a network, and none gives away what is made up as the real secret.
fn demo(generation: Generation) -> Result<()> {
    let engine = Engine::of(generation)?;
    let told = engine.must(engine.compose(&["--profile", "demo", "run", "--rm", "-T", "demo"]))?.text();
    for agent in ["claude", "codex", "pi"] {
        let (_, notes) = told.split_once(&format!("--- {agent}.txt")).with_context(|| format!("no notes: {told}"))?;
        let notes: Vec<&str> = notes.lines().skip(1).take(4).collect();
        let want = ["I am user 1000.", "Interfaces: lo", "No way out but the door.", "No secret is here."];
        ensure!(notes == want, "{agent} saw {notes:?}");
        let report = told.lines().find(|line| line.contains(&format!("demo-{agent} ")) && line.contains(" report "));
        ensure!(report.is_some_and(|line| line.ends_with("verdict=completed")), "{agent}: {report:?}");
    }
    ensure!(!told.contains("the-real-one-that-never-enters"), "the ledger's story tells a secret");
    engine.must(engine.compose(&["--profile", "demo", "rm", "--stop", "--force", "demo-gateway", "demo-standin"]))?;
    Ok(())
}

fn mistakes(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    let hello = house.engine.must(house.engine.compose(&["logs", "--no-color", "hello"]))?.text();
    ensure!(hello.contains("docker compose run --rm claude"), "hello says no next command: {hello}");
    ensure!(hello.contains("house sha256:"), "hello says no fingerprint: {hello}");
    let key = house.engine.project().join("box/secrets/openai");
    let away = key.with_extension("away");
    std::fs::rename(&key, &away).context("take codex's only secret away")?;
    for (arguments, code, said) in [
        (&["claude"][..], 64, "no prompt"),
        (&["claude", "--agent", "pi", "hi"], 64, "run-claude"),
        (&["codex", "hi"], 78, "no credential"),
        (&["-e", "BOXGATE_DOOR=/nowhere", "claude", "hi"], 69, "mount the folder"),
        (&["-e", "BOXGATE_AGNT=pi", "claude", "hi"], 64, "BOXGATE_AGNT"),
    ] {
        let ran = house.engine.start_run(arguments)?.wait(MINUTES)?.expect_code(code)?;
        ensure!(ran.stderr.contains(said), "{arguments:?} is told {}", ran.stderr);
    }
    // There again, it is used without a restart.
    std::fs::rename(&away, &key).context("bring it back")?;
    house.engine.start_run(&["codex", "hi"])?.wait(MINUTES)?.expect_code(0)?;
    let mut other_image = house.engine.compose(&["run", "--rm", "-T", "claude", "hi"]);
    other_image.env("CLAUDE_IMAGE", "base:here");
    let ran = harness::process::run(other_image, None, MINUTES)?.expect_code(127)?;
    ensure!(ran.stderr.contains("claude is not in this box"), "{}", ran.stderr);
    Ok(())
}

fn governed(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    for agent in ["claude", "codex", "pi"] {
        house.standin.forget();
        let prompt = "<<sh:printf '%s' \"$(id -u)\" > made-by-the-agent>><<text:governed>>";
        let ran = house.engine.start_run(&[agent, "--output", "text", prompt])?.wait(MINUTES)?.expect_code(0)?;
        ensure!(ran.text().contains("governed"), "{agent} said {}", ran.text());
        let made = house.engine.project().join("box/workspace/made-by-the-agent");
        ensure!(std::fs::read_to_string(&made).is_ok_and(|text| text == "1000"), "{agent} left no file of its own");
        std::fs::remove_file(made).context("remove what the agent made")?;
        let calls = house.standin.model_calls();
        ensure!(!calls.is_empty(), "{agent} asked no model");
    }
    let session = house.engine.project().join("box/runs");
    let leaks = harness::secrets::in_files(&session, &[LOGIN, KEY])?;
    ensure!(leaks.is_empty(), "the secret is in a session: {leaks:?}");
    house.ledger_is_whole()
}

/// From the shell of a governed agent. Each line is what must not succeed.
fn reach(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    let gate = house.address.ip();
    let tries = [
        format!("exec 3<>/dev/tcp/{gate}/{}", house.address.port()),
        "exec 3<>/dev/tcp/169.254.169.254/80".to_owned(),
        "exec 3<>/dev/udp/8.8.8.8/53 && echo x >&3".to_owned(),
        "exec 3<>/dev/tcp/::1%eth0/53".to_owned(),
        "getent hosts example.com".to_owned(),
        "test -e /var/run/docker.sock".to_owned(),
        "test -e /data -o -e /secrets -o -e /doors".to_owned(),
        "touch /boxgate/boxd".to_owned(),
        "touch /run/boxgate/door/x".to_owned(),
        "rm /run/boxgate/door/door.sock".to_owned(),
        "touch /usr/bin/x".to_owned(),
        "cat /proc/1/environ".to_owned(),
        "ls /proc/1/fd".to_owned(),
        "unshare -Ur true".to_owned(),
        "mount -t tmpfs none /tmp".to_owned(),
        "mknod /tmp/disk b 8 0".to_owned(),
        "chown 0 /workspace".to_owned(),
        "grep -E '^Cap(Prm|Eff|Bnd|Amb):.*[1-9a-f]' /proc/self/status".to_owned(),
        "grep '^NoNewPrivs:.*0' /proc/self/status".to_owned(),
        "grep '^Seccomp:.*0' /proc/self/status".to_owned(),
    ];
    // That the first line succeeds shows that the others could.
    let control = "( exec 3<>/dev/tcp/127.0.0.1/3128 ) && echo 'the shim alone'\n";
    let script: String = tries
        .iter()
        .map(|one| format!("( {one} ) > /dev/null 2>&1 && echo '{}';\n", one.replace('\'', "\"")))
        .collect();
    // By a file: what the script says would have to be escaped for the prompt.
    let workspace = house.engine.project().join("box/workspace");
    files::put(&workspace.join("tries.sh"), format!("{control}{script}echo tried\n").as_bytes(), 0o644)?;
    let prompt = "<<sh:timeout 60 bash /workspace/tries.sh > /workspace/reached 2>&1>><<text:tried>>";
    house.engine.start_run(&["claude", prompt])?.wait(MINUTES)?.expect_code(0)?;
    let reached = std::fs::read_to_string(workspace.join("reached")).context("read what was reached")?;
    ensure!(reached == "the shim alone\ntried\n", "the box could: {reached}");
    Ok(())
}

fn stop(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    let engine = house.engine;
    // The gateway comes back while the agent's own tool runs: the same run goes on to its good end.
    house.standin.forget();
    let running = engine.start_run(&["claude", "--output", "text", "<<sh:sleep 12>><<text:still here>>"])?;
    house.standin.wait_seen(1, MINUTES).with_context(|| running.stderr())?;
    engine.must(engine.compose(&["restart", "gateway"]))?;
    let ran = running.wait(MINUTES)?.expect_code(0)?;
    ensure!(ran.text().contains("still here"), "{}", ran.text());
    // Told to stop, the box ends within boxd's own five seconds, and no engine has to kill it.
    house.standin.forget();
    let running = engine.start_run(&["claude", "<<sleep:120>>never"])?;
    house.standin.wait_seen(1, MINUTES).with_context(|| running.stderr())?;
    let name = the_box(engine, &running)?;
    let began = Instant::now();
    engine.must(engine.docker(&["stop", "--time", "30", &name]))?;
    ensure!(began.elapsed() < Duration::from_secs(9), "docker stop took {:?}", began.elapsed());
    let ran = running.wait(MINUTES)?;
    ensure!(ran.code.is_some_and(|code| code != 0 && code != 137), "it ended with {:?}: {}", ran.code, ran.stderr);
    house.ledger_is_whole()
}

/// The name of the container that runs claude.
fn the_box(engine: &Engine, running: &Running) -> Result<String> {
    let label = "label=com.docker.compose.service=claude";
    let names = || Some(engine.must(engine.docker(&["ps", "-q", "--filter", label])).ok()?.text().trim().to_owned());
    until("the box", Duration::from_secs(30), || names().filter(|name| !name.is_empty()))
        .with_context(|| running.stderr())
}

/// The house of `compose.yaml`, with credentials that the stand-in on the egress network's own address takes.
struct House {
    engine: &'static Engine,
    standin: StandIn,
    address: SocketAddr,
}

impl House {
    /// That of the machine's own engine.
    fn open() -> Result<&'static Self> {
        Self::of(Generation::Old)
    }

    /// Opened once; every case finds it open.
    fn of(generation: Generation) -> Result<&'static Self> {
        static HOUSES: [OnceLock<Result<House, String>>; 2] = [OnceLock::new(), OnceLock::new()];
        let build = || Self::build(generation).map_err(|fault| format!("{fault:#}"));
        let house = HOUSES[generation as usize].get_or_init(build);
        house.as_ref().map_err(|fault| anyhow::anyhow!("{fault}"))
    }

    fn build(generation: Generation) -> Result<Self> {
        let engine = Engine::of(generation)?;
        // Of the gateway alone: 1.29 waits for ever for the end of what it was told not to start.
        engine.must(engine.compose(&["up", "--no-start", "--no-deps", "gateway"]))?;
        let format = "{{(index .IPAM.Config 0).Gateway}}";
        let gate = engine.must(engine.docker(&["network", "inspect", "--format", format, "house_egress"]))?.text();
        let listen = format!("{}:0", gate.trim()).parse().with_context(|| format!("read {gate:?}"))?;
        let real = vec![Real::Bearer(LOGIN.into()), Real::from_text(KEY), Real::from_text(mistakes::API_KEY)];
        let standin = StandIn::start(Options { listen, real, ..Options::default() })?;
        let address = standin.address();
        let secrets = engine.project().join("box/secrets");
        files::put(&secrets.join("anthropic"), LOGIN.as_bytes(), 0o600)?;
        files::put(&secrets.join("openai"), KEY.as_bytes(), 0o600)?;
        standin.write_ca(&secrets.join("standin.pem"))?;
        files::give(&secrets, 1000)?;
        for provider in ["anthropic", "openai", "openai-codex"] {
            let grant = format!("preset = \"{provider}\"\nsecret = \"{provider}\"\n");
            let there = format!("{grant}unsafe_dial = \"{address}\"\nupstream_ca = \"/secrets/standin.pem\"\n");
            engine.edit(Path::new("box/house/house.toml"), &grant, &there)?;
        }
        engine.must(engine.compose(&["up", "-d"]))?;
        let hello = || engine.must(engine.compose(&["logs", "--no-color", "hello"])).ok();
        until("hello", MINUTES, || hello().filter(|said| said.text().contains("The house is open")))?;
        Ok(Self { engine, standin, address })
    }

    fn ledger_is_whole(&self) -> Result<()> {
        let verify = ["exec", "-T", "gateway", "gateway", "ledger", "verify", "--config", "/etc/boxgate/house.toml"];
        self.engine.must(self.engine.compose(&verify)).map(drop)
    }
}

const LOGIN: &str = "sk-ant-oat01-the-login-of-the-house-on-docker";
const KEY: &str = "sk-proj-the-key-of-the-house-on-docker";
const MINUTES: Duration = Duration::from_secs(180);
