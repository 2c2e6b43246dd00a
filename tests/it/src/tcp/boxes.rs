//! boxd at a TCP door.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::files::put;
use harness::network::free_port;
use harness::{BoxRun, Cable, House, Narrow, Ran, Running, Tools, process, until};

use super::{KEY, LOGIN, OTHER, somewhere, with_door, with_model};

pub(super) fn mistakes() -> Result<()> {
    let at = somewhere()?;
    let house = with_door(at, "").start()?;
    let (door, key, pin) = (format!("tcp://{at}"), key_of(&house), house.identity("one")?.house.to_string());
    let other = house.folder().join("other.key");
    put(&other, OTHER.as_bytes(), 0o600)?;
    let (other, file) = (shown(&other), shown(&house.folder().join("over.house")));
    let foreign = format!("sha256:{}", "0".repeat(64));
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], i32, &'a str);
    let table: [Row<'_>; 9] = [
        ("no key", &door, &[("BOXGATE_HOUSE", &pin)], 64, "BOXGATE_KEY_FILE"),
        ("no pin", &door, &[("BOXGATE_KEY_FILE", &key)], 64, "`gateway status` prints it"),
        (
            "a name",
            "tcp://gateway:3129",
            &[("BOXGATE_KEY_FILE", &key), ("BOXGATE_HOUSE", &pin)],
            64,
            "looks up no names",
        ),
        ("no file", &door, &[("BOXGATE_KEY_FILE", "/nowhere/key"), ("BOXGATE_HOUSE", &pin)], 64, "/nowhere/key"),
        (
            "a fingerprint for a key",
            &door,
            &[("BOXGATE_KEY_FILE", "/dev/null"), ("BOXGATE_HOUSE", &pin)],
            64,
            "box key alone",
        ),
        ("a key at a socket", "/nowhere/door.sock", &[("BOXGATE_KEY_FILE", &key)], 64, "tcp:// door"),
        (
            "two pins",
            &door,
            &[("BOXGATE_KEY_FILE", &key), ("BOXGATE_HOUSE", &foreign), ("BOXGATE_HOUSE_FILE", &file)],
            64,
            "two houses",
        ),
        ("another house", &door, &[("BOXGATE_KEY_FILE", &key), ("BOXGATE_HOUSE", &foreign)], 76, &foreign),
        (
            "another's key",
            &door,
            &[("BOXGATE_KEY_FILE", &other), ("BOXGATE_HOUSE_FILE", &file)],
            78,
            "`key_file` of this [[box]]",
        ),
    ];
    for (what, door, variables, code, told) in table {
        let launch = BoxRun::at_door(PathBuf::from(door))?.prompt("hi");
        let launch = variables.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        let ran = launch.run(SOON)?.expect_code(code).with_context(|| what.to_owned())?;
        ensure!(ran.stderr.contains(told), "{what}: {}", ran.stderr);
        ensure!(!ran.stderr.contains(KEY) && !ran.stderr.contains(OTHER), "{what} tells a key: {}", ran.stderr);
    }
    ensure!(!house.said().contains(KEY), "the house tells its key");
    Ok(())
}

pub(super) fn further() -> Result<()> {
    let network = Narrow::make()?;
    let at = free_port(network.house())?;
    let house = with_door(at, "").start()?;
    let fakes = FakeAgents::shell("env; exit 7")?;
    let run = |what: &str, code: i32| -> Result<Ran> {
        let launch = launch(&house, &format!("tcp://{at}"))?.agents(fakes.folder());
        start(&network, &launch)?.wait(SOON)?.expect_code(code).with_context(|| what.to_owned())
    };
    let open = |what: &str, told: &str| {
        let ran = run(what, 77)?;
        ensure!(ran.stderr.contains(told), "{what}: {}", ran.stderr);
        Ok::<_, anyhow::Error>(())
    };
    // As it is: nothing but the house. The agent runs, and is told nothing of the door.
    let ran = run("the house alone", 7)?;
    ensure!(!ran.stderr.contains("WARNING"), "{}", ran.stderr);
    for secret in ["KEY_FILE", "BOXGATE_HOUSE", "BOXGATE_DOOR", KEY, &at.to_string()] {
        ensure!(!ran.text().contains(secret), "the agent is told {secret}: {}", ran.text());
    }
    let attested = house.wait_line("the attestation", |line| line["kind"] == "attested")?;
    let attested = &attested["facts"]["attestation"];
    ensure!(attested["locked"] == true && attested["pinned"] == true, "{attested}");
    ensure!(attested["facts"]["interfaces"] == serde_json::json!(["eth0"]), "{attested}");
    // A next hop that nobody is at, as Docker 20.10 leaves one, leads nowhere. The house's machine is somebody.
    let (silent, living) = (network.address(3).to_string(), network.house().to_string());
    network.ip(&["route", "add", "default", "via", &silent])?;
    run("a silent next hop", 7)?;
    network.ip(&["route", "replace", "default", "via", &living])?;
    open("a next hop that answers", "next hop")?;
    let waived = launch(&house, &format!("tcp://{at}"))?.agents(fakes.folder());
    let refused = process::start(network.inside(&waived.command()?), None)?.wait(SOON)?.expect_code(77)?;
    ensure!(refused.stderr.contains("locked: the box has a network of its own"), "{}", refused.stderr);
    network.ip(&["route", "delete", "default"])?;
    network.ip(&["route", "add", "203.0.113.0/24", "dev", "eth0"])?;
    open("another network on the link", "leads further")?;
    network.ip(&["route", "delete", "203.0.113.0/24"])?;
    network.ip(&["link", "add", "more", "type", "veth", "peer", "name", "other"])?;
    network.ip(&["link", "set", "more", "up"])?;
    open("a second interface", "more than one interface")?;
    network.ip(&["link", "delete", "more"])?;
    // A name server that passes questions on, where Docker's is.
    let mut server = Command::new("python3");
    server.args(["-c", NAME_SERVER]).env("PATH", "/usr/bin:/bin");
    let server = process::start(network.inside(&server), None)?;
    until("the name server", SOON, || server.stdout().starts_with(b"ready").then_some(()))?;
    open("a name server that answers", "name server 127.0.0.11")?;
    drop(server);
    run("as it was", 7).map(drop)
}

/// Who answers where a range begins may be this box's own run: the doctor, who claims nothing, calls that no fault while there is one.
pub(super) fn beside_a_run() -> Result<()> {
    let network = Narrow::make()?;
    let at = free_port(network.house())?;
    let house = with_door(at, "").start()?;
    let fakes = FakeAgents::shell("touch ready; while [ ! -e go ]; do sleep 0.1; done")?;
    let launch = launch(&house, &format!("tcp://{at}"))?.agents(fakes.folder());
    let workspace = launch.workspace_folder().to_path_buf();
    let running = start(&network, &launch)?;
    until("the agent", SOON, || workspace.join("ready").exists().then_some(())).with_context(|| running.stderr())?;
    // The doctor's own container has 5 of the network, and somebody has 4.
    network.take(4)?;
    let [own, first] = [5, 2].map(|last| format!("{}/29", network.address(last)));
    network.ip(&["address", "delete", &first, "dev", "eth0"])?;
    network.ip(&["address", "add", &own, "dev", "eth0"])?;
    let doctor = || {
        let mut doctor = Command::new(Tools::boxd()?);
        doctor.env_clear().current_dir(&workspace).args(["doctor", "--door", &format!("tcp://{at}")]);
        doctor.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        doctor.env("BOXGATE_SESSION", launch.session_folder());
        doctor
            .env("BOXGATE_KEY_FILE", key_of(&house))
            .env("BOXGATE_HOUSE_FILE", shown(&house.folder().join("over.house")));
        process::run(network.inside(&doctor), None, SOON)
    };
    let beside = doctor()?.text();
    let told = beside.contains("ok     network    NOT TOLD beside a run of this box")
        && beside.contains(&network.address(4).to_string());
    ensure!(told, "{beside}");
    drop(running);
    let alone = doctor()?.expect_code(77)?.text();
    ensure!(alone.contains("FAULT  network") && alone.contains("an `ip_range`"), "{alone}");
    Ok(())
}

pub(super) fn isolated() -> Result<()> {
    let at = somewhere()?;
    let house = with_door(at, "").start()?;
    let script = format!(
        "ls {key}; tail -n +3 /proc/net/dev | cut -d: -f1; (exec 3<>/dev/tcp/{}/{}) && echo reached; exit 7",
        at.ip(),
        at.port(),
        key = key_of(&house)
    );
    let fakes = FakeAgents::program(format!("#!/bin/bash\n{script}\n").as_bytes())?;
    let launch = launch(&house, &format!("tcp://{at}"))?.isolated().agents(fakes.folder());
    let ran = launch.run(SOON)?.expect_code(7)?;
    ensure!(ran.text().trim() == "lo", "the box has {}", ran.text());
    ensure!(ran.stderr.contains("No such file"), "{}", ran.stderr);
    let attested = house.wait_line("the attestation", |line| line["kind"] == "attested")?;
    ensure!(attested["facts"]["attestation"]["facts"]["interfaces"] == serde_json::json!([]), "{attested}");
    Ok(())
}

/// boxd gives up after its 30 s, and the agent ends with it.
pub(super) fn never_back() -> Result<()> {
    let at = somewhere()?;
    let house = with_door(at, "unsafe_open_network = true\n[limits]\nreattach = \"5s\"\n").start()?;
    let cable = Cable::lay(at.ip(), at)?;
    let fakes = FakeAgents::shell("echo ready; exec sleep 7541")?;
    let launch = launch(&house, &format!("tcp://{}", cable.address()))?.agents(fakes.folder());
    let running = launch.start()?;
    until("the agent", SOON, || running.stdout().starts_with(b"ready").then_some(()))?;
    cable.cut();
    let lost = house.wait_line("the break", |line| line["kind"] == "detached");
    ensure!(lost.is_ok(), "{}", running.stderr());
    let ran = running.wait(Duration::from_secs(60))?.expect_code(69)?;
    ensure!(ran.stderr.contains("not taken up again within 30 s"), "{}", ran.stderr);
    ensure!(process::with_argument("7541").is_empty(), "the agent lives on");
    house.wait_line("the loss", |line| line["kind"] == "lost").map(drop)
}

/// One run of the real claude: its network breaks in the middle, then the house restarts, and it completes.
pub(super) fn claude() -> Result<()> {
    let network = Narrow::make()?;
    let at = somewhere()?;
    let (standin, house) = with_model(at, "")?;
    let mut house = house.start()?;
    let cable = Cable::lay(network.house(), at)?;
    let launch = launch(&house, &format!("tcp://{}", cable.address()))?.output("text");
    let prompt =
        "<<sh:(exec 3<>/dev/tcp/192.0.2.1/443) 2> way-out; sleep 12; echo there > made>><<text:over the network>>";
    let launch = launch.prompt(prompt);
    let running = start(&network, &launch)?;
    standin.wait_seen(1, Duration::from_secs(60)).with_context(|| running.stderr())?;
    std::thread::sleep(Duration::from_secs(2));
    cable.cut();
    house.wait_line("the break", |line| line["kind"] == "detached")?;
    cable.mend();
    let back = |line: &serde_json::Value| line["kind"] == "reattached";
    house.wait_line("the return", back)?;
    house.kill()?;
    house.start()?;
    let ran = running.wait(Duration::from_secs(90))?.expect_code(0)?;
    ensure!(ran.text().contains("over the network"), "{}", ran.text());
    let made = std::fs::read_to_string(launch.workspace_folder().join("made")).context("claude's tool did nothing")?;
    let way_out = std::fs::read_to_string(launch.workspace_folder().join("way-out")).unwrap_or_default();
    ensure!(made == "there\n" && way_out.contains("unreachable"), "{way_out}");
    let report = house.wait_line("the report", |line| line["kind"] == "report")?;
    ensure!(report["facts"]["verdict"] == "completed", "{report}");
    ensure!(house.ledger()?.iter().filter(|line| back(line)).count() == 2, "{:?}", house.ledger()?);
    let passed = cable.passed();
    for secret in [KEY, LOGIN, prompt] {
        let found = passed.windows(secret.len()).any(|piece| piece == secret.as_bytes());
        ensure!(!found, "the network saw {secret}");
    }
    let proofs = passed.windows(14).filter(|piece| *piece == b"boxgate-proof:").count();
    ensure!(proofs == 3, "{proofs} proofs passed the cable: it was not in use");
    Ok(())
}

fn launch(house: &House, door: &str) -> Result<BoxRun> {
    let launch = BoxRun::at_door(PathBuf::from(door))?.prompt("hi").env("BOXGATE_KEY_FILE", &key_of(house));
    Ok(launch.env("BOXGATE_HOUSE_FILE", &shown(&house.folder().join("over.house"))))
}

/// In a network of its own boxd is not told to accept any.
fn start(network: &Narrow, launch: &BoxRun) -> Result<Running> {
    let inside = network.inside(&launch.command()?);
    let mut strict = Command::new(inside.get_program());
    strict.args(inside.get_args().filter(|argument| *argument != "--unsafe-open-network")).env_clear();
    strict.envs(inside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = inside.get_current_dir() {
        strict.current_dir(folder);
    }
    process::start(strict, None)
}

fn key_of(house: &House) -> String {
    shown(&house.folder().join("over.key"))
}

fn shown(path: &std::path::Path) -> String {
    path.display().to_string()
}

const SOON: Duration = Duration::from_secs(30);
const NAME_SERVER: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.11', 53))
print('ready', flush=True)
while True:
    q, a = s.recvfrom(512)
    s.sendto(q[:2] + bytes([0x81, 0x83]) + q[4:], a)
";
