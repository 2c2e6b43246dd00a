//! The attack list of `boxd doctor --attack` from inside of boxes that an engine made, whatever their user and powers.

use std::collections::BTreeSet;
use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use harness::process::{self, Ran};
use harness::{Case, Engine, Generation, case};

use super::{House, MINUTES, NEEDS, network};
use crate::doctor::published;

pub(crate) const CASES: &[Case] = &[
    case("docker::every_attack_is_refused_in_the_boxes_of_compose", || boxes(Generation::Old)).needs(NEEDS).alone(),
    case("docker::every_attack_is_refused_whatever_user_and_powers_a_box_has", powers).needs(NEEDS).alone(),
    case("docker::every_attack_is_refused_on_a_network_of_its_own", || networks(Generation::Old)).needs(NEEDS).alone(),
    case("docker::every_attack_that_a_box_is_open_to_is_seen", open).needs(NEEDS).alone(),
];

/// As the compose file has them, and as root.
pub(super) fn boxes(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    let host = Host::listen()?;
    for name in ["claude", "codex", "pi"] {
        let reach = [&host.reach[..], &foreign_doors(name)].concat();
        for user in USERS {
            let ran = process::run(house.engine.compose(&run(&["--user", user], name, &reach)), None, MINUTES)?;
            refused(&format!("{name} as {user}"), &ran, &reach)?;
        }
    }
    Ok(())
}

/// With what an engine gives by default, and with more than anybody should.
fn powers() -> Result<()> {
    let engine = House::of(Generation::Old)?.engine;
    let host = Host::listen()?;
    let reach = [&host.reach[..], &foreign_doors("claude")].concat();
    for user in USERS {
        for powers in [&[][..], &MORE] {
            let ran = alone(engine, &[&["--network=none", "--user", user], powers].concat(), &reach)?;
            refused(&format!("{user} with {powers:?}"), &ran, &reach)?;
        }
    }
    Ok(())
}

/// The doors of the other boxes and the host are as far away from a box that has an interface. On the older engine it has a
/// route too, to a next hop where nobody is, so that the list, which sends nothing on those ways, counts them: they are
/// tried with connections.
pub(super) fn networks(generation: Generation) -> Result<()> {
    let house = network::House::of(generation)?;
    let mut host = Host::listen()?;
    host.reach.extend(["172.30.253.1", "172.30.253.9"].map(|bridge| format!("{bridge}:{}", host.port)));
    host.reach.extend(WAYS.map(|way| format!("{way}:443")));
    let routed: &[&str] = if generation == Generation::Old { &WAYS } else { &[] };
    for (name, other) in [("claude", "172.30.253.10:3129"), ("codex", "172.30.253.2:3129")] {
        let reach = [&host.reach[..], &foreign_doors(name), &[other.to_owned()]].concat();
        for user in USERS {
            let ran = process::run(
                house.compose(&run(&[&["--user", user], &KEYLESS[..]].concat(), name, &reach)),
                None,
                MINUTES,
            )?;
            tried(&format!("{name} on its network as {user}"), &ran, &reach, routed)?;
        }
    }
    Ok(())
}

/// What makes the other cases worth something: where there is a way out, or a folder too many, the same list is let in.
fn open() -> Result<()> {
    let house = House::of(Generation::Old)?;
    let host = Host::listen()?;
    let text = alone(house.engine, &["--network=house_egress"], &host.reach)?.expect_code(77)?.text();
    let gate = format!("{}:{} by TCP", house.address.ip(), host.port);
    for open in ["the internet (192.0.2.1)", "a private network (10.0.0.1)", &gate] {
        ensure!(text.lines().any(|line| line.strip_prefix("LET IN   ") == Some(open)), "{open} is not let in: {text}");
    }
    let mount = format!("{}:/secrets:ro", house.engine.project().join("box/secrets").display());
    let text = alone(house.engine, &["--network=none", "-v", &mount], &[])?.expect_code(77)?.text();
    ensure!(text.contains("LET IN   the house's own (/secrets)") && text.contains(" 1 let in"), "{text}");
    Ok(())
}

fn refused(which: &str, ran: &Ran, reach: &[String]) -> Result<()> {
    tried(which, ran, reach, &[])
}

/// Each attempt that is published and each place that was named, no more and no less, and all of them refused but those
/// to an address that there is a route to.
fn tried(which: &str, ran: &Ran, reach: &[String], routed: &[&str]) -> Result<()> {
    let text = ran.text();
    let told = || format!("{which}: {:?} {text} {}", ran.code, ran.stderr);
    let let_in: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("LET IN   ")).collect();
    let is_routed = |what: &&str| routed.iter().any(|way| what.ends_with(&format!(" ({way})")));
    ensure!(let_in.iter().all(is_routed) && let_in.len() == routed.len(), "{}", told());
    ensure!(ran.code == Some(if let_in.is_empty() { 0 } else { 77 }), "{}", told());
    // A name is followed by the kernel's answer, a word.
    let what = |line: &str| Some(line.strip_prefix("refused  ")?.rsplit_once(' ')?.0.trim().to_owned());
    let mut tried: BTreeSet<String> = text.lines().filter_map(what).collect();
    tried.extend(let_in.into_iter().map(str::to_owned));
    let mut wanted = published()?;
    wanted.extend(
        reach.iter().map(|place| if place.starts_with('/') { place.clone() } else { format!("{place} by TCP") }),
    );
    let (missing, more): (Vec<_>, Vec<_>) = (wanted.difference(&tried).collect(), tried.difference(&wanted).collect());
    ensure!(missing.is_empty() && more.is_empty(), "{which}: not tried: {missing:?}; not published: {more:?}");
    Ok(())
}

/// The box of a compose file, with boxd's own list in place of a run.
fn run<'a>(options: &[&'a str], name: &'a str, reach: &'a [String]) -> Vec<&'a str> {
    let run = ["run", "--rm", "-T", "--no-deps", "--entrypoint", "/boxgate/boxd"];
    [&run[..], options, &[name], &attack(reach)].concat()
}

/// A container of its own, with what claude's box has mounted.
fn alone(engine: &Engine, options: &[&str], reach: &[String]) -> Result<Ran> {
    let run = ["run", "--rm", "--entrypoint=/boxgate/boxd"];
    let mounts = ["-v", "house_boxd-0.1.0:/boxgate:ro", "-v", "house_door-claude:/run/boxgate/door:ro"];
    let image = ["localhost/boxgate/box:0.1.0"];
    process::run(engine.docker(&[&run, options, &mounts[..], &image, &attack(reach)].concat()), None, MINUTES)
}

fn attack(reach: &[String]) -> Vec<&str> {
    ["doctor", "--attack"].into_iter().chain(reach.iter().flat_map(|place| ["--reach", place.as_str()])).collect()
}

/// What of the house and of other boxes is no business of this one.
fn foreign_doors(own: &str) -> Vec<String> {
    let others = ["claude", "codex", "pi"].into_iter().filter(|other| *other != own);
    let doors = others.map(|other| format!("/doors/{other}/door.sock"));
    doors.chain(["/data/state/operator.sock", "/run/boxgate/door/operator.sock"].map(str::to_owned)).collect()
}

/// A server on every address of the host, those of the engine's bridges among them.
struct Host {
    _server: TcpListener,
    port: u16,
    reach: Vec<String>,
}

impl Host {
    fn listen() -> Result<Self> {
        let server = TcpListener::bind("0.0.0.0:0").context("listen on the host")?;
        let port = server.local_addr().context("ask its port")?.port();
        let reach: Vec<String> = network::addresses()?.iter().map(|address| format!("{address}:{port}")).collect();
        ensure!(!reach.is_empty(), "the host has no address");
        Ok(Self { _server: server, port, reach })
    }
}

/// The list needs no house: the key's folder stands for the door's, and root without a capability cannot read the key.
const KEYLESS: [&str; 6] =
    ["-e", "BOXGATE_DOOR=/run/boxgate/door/door.sock", "-e", "BOXGATE_KEY_FILE=", "-e", "BOXGATE_HOUSE_FILE="];
/// Those that lead out of a container; not all of them, since a machine that is a container itself cannot give all.
const MORE: [&str; 6] = [
    "--cap-add=SYS_ADMIN",
    "--cap-add=NET_ADMIN",
    "--cap-add=SYS_PTRACE",
    "--cap-add=DAC_READ_SEARCH",
    "--cap-add=IPC_LOCK",
    "--security-opt=seccomp=unconfined",
];
/// What the list tries of the world by IPv4.
const WAYS: [&str; 9] = [
    "192.0.2.1",
    "169.254.169.254",
    "172.17.0.1",
    "172.18.0.1",
    "192.168.65.254",
    "10.0.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "224.0.0.251",
];
const USERS: [&str; 2] = ["1000:1000", "0:0"];
