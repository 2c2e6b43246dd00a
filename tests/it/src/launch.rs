//! A launch with fake agents: what the agent gets, how it ends, and what boxd says of it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::{FakeAgents, VERSION, result_event};
use harness::{BoxRun, Case, Claimed, House, Need, Ran, case, until};
use nix::sys::signal::Signal;
use serde_json::Value;

pub(crate) const CASES: &[Case] = &[
    case("launch::what_is_wrong_with_the_call_is_64", wrong_calls).needs(&[Need::Boxd]),
    case("launch::a_door_that_does_not_answer_is_69", no_door).needs(&[Need::Boxd]),
    case("launch::the_agents_version_is_told_without_a_house", version_offline).needs(&[Need::Boxd]),
    case("launch::a_missing_agent_is_127_and_a_barred_one_126", missing_agent).needs(BOTH),
    case("launch::a_foreign_house_is_76", foreign_house).needs(BOTH),
    case("launch::a_taken_door_is_75", door_taken).needs(BOTH),
    case("launch::a_house_without_a_credential_is_78", no_credential).needs(BOTH),
    case("launch::the_agents_own_status_is_passed_on", status_passed_on).needs(BOTH),
    case("launch::the_environment_is_scrubbed_then_built", environment).needs(BOTH),
    case("launch::there_is_one_prompt_and_nothing_on_standard_input", one_prompt).needs(BOTH),
    case("launch::text_is_the_answer_alone_and_native_the_bytes_untouched", outputs).needs(BOTH),
    case("launch::the_ceiling_is_124", ceiling).needs(BOTH),
    case("launch::signals_are_passed_on_and_a_deaf_agent_is_killed", signals).needs(BOTH).alone(),
    case("launch::orphans_do_not_outlive_the_run", orphans).needs(BOTH),
    case("launch::a_run_outlives_a_restart_of_the_gateway", restart).needs(BOTH).alone(),
];

fn wrong_calls() -> Result<()> {
    let launch = || Ok::<_, anyhow::Error>(BoxRun::at_door("/nowhere/door.sock".into())?.prompt("hi"));
    for (what, launch, told) in [
        ("unknown agent", launch()?.agent("gemini"), "\"gemini\""),
        ("three choices", launch()?.agent("gemini"), "pi, claude or codex"),
        ("empty prompt", launch()?.prompt(""), "empty"),
        ("a prompt that looks like help", launch()?.prompt("-h is broken"), "'-h'"),
        ("two prompts", launch()?.option("--prompt=again"), "more than one prompt"),
        ("reserved name", launch()?.option("--env").option("https_proxy=x"), "https_proxy"),
        ("reserved", launch()?.option("--env").option("HTTPS_PROXY=x"), "reserved"),
        ("unknown variable", launch()?.env("BOXGATE_DOR", "x"), "BOXGATE_DOR"),
        ("a fixed flag", launch()?.argument("--output-format").argument("text"), "--output-format"),
        ("unknown option", launch()?.option("--no-such"), "--no-such"),
        ("a session that is no UTF-8", launch()?.session(Path::new(OsStr::from_bytes(b"/tmp/\xff"))), "UTF-8"),
        ("a long system text", launch()?.option(format!("--system={}", "x".repeat(102_401))), "100 KiB"),
    ] {
        let ran = launch.run(SOON)?.expect_code(64).with_context(|| what.to_owned())?;
        ensure!(ran.stderr.contains(told), "{what}: {}", ran.stderr);
    }
    Ok(())
}

fn no_door() -> Result<()> {
    let ran =
        BoxRun::at_door("/nowhere/door.sock".into())?.prompt("hi").run(Duration::from_secs(30))?.expect_code(69)?;
    ensure!(ran.stderr.contains("/nowhere/door.sock"), "{}", ran.stderr);
    Ok(())
}

fn version_offline() -> Result<()> {
    let fakes = FakeAgents::shell("echo asked \"$@\"; exit 3")?;
    let launch = BoxRun::at_door("/nowhere/door.sock".into())?.agents(fakes.folder()).argument("--version");
    let ran = launch.run(SOON)?.expect_code(3)?;
    ensure!(ran.text() == "asked --version\n", "{}", ran.text());
    ensure!(std::fs::read_dir(launch.session_folder())?.next().is_none(), "files were written for a version");
    Ok(())
}

fn missing_agent() -> Result<()> {
    let house = house()?;
    let empty = tempfile::tempdir()?;
    let ran = launch(&house)?.agents(empty.path()).env("PATH", "/nonexistent").run(SOON)?.expect_code(127)?;
    ensure!(
        ran.stderr.contains("claude") && ran.stderr.contains(&empty.path().display().to_string()),
        "{}",
        ran.stderr
    );
    let fakes = FakeAgents::shell("exit 0")?;
    std::fs::set_permissions(fakes.claude(), std::fs::Permissions::from_mode(0o644))?;
    launch(&house)?.agents(fakes.folder()).env("PATH", "/nonexistent").run(SOON)?.expect_code(126)?;
    Ok(())
}

fn foreign_house() -> Result<()> {
    let house = house()?;
    let fakes = FakeAgents::shell("echo started")?;
    let pinned = house.identity("one")?.house;
    let run = |print: &str| launch(&house)?.agents(fakes.folder()).env("BOXGATE_HOUSE", print).run(SOON);
    let ran = run(&format!("sha256:{}", "0".repeat(64)))?.expect_code(76)?;
    ensure!(ran.stdout.is_empty(), "the agent started: {}", ran.text());
    run(pinned.as_str())?.expect_code(0)?;
    Ok(())
}

fn door_taken() -> Result<()> {
    let house = house()?;
    let holder = Claimed::take(&house.door("one"))?;
    let fakes = FakeAgents::shell("echo started")?;
    let ran = launch(&house)?.agents(fakes.folder()).run(SOON)?.expect_code(75)?;
    ensure!(ran.stderr.contains(holder.spec.run.as_str()), "the run that holds the door is not named: {}", ran.stderr);
    Ok(())
}

fn no_credential() -> Result<()> {
    let house = House::builder().open_network().start()?;
    let ran = launch(&house)?.agents(FakeAgents::shell("echo started")?.folder()).run(SOON)?.expect_code(78)?;
    ensure!(ran.stderr.contains("anthropic"), "the provider is not named: {}", ran.stderr);
    Ok(())
}

fn status_passed_on() -> Result<()> {
    let house = house()?;
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 124", 124),
        ("kill -9 $$", 137),
        ("kill -SEGV $$", 139),
        ("kill -TERM 0; sleep 5", 143),
    ] {
        let ran = run_shell(&house, script)?;
        ran.expect_code(code).with_context(|| script.to_owned())?;
        let report = last_report(&house)?;
        ensure!(report["exit_code"] == code && report["agent_spoke"] == true, "{script}: {report}");
        ensure!(report["agent_version"] == VERSION, "{report}");
    }
    let ran =
        run_shell(&house, &format!("echo '{}'", result_event("x").replace("\"is_error\":false", "\"is_error\":true")))?;
    ran.expect_code(0)?;
    ensure!(last_report(&house)?["agent_error"].is_string(), "an error with status 0 is not in the report");
    Ok(())
}

fn environment() -> Result<()> {
    let house = house()?;
    let fakes = FakeAgents::shell("env; cat \"$NODE_EXTRA_CA_CERTS\"")?;
    let planted =
        ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "https_proxy", "NO_PROXY", "SSL_CERT_FILE"];
    let mut launch = launch(&house)?.agents(fakes.folder()).env("KEPT", "kept").option("--env").option("ADDED=added");
    for name in planted {
        launch = launch.env(name, "planted-value");
    }
    let told = launch.run(SOON)?.expect_code(0)?.text();
    ensure!(!told.contains("planted-value"), "{told}");
    for wanted in [
        "KEPT=kept",
        "ADDED=added",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
        "NODE_USE_ENV_PROXY=1",
        "BOXGATE_RUN=",
    ] {
        ensure!(told.contains(wanted), "{wanted} is missing: {told}");
    }
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        ensure!(told.contains(&format!("\n{name}=http://127.0.0.1:")), "{name} is missing: {told}");
    }
    ensure!(told.contains("BEGIN CERTIFICATE") && house.ca_pem()?.lines().all(|line| told.contains(line)), "{told}");
    for line in told.lines().filter(|line| line.starts_with("no_proxy=") || line.starts_with("NO_PROXY=")) {
        ensure!(line.contains("127.0.0.1") && line.contains("localhost") && line.contains("::1"), "{line}");
    }
    Ok(())
}

fn one_prompt() -> Result<()> {
    let house = house()?;
    let fakes = FakeAgents::shell("for a in \"$@\"; do printf '[%s]' \"$a\"; done; printf '|'; cat")?;
    let ran = launch(&house)?.agents(fakes.folder()).input(b"typed by mistake").run(SOON)?.expect_code(0)?;
    ensure!(ran.text().ends_with("[--][hi]|"), "{}", ran.text());
    let run = || BoxRun::new(&house, "one").map(|launch| launch.agents(fakes.folder()));
    let ran = run()?.option("--prompt=--help").run(SOON)?.expect_code(0)?;
    ensure!(ran.text().ends_with("[--][--help]|"), "{}", ran.text());
    let long = "long ".repeat(400_000);
    let ran = run()?.long_prompt(&long)?.run(SOON)?.expect_code(0)?;
    let (arguments, input) = ran.text().split_once('|').map(|(a, b)| (a.to_owned(), b.to_owned())).context("no bar")?;
    ensure!(input == long && !arguments.contains("long long"), "{} bytes came by standard input", input.len());
    Ok(())
}

fn outputs() -> Result<()> {
    let house = house()?;
    let native = format!("not json\n{}\nlast line without an end", result_event("the answer"));
    let fakes = FakeAgents::python(&format!("import sys\nsys.stdout.write({native:?})"))?;
    let launch = launch(&house)?.agents(fakes.folder());
    let ran = launch.run(SOON)?.expect_code(0)?;
    ensure!(ran.text() == native, "{}", ran.text());
    let report = last_report(&house)?;
    ensure!(report["stdout"]["bytes"] == native.len() && report["stdout"]["kept"] == true, "{report}");
    let kept = std::fs::read_dir(launch.session_folder().join("runs"))?.flatten().next().context("no run was kept")?;
    ensure!(std::fs::read_to_string(kept.path().join("stdout.jsonl"))? == native, "the kept output differs");
    let ran = launch.output("text").run(SOON)?.expect_code(0)?;
    ensure!(ran.text().trim_end() == "the answer", "{}", ran.text());
    Ok(())
}

fn ceiling() -> Result<()> {
    let house = with_secret().ceiling("2s").start()?;
    let ran = run_shell(&house, "trap '' TERM; sleep 60 & wait; sleep 60")?.expect_code(124)?;
    ensure!(ran.took < Duration::from_secs(12), "{:?}", ran.took);
    ensure!(last_report(&house)?["ended_by"] == "ceiling");
    Ok(())
}

fn signals() -> Result<()> {
    let house = house()?;
    for (script, signal, code, at_most) in [
        ("trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.1; done", Signal::SIGTERM, 5, 3),
        ("trap 'echo got; exit 6' INT; echo ready; while :; do sleep 0.1; done", Signal::SIGINT, 6, 3),
        ("trap 'echo got; exit 7' USR1; echo ready; while :; do sleep 0.1; done", Signal::SIGUSR1, 7, 3),
        ("trap '' TERM; echo ready; while :; do sleep 0.1; done", Signal::SIGTERM, 137, 9),
    ] {
        let fakes = FakeAgents::shell(script)?;
        let running = launch(&house)?.agents(fakes.folder()).start()?;
        until("the agent", Duration::from_secs(10), || running.stdout().starts_with(b"ready").then_some(()))?;
        running.signal(signal)?;
        let ran = running.wait(Duration::from_secs(30))?.expect_code(code).with_context(|| script.to_owned())?;
        ensure!(ran.text().matches("got").count() <= 1, "the signal came twice: {}", ran.text());
        ensure!(ran.took < Duration::from_secs(at_most), "{script}: {:?}", ran.took);
    }
    Ok(())
}

fn orphans() -> Result<()> {
    let house = house()?;
    let script = "i=0; while [ $i -lt 200 ]; do setsid sleep 7531 >/dev/null 2>&1 & i=$((i+1)); done; sleep 1; exit 0";
    run_shell(&house, script)?.expect_code(0)?;
    let report = last_report(&house)?;
    ensure!(report["orphans"] == 200, "{report}");
    let left = harness::process::with_argument("7531");
    ensure!(left.is_empty(), "{} orphans are left", left.len());
    Ok(())
}

fn restart() -> Result<()> {
    let mut house = house()?;
    let fakes = FakeAgents::shell("echo ready; sleep 4; exit 9")?;
    let running = launch(&house)?.agents(fakes.folder()).start()?;
    until("the agent", Duration::from_secs(10), || running.stdout().starts_with(b"ready").then_some(()))?;
    house.kill()?;
    house.start()?;
    running.wait(Duration::from_secs(40))?.expect_code(9)?;
    ensure!(last_report(&house)?["exit_code"] == 9);
    house.wait_line("the return", |line| line["kind"] == "reattached")?;
    let verdict = house.ledger()?.into_iter().rev().find(|line| line["kind"] == "report").context("no report")?;
    ensure!(verdict["facts"]["verdict"] == serde_json::json!({ "failed": "the agent ended with 9" }), "{verdict}");
    Ok(())
}

fn run_shell(house: &House, script: &str) -> Result<Ran> {
    let fakes = FakeAgents::shell(script)?;
    launch(house)?.agents(fakes.folder()).run(Duration::from_secs(60))
}

fn launch(house: &House) -> Result<BoxRun> {
    Ok(BoxRun::new(house, "one")?.prompt("hi"))
}

fn house() -> Result<House> {
    with_secret().start()
}

fn with_secret() -> harness::HouseBuilder {
    House::builder().secret(standin::Real::Bearer("sk-ant-oat01-REAL-of-the-launch".into())).open_network()
}

/// The newest report in the ledger.
fn last_report(house: &House) -> Result<Value> {
    house.wait_line("a report", |line| line["kind"] == "report")?;
    let last = house.ledger()?.into_iter().rev().find(|line| line["kind"] == "report");
    Ok(last.context("no report")?["facts"]["report"].clone())
}

const BOTH: &[Need] = &[Need::Gateway, Need::Boxd];
const SOON: Duration = Duration::from_secs(30);
