//! The same house on the newer generation: Compose 2, BuildKit and an engine 28 or newer.

use anyhow::{Context, Result, ensure};
use harness::{Case, Engine, Generation, Need, case};

use super::{House, attacks, demo, governed, mistakes, network, powers, reach, shells, stop};

const NEEDS: &[Need] = &[Need::NewDocker, Need::Gateway, Need::Boxd, Need::Agent, Need::Codex, Need::Pi];
const BOTH: &[Need] = &[Need::Docker, Need::NewDocker, Need::Gateway, Need::Boxd, Need::Agent, Need::Codex, Need::Pi];

pub(crate) const CASES: &[Case] = &[
    case("docker::engines::the_two_generations_are_what_they_are_called", generations).needs(BOTH).alone(),
    case("docker::engines::compose_1_and_2_take_the_files_as_they_are", configs).needs(BOTH).alone(),
    case("docker::engines::an_image_says_which_agents_are_in_it_and_they_are", versions).needs(NEEDS).alone(),
    case("docker::engines::new_the_demo_takes_all_three_agents_the_whole_way", || demo(Generation::New))
        .needs(NEEDS)
        .alone(),
    case("docker::engines::new_each_mistake_names_its_fix", || mistakes(Generation::New)).needs(NEEDS).alone(),
    case("docker::engines::new_the_stock_agents_run_governed_by_compose", || governed(Generation::New))
        .needs(NEEDS)
        .alone(),
    case("docker::engines::new_nothing_in_a_box_reaches_further_than_its_door", || reach(Generation::New))
        .needs(NEEDS)
        .alone(),
    case("docker::engines::new_the_stock_agents_run_governed_on_networks_of_their_own", || {
        network::governed(Generation::New)
    })
    .needs(NEEDS)
    .alone(),
    case("docker::engines::new_nothing_on_a_boxs_network_is_reached_but_its_door", || network::reach(Generation::New))
        .needs(NEEDS)
        .alone(),
    case("docker::engines::new_a_network_that_leads_to_the_host_is_not_locked", || network::unlocked(Generation::New))
        .needs(NEEDS)
        .alone(),
    case("docker::engines::new_the_host_at_the_start_of_a_range_is_found", network::ranged).needs(NEEDS).alone(),
    case("docker::engines::new_every_attack_is_refused_in_the_boxes_of_compose", || attacks::boxes(Generation::New))
        .needs(NEEDS)
        .alone(),
    case("docker::engines::new_every_attack_is_refused_on_a_network_of_its_own", || attacks::networks(Generation::New))
        .needs(NEEDS)
        .alone(),
    case("docker::engines::new_a_shell_alone_and_one_beside_a_run_are_governed", || shells::shells(Generation::New))
        .needs(NEEDS)
        .alone(),
    case("docker::engines::new_no_service_has_more_power_than_it_needs", || powers::powers(Generation::New))
        .needs(NEEDS)
        .alone(),
    case("docker::engines::the_gateway_listens_on_no_address", doors_alone).needs(BOTH).alone(),
    case("docker::engines::new_a_run_outlives_a_restart_and_stops_when_told", || stop(Generation::New))
        .needs(NEEDS)
        .alone(),
];

/// Else one of them would be shown twice.
fn generations() -> Result<()> {
    for (generation, engine_is, compose_is) in [(Generation::Old, 20..28, 1), (Generation::New, 28..100, 2)] {
        let engine = Engine::of(generation)?;
        let version = engine.must(engine.docker(&["version", "--format", "{{.Server.Version}}"]))?.text();
        ensure!(engine_is.contains(&major(&version)?), "the {generation} engine is {version}");
        let version = engine.must(engine.compose(&["version", "--short"]))?.text();
        ensure!(major(&version)? == compose_is, "the {generation} compose is {version}");
    }
    Ok(())
}

fn major(version: &str) -> Result<u32> {
    let number = version.trim().trim_start_matches('v').split('.').next().unwrap_or_default();
    number.parse().with_context(|| format!("read the version {version:?}"))
}

/// Without a warning: a file that one of them takes with a complaint is not for both.
fn configs() -> Result<()> {
    let boxes = ["--profile", "claude", "--profile", "codex", "--profile", "pi"];
    let demo = ["--profile", "demo"];
    let usual = ["boxd", "gateway", "hello", "claude", "codex", "pi"];
    for generation in [Generation::Old, Generation::New] {
        let engine = Engine::of(generation)?;
        for (file, profiles, more) in
            [("compose.yaml", [&boxes[..], &demo].concat(), &["demo"][..]), (network::FILE, boxes.to_vec(), &[])]
        {
            let config = |arguments: &[&str]| {
                let all = [&["-f", file][..], &profiles, &["config"], arguments].concat();
                engine.must(engine.compose(&all))
            };
            let said = config(&[])?.stderr;
            ensure!(said.is_empty(), "of {file} compose of the {generation} generation says {said}");
            let services = config(&["--services"])?.text();
            for name in usual.iter().chain(more) {
                ensure!(services.lines().any(|line| line == *name), "{generation} {file} has no {name}: {services}");
            }
        }
    }
    Ok(())
}

/// `box/package.json` is where an agent's version stands, and the workspace's own version is the tag.
fn versions() -> Result<()> {
    let engine = Engine::of(Generation::New)?;
    let file = std::fs::read(engine.project().join("box/package.json")).context("read package.json")?;
    let pinned: serde_json::Value = serde_json::from_slice(&file).context("read package.json")?;
    let told = engine.must(engine.compose(&["run", "--rm", "-T", "box"]))?.text();
    let told: Vec<&str> = told.lines().collect();
    let packages = ["@anthropic-ai/claude-code", "@openai/codex", "@earendil-works/pi-coding-agent"];
    ensure!(told.len() == packages.len(), "the image tells {told:?}");
    for (package, told) in packages.iter().zip(told) {
        let pin = pinned["dependencies"][package].as_str().context("a pin")?;
        ensure!(told.split_whitespace().any(|word| word == pin), "{package} is pinned to {pin} and tells {told:?}");
    }
    let house = env!("CARGO_PKG_VERSION");
    for (image, program, arguments) in
        [("gateway", "/usr/local/bin/gateway", "--version"), ("gateway", "/opt/boxgate/boxd", "version")]
    {
        let image = format!("localhost/boxgate/{image}:{house}");
        let run = ["run", "--rm", "--network", "none", "--entrypoint", program, &image, arguments];
        let told = engine.must(engine.docker(&run))?.text();
        ensure!(told.split_whitespace().any(|word| word == house), "{program} of {image} tells {told:?}");
    }
    let images = engine.must(engine.compose(&["--profile", "demo", "config", "--images"]))?.text();
    for image in images.lines() {
        ensure!(image.ends_with(&format!(":{house}")), "an image with another tag than {house}: {image}");
    }
    Ok(())
}

/// Its doors are sockets in folders: what listens in its network is the engine's own resolver and nothing else.
fn doors_alone() -> Result<()> {
    for generation in [Generation::Old, Generation::New] {
        let engine = House::of(generation)?.engine;
        let read = ["exec", "-T", "gateway", "cat", "/proc/net/tcp", "/proc/net/tcp6", "/proc/net/unix"];
        let told = engine.must(engine.compose(&read))?.text();
        ensure!(told.contains("/doors/claude/door.sock"), "no door among {told}");
        let listening: Vec<&str> = told
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace().skip(1);
                let (here, _there, state) = (words.next()?, words.next()?, words.next()?);
                // 0A is LISTEN; the address is 127.0.0.11 in the order of this machine's bytes.
                (state == "0A" && here.contains(':') && !here.starts_with("0B00007F:")).then_some(here)
            })
            .collect();
        ensure!(listening.is_empty(), "the gateway of the {generation} generation listens on {listening:?}");
    }
    Ok(())
}
