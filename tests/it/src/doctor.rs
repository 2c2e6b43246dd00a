//! `boxd doctor`: tells people what a box is, names each fault with its fix, and shows what an attacker gets.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::process::{self, Ran};
use harness::{BoxRun, Case, House, Need, Tools, case};

use crate::attack::open_house;

pub(crate) const CASES: &[Case] = &[
    case("doctor::of_a_sound_box_every_line_is_ok_and_nothing_is_claimed", sound).needs(ALL),
    case("doctor::each_fault_is_named_with_its_fix", faults).needs(&[Need::Gateway, Need::Boxd]),
    case("doctor::a_workspace_of_another_user_is_a_fault", unwritable).needs(&[Need::Gateway, Need::Boxd, Need::Root]),
    case("doctor::the_attack_list_is_published_as_it_is_tried", listed).needs(&[Need::Boxd]),
    case("doctor::the_attack_list_is_refused_in_a_box_and_tells_what_is_open_elsewhere", attacks).needs(ALL),
];

fn sound() -> Result<()> {
    let house = open_house().start()?;
    let ran = isolated(&house, &[])?.expect_code(0)?;
    let text = ran.text();
    ensure!(text.lines().count() >= 7 && text.lines().all(|line| line.starts_with("ok ")), "{text}");
    for said in ["loopback alone", "filter on", "box one of sha256:", "/workspace, writable", "claude 2."] {
        ensure!(text.contains(said), "{said}: {text}");
    }
    ensure!(house.ledger()?.iter().all(|line| line["kind"] != "claim"), "the doctor claimed a run");
    Ok(())
}

fn faults() -> Result<()> {
    let house = open_house().start()?;
    let here = tempfile::tempdir().context("make a folder")?;
    let door = house.door("one");
    let good = ["--door".as_ref(), door.as_os_str()];
    let other = format!("sha256:{}", "0".repeat(64));
    let nowhere = here.path().join("no/door.sock");
    for (what, options, variable, faulty, said) in [
        ("nothing but the house", &good, ("BOXGATE_AGENT_PATH", ""), "agents", "BOXGATE_AGENT_PATH"),
        ("a foreign house", &good, ("BOXGATE_HOUSE", other.as_str()), "house", "is pinned to"),
        ("no house", &["--door".as_ref(), nowhere.as_os_str()], ("LANG", "C"), "house", "start `gateway serve`"),
    ] {
        let mut command = Command::new(Tools::boxd()?);
        command.env_clear().env(variable.0, variable.1).current_dir(here.path()).arg("doctor").args(options);
        let ran = ended(command)?.expect_code(77)?;
        let text = ran.text();
        let line = text.lines().find(|line| line.starts_with("FAULT") && line.contains(faulty));
        ensure!(line.is_some_and(|line| line.contains(said)), "{what}: {text}");
    }
    for bad in [&["doctor", "--door", "relative"][..], &["doctor", "--atack"], &["doctor", "prompt"]] {
        let mut command = Command::new(Tools::boxd()?);
        command.env_clear().args(bad);
        ended(command)?.expect_code(64)?;
    }
    Ok(())
}

fn unwritable() -> Result<()> {
    let house = open_house().start()?;
    let run = BoxRun::new(&house, "one")?.as_user(USER)?;
    let boxd = run.home().with_file_name("boxd");
    for (here, word) in [(Path::new("/"), "FAULT"), (run.workspace_folder(), "ok ")] {
        let mut command = Command::new(&boxd);
        command.env_clear().uid(USER).gid(USER).current_dir(here).arg("doctor");
        let ran = ended(command)?;
        let text = ran.text();
        let line =
            text.lines().find(|line| line.contains("workspace")).with_context(|| format!("{text} {}", ran.stderr))?;
        ensure!(line.starts_with(word), "{}: {line}", here.display());
        ensure!(word == "ok " || line.contains("by user 1000") && line.contains("give the folder"), "{line}");
    }
    Ok(())
}

/// `docs/attacks.md` has a row for each attempt, and no other.
fn listed() -> Result<()> {
    let mut command = Command::new(Tools::boxd()?);
    command.env_clear().args(["doctor", "--attack"]);
    let text = ended(command)?.text();
    let outcome =
        |line: &str| line.strip_prefix("refused  ").or_else(|| line.strip_prefix("LET IN   ")).map(ToOwned::to_owned);
    let tried: BTreeSet<String> = text
        .lines()
        .filter_map(outcome)
        .map(|line| line.chars().take(56).collect::<String>().trim().to_owned())
        .collect();
    let published = published()?;
    ensure!(tried.len() >= 60, "only {} attempts: {text}", tried.len());
    let (unsaid, untried): (Vec<_>, Vec<_>) =
        (tried.difference(&published).collect(), published.difference(&tried).collect());
    ensure!(unsaid.is_empty() && untried.is_empty(), "not in docs/attacks.md: {unsaid:#?}; not tried: {untried:#?}");
    Ok(())
}

/// The attempts of `docs/attacks.md`.
pub(crate) fn published() -> Result<BTreeSet<String>> {
    let page = std::fs::read_to_string(Tools::workspace().join("docs/attacks.md")).context("read docs/attacks.md")?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: BTreeSet<String> =
        rows.filter(|what| *what != "attempt" && !what.starts_with('-')).map(ToOwned::to_owned).collect();
    ensure!(rows.len() >= 60, "docs/attacks.md has only {} attempts", rows.len());
    Ok(rows)
}

fn attacks() -> Result<()> {
    let house = open_house().start()?;
    let ran = isolated(&house, &["--attack"])?.expect_code(0)?;
    let text = ran.text();
    ensure!(text.lines().filter(|line| line.starts_with("refused  ")).count() >= 45, "{text}");
    ensure!(!text.contains("LET IN") && text.contains("0 let in"), "{text}");

    // Where boxd did not make the box: the kernel's part is refused all the same, and a network that is there is told.
    let mut command = Command::new(Tools::boxd()?);
    command.env_clear().args(["doctor", "--attack"]);
    let ran = ended(command)?;
    let text = ran.text();
    let reachable = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect("192.0.2.1:9")).is_ok();
    let outcome = |what: &str| text.lines().find(|line| line.contains(what)).map(|line| line.starts_with("LET IN"));
    ensure!(outcome("the internet (192.0.2.1)") == Some(reachable), "{text}");
    for closed in
        ["boxd is traced", "boxd's memory is opened", "io_uring", "a mount", "a raw socket", "a set-uid program"]
    {
        ensure!(outcome(closed) == Some(false), "{closed}: {text}");
    }
    ensure!((ran.code == Some(77)) == text.contains("LET IN"), "{:?} {text}", ran.code);
    Ok(())
}

/// The doctor in a box as a run would have it.
fn isolated(house: &House, options: &[&str]) -> Result<Ran> {
    let folders = BoxRun::new(house, "one")?;
    let mut command = Command::new(Tools::boxd()?);
    let folder = |command: &mut Command, option: &str, path: &Path| {
        command.arg(option).arg(path);
    };
    command.env_clear().env("PATH", "/usr/bin:/bin").arg("--isolate");
    folder(&mut command, "--workspace", folders.workspace_folder());
    folder(&mut command, "--session", folders.session_folder());
    folder(&mut command, "--agent-dir", &Tools::agents());
    folder(&mut command, "--door", folders.door_socket());
    command.arg("doctor").args(options);
    ended(command)
}

fn ended(command: Command) -> Result<Ran> {
    process::start(command, None)?.wait(SOON)
}

const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces];
/// The usual user of an image.
const USER: u32 = 1000;
const SOON: Duration = Duration::from_secs(30);
