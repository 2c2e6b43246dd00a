//! What outlives a run, and whose memory can be read.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::{BoxRun, Case, House, Need, Tools, case, process, until};
use standin::Real;

pub(crate) const CASES: &[Case] = &[
    case("attack2::what_cannot_be_ended_meets_a_shut_door", chain)
        .needs(&[Need::Gateway, Need::Boxd, Need::Rustc])
        .alone(),
    case("attack2::the_gateways_memory_is_closed_to_its_own_user", closed).needs(&[Need::Gateway, Need::Root]),
    case("attack2::no_file_is_removed_for_a_socket", no_socket).needs(&[Need::Gateway]),
];

/// An agent that leaves more behind than boxd can end in its time.
fn chain() -> Result<()> {
    let house = House::builder().open_network().secret(Real::ApiKey(KEY.into())).start()?;
    let fakes = FakeAgents::program(&built(CHAIN)?)?;
    let ran = BoxRun::new(&house, "one")?.prompt("hi").agents(fakes.folder()).run(Duration::from_secs(40))?;
    let door = house.status()?["boxes"][0]["state"].clone();
    let reported = house.ledger()?.into_iter().find(|line| line["kind"] == "report");
    let survived = reported.as_ref().is_none_or(|line| line["facts"]["report"]["orphans"].as_u64() != Some(0));
    ensure!(survived, "nothing was left behind: nothing was tried");
    ensure!(reported.is_none(), "a run that goes on was reported: {reported:?}; the door is {door}");
    ensure!(ran.code == Some(74) && ran.stderr.contains("could not be ended"), "{ran:?}");
    house.wait_line("the loss", |line| line["kind"] == "lost" && line["facts"]["door"] == "shut")?;
    Ok(())
}

/// A small program, built here: a thousand of an interpreter would fill the machine.
fn built(source: &str) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let (file, program) = (folder.path().join("chain.rs"), folder.path().join("chain"));
    harness::files::put(&file, source.as_bytes(), 0o600)?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-O", "-o"]).arg(&program).arg(&file);
    process::run(rustc, None, Duration::from_secs(60))?.expect_code(0)?;
    std::fs::read(&program).context("read the program")
}

fn closed() -> Result<()> {
    let house = House::builder().prepare()?;
    let gateway = house.folder().join("gateway");
    let built = Tools::gateway()?;
    std::fs::hard_link(&built, &gateway)
        .or_else(|_| std::fs::copy(&built, &gateway).map(drop))
        .context("bring the gateway")?;
    for name in ["", "one", "house.toml"] {
        chown(house.folder().join(name), Some(NOBODY), Some(NOBODY)).context("give the house away")?;
    }
    let mut command = Command::new(&gateway);
    command.args(["serve", "--config"]).arg(house.config()).env_clear().env("ANTHROPIC_API_KEY", KEY);
    command.current_dir(house.folder()).uid(NOBODY).gid(NOBODY);
    let running = process::start(command, None)?;
    until("the door", Duration::from_secs(20), || house.identity("one").ok()).with_context(|| running.stderr())?;
    for name in ["environ", "mem", "maps"] {
        let owner = std::fs::metadata(format!("/proc/{}/{name}", running.pid())).context("look at the gateway")?.uid();
        ensure!(owner == 0, "{name} belongs to the gateway's user {owner}: it can be read there");
    }
    Ok(())
}

fn no_socket() -> Result<()> {
    let house = House::builder().file("precious", b"mine").extra("[operator]\nsocket = \"precious\"\n").prepare()?;
    let precious = house.folder().join("precious");
    let ran = house.gateway(&["serve"])?.expect_code(73)?;
    ensure!(ran.stderr.contains("no socket"), "{}", ran.stderr);
    ensure!(std::fs::read(&precious).context("read what stood there")? == b"mine");
    Ok(())
}

const NOBODY: u32 = 54_321;
const KEY: &str = "sk-ant-api03-REAL-KEY-of-lives-3b";
/// A thousand processes, each the child of the one before: boxd sees one at a time. They end by themselves.
const CHAIN: &str = r#"
use std::time::{Duration, Instant};
unsafe extern "C" {
    fn fork() -> i32;
    fn setsid() -> i32;
    fn signal(number: i32, action: usize) -> usize;
    fn close(file: i32) -> i32;
}
fn main() {
    let end = Instant::now() + Duration::from_secs(10);
    if unsafe { fork() } != 0 {
        std::thread::sleep(Duration::from_millis(700));
        return;
    }
    unsafe { setsid(); signal(15, 1); for file in 0..3 { close(file); } }
    for _ in 0..1000 {
        if unsafe { fork() } != 0 { break; }
    }
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}
"#;
