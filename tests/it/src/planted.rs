//! A real secret of the house, planted in a box: the launch ends, its place is told and its value is not.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::marks::{DIGITS, SHORTEST};
use box_spec::{Agent, Marks, Provider};
use harness::fakes::FakeAgents;
use harness::files::put_deep;
use harness::{BoxRun, Case, Claimed, House, HouseBuilder, Need, Ran, case};
use serde_json::Value;
use standin::Real;

use crate::crash::reattach;

pub(crate) const CASES: &[Case] = &[
    case("planted::a_secret_of_the_house_in_a_box_ends_the_launch_and_its_place_is_told", ended).needs(ALL),
    case("planted::what_is_no_secret_of_the_house_or_not_in_the_box_ends_nothing", goes_on).needs(ALL),
    case("planted::what_a_search_leaves_out_is_told", bounds).needs(ALL),
    case("planted::certificates_that_are_changed_before_the_word_to_go_end_the_launch", distrusted).needs(CODEX),
    case("planted::each_claim_is_told_other_marks_and_no_secret", marks).needs(&[Need::Gateway]),
];

fn ended() -> Result<()> {
    let house = builder().start()?;
    let agent = FakeAgents::shell("echo started")?;
    let env = |name: &'static str, value: String| (format!("the variable {name}"), vec![(name, value)], vec![]);
    let file = |path: &str, text: String| (path.to_owned(), vec![], vec![(path.to_owned(), text)]);
    for (place, variables, files) in [
        // Scrubbed, and in what the engine tells of the box all the same.
        env("ANTHROPIC_API_KEY", KEY.into()),
        env("SETTINGS", format!("{{\"key\":\"{KEY}\"}}")),
        // That of another box, and both tokens of a login.
        env("REGISTRY", format!("https://me:{OTHER}@registry/")),
        env("NOTE", format!("Bearer {ACCESS}")),
        file("home/.claude/.credentials.json", format!("{{\"refreshToken\":\"{REFRESH}\"}}")),
        file("home/deep/in/a/folder/.env", format!("export KEY='{KEY}'\n")),
        file("session/claude/history.jsonl", format!("{{\"said\":\"it is\\n{OTHER}\\n\"}}\n")),
    ] {
        let planted = || -> Result<BoxRun> {
            let mut launch = BoxRun::new(&house, "one")?.agents(agent.folder()).prompt("hi");
            for (name, value) in &variables {
                launch = launch.env(name, value);
            }
            for (path, text) in &files {
                put_deep(&launch.home().with_file_name(path), text.as_bytes(), 0o600)?;
            }
            Ok(launch)
        };
        let ran = planted()?.run(SOON)?.expect_code(77).context(place.clone())?;
        ensure!(ran.stdout.is_empty(), "{place}: the agent ran: {}", ran.text());
        let line = ran.stderr.lines().find(|line| line.contains("a secret of the house is in this box"));
        ensure!(line.is_some_and(|line| line.contains(&place)), "{place}: {}", ran.stderr);
        ensure!(ran.stderr.contains("secret_free") && ran.stderr.contains("unsafe_secrets_in_box"), "{}", ran.stderr);
        let failed = house.wait_line("the failure", |line| line["kind"] == "failed")?;
        ensure!(failed["inside"].as_str().is_some_and(|inside| inside.contains("secret_free")), "{failed}");
        // With the house's word it runs, and the ledger keeps what was waived.
        let ran = planted()?.door(&house.door("waived")).run(SOON)?.expect_code(0)?;
        ensure!(ran.text() == "started\n" && ran.stderr.contains(&place), "{place}: {}", ran.stderr);
        ensure!(last_attested(&house)?["secret_free"] == false, "{place}: it is attested to be free");
        for value in [KEY, OTHER, ACCESS, REFRESH] {
            ensure!(!ran.stderr.contains(value), "{place}: the value was said: {}", ran.stderr);
        }
    }
    let ledger = std::fs::read_to_string(house.ledger_file()).context("read the ledger")?;
    for value in [KEY, OTHER, ACCESS, REFRESH] {
        ensure!(!ledger.contains(value), "the ledger tells a secret");
    }
    Ok(())
}

fn goes_on() -> Result<()> {
    let house = builder().start()?;
    let agent = FakeAgents::shell("echo \"started $ANTHROPIC_API_KEY\"")?;
    let launch = || Ok::<_, anyhow::Error>(BoxRun::new(&house, "one")?.agents(agent.folder()).prompt("hi"));
    // A key that is none of this house's is taken away and told of; a program's own words are not.
    let ran = launch()?.env("ANTHROPIC_API_KEY", FOREIGN).env("HINT", "sk-ant-…").run(SOON)?.expect_code(0)?;
    let told: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("looks like a credential")).collect();
    ensure!(
        ran.text().contains("boxgate-sentinel") && !ran.text().contains(FOREIGN) && told.len() == 1,
        "{} {}",
        ran.text(),
        ran.stderr
    );
    ensure!(told[0].contains("the variable ANTHROPIC_API_KEY") && !ran.stderr.contains(FOREIGN), "{told:?}");
    // The caller's environment stays outside of a box that boxd makes.
    let ran = launch()?.isolated().env("ANTHROPIC_API_KEY", KEY).run(SOON)?.expect_code(0)?;
    ensure!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    let told = last_attested(&house)?;
    ensure!(told["secret_free"] == true && told["facts"]["searched"]["files"].as_u64() >= Some(2), "{told}");
    // What is too short to be hidden by a hash has no mark; the house says so.
    launch()?.env("NOTE", SHORT).run(SOON)?.expect_code(0)?;
    ensure!(SHORT.len() < SHORTEST && house.said().contains("no box is searched for it"), "{}", house.said());
    Ok(())
}

fn bounds() -> Result<()> {
    let house = builder().start()?;
    let agent = FakeAgents::shell("echo started")?;
    let launch = BoxRun::new(&house, "one")?.agents(agent.folder()).prompt("hi");
    launch.run(SOON)?.expect_code(0)?;
    let left_out = || Ok::<_, anyhow::Error>(last_attested(&house)?["facts"]["searched"]["left_out"].as_u64());
    ensure!(left_out()? == Some(0), "{}", last_attested(&house)?);
    let long = format!("{KEY}\n{}", "x".repeat(1024 * 1024));
    put_deep(&launch.home().join("long"), long.as_bytes(), 0o600)?;
    // It costs a search more than it may.
    put_deep(&launch.home().join("dear"), "a-".repeat(400_000).as_bytes(), 0o600)?;
    std::os::unix::fs::symlink("/etc/passwd", launch.home().join("link")).context("make a link")?;
    launch.run(SOON)?.expect_code(0)?;
    ensure!(left_out()? == Some(2), "{}", last_attested(&house)?);
    // What an agent reads comes before what lies deeper.
    for number in 0..600 {
        put_deep(&launch.home().join(format!("many/{number}")), b"x", 0o600)?;
    }
    launch.run(SOON)?.expect_code(0)?;
    ensure!(left_out()? >= Some(3), "{}", last_attested(&house)?);
    put_deep(&launch.home().join(".codex/auth.json"), KEY.as_bytes(), 0o600)?;
    launch.run(SOON)?.expect_code(77)?;
    Ok(())
}

/// A program that the image runs before the agent leaves a process behind, which puts a folder of its own in the place of
/// boxd's: what clients are told to trust is read back by its name.
fn distrusted() -> Result<()> {
    let builder = House::builder().agent("codex").secret_for(Provider::Openai, Real::from_text(OTHER));
    let house = builder.open_network().start()?;
    for file in ["ca.pem", "bundle.pem", "wgetrc"] {
        // On a busy machine it may come too late, after the word to go; a box that never looks is never told.
        let tries = (0..10).map(|_| changed(&house, file));
        let ran = tries.filter_map(|ran| ran.map(|(ran, _)| (ran.code != Some(0)).then_some(ran)).transpose()).next();
        let ran = ran.with_context(|| format!("{file} was changed, and the agent started"))??.expect_code(77)?;
        ensure!(ran.stderr.contains("trusts_house"), "{file}: {}", ran.stderr);
        ensure!(ran.stdout.is_empty(), "{file}: the agent started: {}", ran.text());
        let failed = house.wait_line("the failure", |line| line["kind"] == "failed")?;
        ensure!(failed["inside"].to_string().contains("trusts_house"), "{failed}");
    }
    // With boxd's own files the same is no fault.
    let (ran, came) = changed(&house, "none")?;
    ran.expect_code(0)?;
    ensure!(came, "nothing was changed");
    Ok(())
}

/// A run of which one file is changed, and whether that was done before it ended.
fn changed(house: &House, file: &str) -> Result<(Ran, bool)> {
    let launch = BoxRun::new(house, "one")?.agent("codex").prompt("hi");
    let trust = launch.session_folder().join("trust");
    std::fs::create_dir_all(&trust).context("make the folder")?;
    let program = CHANGES.replace("TRUST", &trust.display().to_string()).replace("FILE", file);
    let fakes = FakeAgents::program_as(Agent::Codex, program.as_bytes())?;
    // The search takes a while, so that whoever changes files has one too.
    put_deep(&launch.home().join("dear"), "a-".repeat(400_000).as_bytes(), 0o600)?;
    let launch = launch.agents(fakes.folder());
    let ran = launch.run(SOON)?;
    Ok((ran, trust.with_extension("boxd").is_dir()))
}

/// Waits for boxd's first file (`IN_MOVED_TO`). What it does not change stays boxd's, which goes on writing where it was.
const CHANGES: &str = r#"#!/usr/bin/env python3
import ctypes, os, sys
if "debug" not in sys.argv:
    import time
    time.sleep(0.5)
    print("started")
    sys.exit(0)
told, tell = os.pipe()
if os.fork():
    os.read(told, 1)
    sys.exit(1)
os.setsid()
for stream in range(3):
    os.dup2(os.open(os.devnull, os.O_RDWR), stream)
libc, trust, own = ctypes.CDLL(None), "TRUST", "TRUST.boxd"
watch = libc.inotify_init()
libc.inotify_add_watch(watch, trust.encode(), 0x80)
os.write(tell, b"!")
os.read(watch, 4096)
os.rename(trust, own)
os.mkdir(trust)
for name in ("ca.pem", "bundle.pem", "wgetrc"):
    if name == "FILE":
        text = "changed"
    elif name == "wgetrc":
        text = "ca_certificate = " + trust + "/bundle.pem\n"
    else:
        os.symlink(own + "/" + name, trust + "/" + name)
        continue
    open(trust + "/" + name, "w").write(text)
"#;

fn marks() -> Result<()> {
    let mut house = builder().start()?;
    let first = Claimed::take(&house.door("one"))?;
    let second = Claimed::take(&house.door("waived"))?;
    let (a, b) = (&first.spec.marks, &second.spec.marks);
    let lengths = |marks: &Marks| marks.secrets.iter().map(|mark| mark.length).collect::<Vec<_>>();
    let mut known: Vec<u32> = [KEY, OTHER, ACCESS, REFRESH].iter().map(|value| value.len() as u32).collect();
    known.sort_unstable();
    ensure!(lengths(a) == known && lengths(b) == known, "{a:?} {b:?}");
    ensure!(a.salt.len() == 64 && a.salt != b.salt, "{} {}", a.salt, b.salt);
    for mark in &a.secrets {
        ensure!(mark.digest.len() == DIGITS && b.secrets.iter().all(|other| other.digest != mark.digest), "{mark:?}");
    }
    // A run that is taken up again is told none: behind its claim there may be an agent.
    house.kill()?;
    house.start()?;
    let again = reattach(&house.door("one"), &first.spec.token)?;
    ensure!(again.spec.marks == Marks::default(), "{:?}", again.spec.marks);
    Ok(())
}

/// Two keys, a login and a short one; the box `waived` may hold them.
fn builder() -> HouseBuilder {
    let login = format!(
        "{{\"claudeAiOauth\":{{\"accessToken\":\"{ACCESS}\",\"refreshToken\":\"{REFRESH}\",\"expiresAt\":4102444800000,\"scopes\":[]}}}}"
    );
    let short = "[[secret]]\nname = \"short\"\nprovider = \"openai\"\nkind = \"api-key\"\nfile = \"short\"\n";
    let host = "[[secret]]\nname = \"host\"\nprovider = \"anthropic\"\nkind = \"login\"\nlogin_of = \"claude\"\nfolder = \"login\"\n";
    House::builder()
        .secret(Real::ApiKey(KEY.into()))
        .secret_for(Provider::Openai, Real::from_text(OTHER))
        .file("short", SHORT.as_bytes())
        .file("login/.credentials.json", login.as_bytes())
        .extra(short)
        .extra(host)
        .add_box("waived", "unsafe_secrets_in_box = true\n")
        .open_network()
}

fn last_attested(house: &House) -> Result<Value> {
    let lines = house.ledger()?;
    let line = lines.iter().rev().find(|line| line["kind"] == "attested").context("nothing was attested")?;
    Ok(line["facts"]["attestation"].clone())
}

const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces];
const CODEX: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python];
const KEY: &str = "sk-ant-api03-KEY-of-the-house-in-the-box-01";
const OTHER: &str = "sk-proj-KEY-of-another-box-0002";
const ACCESS: &str = "sk-ant-oat01-ACCESS-of-a-login-000003";
const REFRESH: &str = "sk-ant-ort01-REFRESH-of-a-login-04";
const FOREIGN: &str = "sk-ant-api03-KEY-of-nobody-here-05";
const SHORT: &str = "sk-short-of-06";
const SOON: Duration = Duration::from_secs(30);
