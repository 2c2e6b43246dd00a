//! `compose.network.yaml` on a real engine: three agents, each on a network that the house alone shares, and what else is on it.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use harness::{Case, Engine, Generation, Running, case, files, process, until};
use standin::{Options, Real, StandIn};

use super::{KEY, LOGIN, MINUTES, NEEDS};

pub(crate) const CASES: &[Case] = &[
    case("docker::the_stock_agents_run_governed_on_networks_of_their_own", || governed(Generation::Old))
        .needs(NEEDS)
        .alone(),
    case("docker::nothing_on_a_boxs_network_is_reached_but_its_door", || reach(Generation::Old)).needs(NEEDS).alone(),
    case("docker::a_network_that_leads_to_the_host_is_not_locked", || unlocked(Generation::Old)).needs(NEEDS).alone(),
];

pub(super) fn governed(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    govern(house).with_context(|| house.story())
}

fn govern(house: &House) -> Result<()> {
    let status = house.gateway(&["status"])?;
    for address in ["172.30.253.2:3129", "172.30.253.10:3129", "172.30.253.18:3129"] {
        ensure!(status.contains(&format!("at {address}")), "{status}");
    }
    for agent in ["claude", "codex", "pi"] {
        house.standin.forget();
        let prompt = "<<sh:printf '%s' \"$(id -u)\" > made-on-a-network>><<text:governed>>";
        let ran = house.start_run(&[agent, "--output", "text", prompt])?.wait(MINUTES)?.expect_code(0)?;
        ensure!(ran.text().contains("governed"), "{agent} said {}", ran.text());
        let made = house.engine.project().join("box/workspace/made-on-a-network");
        ensure!(std::fs::read_to_string(&made).is_ok_and(|text| text == "1000"), "{agent} left no file of its own");
        std::fs::remove_file(made).context("remove what the agent made")?;
        ensure!(!house.standin.model_calls().is_empty(), "{agent} asked no model");
    }
    // The gateway goes and comes back at the same address while the agent's own tool runs.
    house.standin.forget();
    let running = house.start_run(&["claude", "--output", "text", "<<sh:sleep 12>><<text:still here>>"])?;
    house.standin.wait_seen(1, MINUTES).with_context(|| running.stderr())?;
    house.engine.must(house.compose(&["restart", "gateway"]))?;
    let ran = running.wait(MINUTES)?.expect_code(0)?;
    ensure!(ran.text().contains("still here"), "{}", ran.text());
    let attested: Vec<_> = house.ledger()?.into_iter().filter(|line| line["kind"] == "attested").collect();
    ensure!(attested.len() == 4, "{attested:?}");
    for line in attested {
        let attestation = &line["facts"]["attestation"];
        ensure!(attestation["locked"] == true && attestation["pinned"] == true, "{line}");
        ensure!(attestation["facts"]["interfaces"] == serde_json::json!(["eth0"]), "{line}");
    }
    house.gateway(&["ledger", "verify"]).map(drop)
}

/// From the shell of a governed agent, and by boxd's own attack list. Each line is what must not succeed.
pub(super) fn reach(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    // On every address of this machine somebody listens who could be reached.
    let listener = TcpListener::bind("0.0.0.0:0").context("listen on the host")?;
    let port = listener.local_addr()?.port();
    let mut hosts = addresses()?;
    hosts.extend(["172.30.253.1", "172.30.253.9", "172.30.253.17"].map(str::to_owned));
    ensure!(hosts.contains(&house.address.ip().to_string()), "the egress bridge is not among {hosts:?}");
    let mut tries: Vec<String> = hosts.iter().map(|host| format!("exec 3<>/dev/tcp/{host}/{port}")).collect();
    tries.push(format!("exec 3<>/dev/tcp/{}/{}", house.address.ip(), house.address.port()));
    // The other boxes' doors, the house's own way out, its other ports, a box's neighbours.
    tries.extend(
        [
            "172.30.253.10/3129",
            "172.30.253.18/3129",
            "172.30.253.2/22",
            "172.30.253.3/3129",
            "192.0.2.1/443",
            "169.254.169.254/80",
        ]
        .map(|to| format!("exec 3<>/dev/tcp/{to}")),
    );
    tries.extend(
        ["getent hosts example.com", "getent hosts boxgate.invalid", "exec 3<>/dev/tcp/::1%eth0/53"].map(str::to_owned),
    );
    tries.extend(
        ["touch /run/boxgate/door/key", "echo x > /run/boxgate/door/house", "rm -f /run/boxgate/door/key"]
            .map(str::to_owned),
    );
    let control = "( exec 3<>/dev/tcp/172.30.253.2/3129 ) && echo 'the door alone'\n";
    let script: String = tries.iter().map(|one| format!("( {one} ) > /dev/null 2>&1 && echo '{one}' &\n")).collect();
    let workspace = house.engine.project().join("box/workspace");
    files::put(&workspace.join("tries.sh"), format!("{control}{script}wait\necho tried\n").as_bytes(), 0o644)?;
    let prompt = "<<sh:timeout 90 bash /workspace/tries.sh > /workspace/reached 2>&1>><<text:tried>>";
    house.start_run(&["claude", prompt])?.wait(MINUTES)?.expect_code(0)?;
    let reached = std::fs::read_to_string(workspace.join("reached")).context("read what was reached")?;
    ensure!(reached == "the door alone\ntried\n", "the box could: {reached}");
    drop(listener);
    let entrypoint = ["--entrypoint", "/boxgate/boxd", "claude", "doctor"];
    let doctor = house.start_run(&entrypoint)?.wait(MINUTES)?.expect_code(0)?.text();
    ensure!(doctor.contains("eth0 as far as tcp://172.30.253.2:3129"), "{doctor}");
    Ok(())
}

/// What boxd makes of a box that somebody put on another network too, and of one on a network that the engine leads out of.
pub(super) fn unlocked(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    let open = opened(house, "br-open", "172.30.254.")?
        .replace("ip_range: 172.30.254.4/30", "ip_range: 172.30.254.4/30, gateway: 172.30.254.1");
    ensure!(open.contains("gateway: 172.30.254.1"), "the host is given no address");
    let path = house.engine.project().join("compose.open.yaml");
    files::put(&path, open.as_bytes(), 0o644)?;
    let both = ["-p", "open", "-f", "compose.open.yaml"];
    let at = |arguments: &[&str]| house.engine.compose(&[&both[..], arguments].concat());
    // No house is needed: the box looks at its network before it asks anybody.
    house.engine.must(at(&["run", "--rm", "-T", "boxd"]))?;
    let [none, pin] = PINNED;
    let arguments = ["run", "--rm", "-T", "--no-deps", "-e", none, "-e", pin, "claude", "hi"];
    let ran = process::run(at(&arguments), None, MINUTES)?;
    house.engine.must(at(&["down", "-v"]))?;
    let ran = ran.expect_code(77)?;
    ensure!(ran.stderr.contains("next hop") || ran.stderr.contains("leads further"), "{}", ran.stderr);
    ensure!(ran.stderr.contains("compose.network.yaml"), "{}", ran.stderr);
    Ok(())
}

/// Where a network has an `ip_range` and no `gateway`, the newer engine puts the host at the range's first address, which
/// may be another box's too: the house is asked for a run first, and then there is none.
pub(super) fn ranged() -> Result<()> {
    let house = House::of(Generation::New)?;
    let project = house.engine.project();
    let prefix = "172.30.252.";
    let open = opened(house, "br-ranged", prefix)?.replace("./box/network:", "./box/ranged:");
    let config = std::fs::read_to_string(project.join("box/network/house.toml")).context("read the house")?;
    files::put(&project.join("compose.ranged.yaml"), open.as_bytes(), 0o644)?;
    files::put_deep(&project.join("box/ranged/house.toml"), config.replace("172.30.253.", prefix).as_bytes(), 0o644)?;
    let at = |arguments: &[&str]| {
        house.engine.compose(&[&["-p", "ranged", "-f", "compose.ranged.yaml"], arguments].concat())
    };
    house.engine.must(at(&["up", "-d", "gateway"]))?;
    let ran = process::run(at(&["run", "--rm", "-T", "claude", "hi"]), None, MINUTES)?;
    let story = house.engine.must(at(&["exec", "-T", "gateway", "gateway", "ledger", "tail", "--story"]))?.text();
    house.engine.must(at(&["down", "-v"]))?;
    let ran = ran.expect_code(77)?;
    ensure!(ran.stderr.contains("answers at 172.30.252.4") && ran.stderr.contains("`gateway`"), "{}", ran.stderr);
    ensure!(ran.stdout.is_empty() && !story.contains(" attested  ") && story.contains(" claim "), "{story}");
    Ok(())
}

/// The compose file with networks of these addresses that the host is on; that of claude's box has this bridge.
fn opened(house: &House, bridge: &str, prefix: &str) -> Result<String> {
    let base = std::fs::read_to_string(house.engine.project().join(FILE)).context("read the compose file")?;
    let open = base
        .replace("      com.docker.network.bridge.inhibit_ipv4: \"true\"\n", "")
        .replace(
            "      com.docker.network.bridge.gateway_mode_ipv4: \"isolated\"\n",
            &format!("      com.docker.network.bridge.name: {bridge}\n"),
        )
        .replace("driver_opts: &isolated", "driver_opts:")
        .replace("    driver_opts: *isolated\n", "")
        .replace("172.30.253.", prefix);
    ensure!(!open.contains("inhibit") && open.contains(bridge), "the network is still locked");
    Ok(open)
}

/// The IPv4 addresses of this machine, loopback's aside.
pub(super) fn addresses() -> Result<Vec<String>> {
    let mut command = Command::new("ip");
    command.args(["-4", "-o", "address"]);
    let told = process::run(command, None, MINUTES)?.expect_code(0)?.text();
    let of_line = |line: &str| Some(line.split_whitespace().nth(3)?.split('/').next()?.to_owned());
    Ok(told.lines().filter_map(of_line).filter(|address| !address.starts_with("127.")).collect())
}

/// The house of `compose.network.yaml`, in a project of its own.
pub(super) struct House {
    pub(super) engine: &'static Engine,
    standin: StandIn,
    address: SocketAddr,
}

impl House {
    /// Opened once on each engine; every case finds it open.
    pub(super) fn of(generation: Generation) -> Result<&'static Self> {
        static HOUSES: [OnceLock<Result<House, String>>; 2] = [OnceLock::new(), OnceLock::new()];
        let build = || Self::build(generation).map_err(|fault| format!("{fault:#}"));
        let house = HOUSES[generation as usize].get_or_init(build);
        house.as_ref().map_err(|fault| anyhow::anyhow!("{fault}"))
    }

    fn build(generation: Generation) -> Result<Self> {
        let engine = Engine::of(generation)?;
        // What waits for its end is not even made before it.
        engine.must(engine.compose(&[&PROJECT[..], &["up", "boxd"]].concat()))?;
        engine.must(engine.compose(&[&PROJECT[..], &["up", "--no-start"]].concat()))?;
        let format = "{{(index .IPAM.Config 0).Gateway}}";
        let inspect = ["network", "inspect", "--format", format, "narrow_egress"];
        let gate = engine.must(engine.docker(&inspect))?.text();
        let listen = format!("{}:0", gate.trim()).parse().with_context(|| format!("read {gate:?}"))?;
        let real = vec![Real::Bearer(LOGIN.into()), Real::from_text(KEY)];
        let standin = StandIn::start(Options { listen, real, ..Options::default() })?;
        let address = standin.address();
        let secrets = engine.project().join("box/secrets");
        files::put(&secrets.join("anthropic"), LOGIN.as_bytes(), 0o600)?;
        files::put(&secrets.join("openai"), KEY.as_bytes(), 0o600)?;
        standin.write_ca(&secrets.join("network-standin.pem"))?;
        files::give(&secrets, 1000)?;
        for provider in ["anthropic", "openai", "openai-codex"] {
            let grant = format!("preset = \"{provider}\"\nsecret = \"{provider}\"\n");
            let there = format!("{grant}unsafe_dial = \"{address}\"\nupstream_ca = \"/secrets/network-standin.pem\"\n");
            engine.edit(Path::new("box/network/house.toml"), &grant, &there)?;
        }
        engine.must(engine.compose(&[&PROJECT[..], &["up", "-d"]].concat()))?;
        let house = Self { engine, standin, address };
        let hello = || house.engine.must(house.compose(&["logs", "--no-color", "hello"])).ok();
        until("hello", MINUTES, || hello().filter(|said| said.text().contains("The house is open")))?;
        Ok(house)
    }

    pub(super) fn compose(&self, arguments: &[&str]) -> Command {
        self.engine.compose(&[&PROJECT[..], arguments].concat())
    }

    fn start_run(&self, arguments: &[&str]) -> Result<Running> {
        process::start(self.compose(&[&["run", "--rm", "-T"], arguments].concat()), None)
    }

    fn gateway(&self, arguments: &[&str]) -> Result<String> {
        let of_house = ["--config", "/etc/boxgate/house.toml"];
        let all = [&["exec", "-T", "gateway", "gateway"], arguments, &of_house].concat();
        Ok(self.engine.must(self.compose(&all))?.text())
    }

    /// What the gateway said and recorded, for a case that failed.
    fn story(&self) -> String {
        let of = |command: Command| match process::run(command, None, MINUTES) {
            Ok(ran) => format!("{}{}", ran.text(), ran.stderr),
            Err(fault) => format!("{fault:#}"),
        };
        let story = ["exec", "-T", "gateway", "gateway", "ledger", "tail", "--story"];
        let logs = of(self.compose(&["logs", "--no-color", "--tail", "40", "gateway"]));
        format!("the gateway said:\n{logs}\nits ledger:\n{}", of(self.compose(&story)))
    }

    fn ledger(&self) -> Result<Vec<serde_json::Value>> {
        let told =
            self.engine.must(self.compose(&["exec", "-T", "gateway", "cat", "/data/state/ledger.jsonl"]))?.text();
        told.lines().map(|line| serde_json::from_str(line).context("read a line of the ledger")).collect()
    }
}

pub(super) const FILE: &str = "compose.network.yaml";
const PROJECT: [&str; 4] = ["-p", "narrow", "-f", FILE];
/// Variables by which a box is pinned to a house, without a house that wrote its file.
pub(super) const PINNED: [&str; 2] =
    ["BOXGATE_HOUSE_FILE=", "BOXGATE_HOUSE=sha256:0000000000000000000000000000000000000000000000000000000000000000"];
