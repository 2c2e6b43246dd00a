//! boxd killed: where it was not PID 1 something may live on, so the door is shut; where it was, the box died with it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::ClaimReason;
use harness::claim::{self, Answer};
use harness::fakes::FakeAgents;
use harness::{BoxRun, Case, Claimed, House, Need, case, until};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{last_record, open_house, prelude};
use crate::crash::state_of;

pub(crate) const CASES: &[Case] = &[
    case("attack::what_survives_a_killed_boxd_meets_a_shut_door", shut).needs(ALL),
    case("attack::an_agent_that_kills_boxd_gets_no_run_of_its_own", killed_by_the_agent).needs(ALL),
    case("attack::a_killed_isolated_box_is_lost_and_its_door_free", isolated).needs(ISOLATED),
];

fn shut() -> Result<()> {
    let mut house = open_house().start()?;
    let launch = BoxRun::new(&house, "one")?.prompt("hi");
    let told = launch.workspace_folder().join("told");
    let fakes = FakeAgents::python(&format!(
        "{}{}",
        prelude(&house),
        survivor("while os.path.exists('/proc/%d' % boxd): time.sleep(0.02)")
    ))?;
    let launch = launch.agents(fakes.folder());
    let running = launch.start()?;
    until("the survivor", SOON, || told.with_extension("ready").exists().then_some(()))?;
    running.signal(Signal::SIGKILL)?;
    running.wait(SOON)?;
    let answers = answers(&told)?;
    for which in ["claim", "later"] {
        let answer = answers[which].as_str().unwrap_or_default();
        ensure!(answer.starts_with("HTTP/1.1 409"), "{which}: {answer}");
    }
    ensure!(answers["later"].as_str().is_some_and(|answer| answer.contains("door-shut")), "{answers}");
    lost(&house, "shut")?;
    let line = house.wait_line("the alarm", |line| line["kind"] == "alarm" && line["alarm"] == "claim-refused")?;
    ensure!(line["box"] == "one", "{line}");

    house.kill()?;
    house.start()?;
    let Answer::Refused { status, body } = Claimed::ask(&house.door("one"), &claim::claim())? else {
        anyhow::bail!("a restart opened the door");
    };
    let body = body.context("no words")?;
    ensure!(status == 409 && body.reason == ClaimReason::DoorShut, "{body:?}");
    ensure!(body.hint.contains("gateway runs release one"), "{body:?}");
    released(&house)
}

/// An operator frees the door, once; on a door that is not shut that is refused and leaves no line.
fn released(house: &House) -> Result<()> {
    let ran = house.gateway(&["runs", "release", "one"])?.expect_code(0)?;
    ensure!(ran.text().contains("is free"), "{}", ran.text());
    let again = house.gateway(&["runs", "release", "one"])?.expect_code(69)?;
    ensure!(again.stderr.contains("not shut"), "{}", again.stderr);
    house.gateway(&["runs", "release", "nobody"])?.expect_code(69)?;
    let told = house.ledger()?.iter().filter(|line| line["kind"] == "released").count();
    ensure!(told == 1, "{told} releases are told");
    let claimed = Claimed::take(&house.door("one"))?;
    house.gateway(&["runs", "release", "one"])?.expect_code(69)?;
    ensure!(state_of(house, "one")? == "held", "a held door was released");
    ensure!(claimed.report()?.verdict == box_spec::RunVerdict::Completed);
    Ok(())
}

fn killed_by_the_agent() -> Result<()> {
    // As on a kernel that has no scopes: with one, the agent's signal does not reach boxd.
    let house = open_house().box_line("unsafe_unhardened = true").start()?;
    let launch = BoxRun::new(&house, "one")?.prompt("hi").option("--unsafe-without").option("scope=a test");
    let told = launch.workspace_folder().join("told");
    let fakes = FakeAgents::python(&format!("{}{}", prelude(&house), survivor("os.kill(boxd, 9)")))?;
    let launch = launch.agents(fakes.folder());
    let ran = launch.run(SOON)?;
    ensure!(ran.signal == Some(9), "{:?} {}", ran.code, ran.stderr);
    let answers = answers(&told)?;
    ensure!(answers["claim"].as_str().is_some_and(|answer| answer.starts_with("HTTP/1.1 409")), "{answers}");
    lost(&house, "shut")
}

fn isolated() -> Result<()> {
    let house = open_house().start()?;
    let fakes = FakeAgents::shell("sleep 8642 & echo ready; sleep 8642")?;
    let running = BoxRun::new(&house, "one")?.isolated().agents(fakes.folder()).prompt("hi").start()?;
    until("the agent", SOON, || running.stdout().starts_with(b"ready").then_some(()))?;
    running.signal(Signal::SIGKILL)?;
    running.wait(SOON)?;
    lost(&house, "free")?;
    until("the box to be gone", SOON, || harness::process::with_argument("8642").is_empty().then_some(()))?;
    Claimed::take(&house.door("one"))?.report()?;
    Ok(())
}

fn lost(house: &House, door: &str) -> Result<()> {
    let line = house.wait_line("the loss", |line| line["kind"] == "lost")?;
    ensure!(line["facts"]["door"] == door, "{line}");
    ensure!(state_of(house, "one")? == door);
    let record = last_record(house)?;
    ensure!(record["verdict"]["lost"].is_string() && record["exit_code"].is_null(), "{record}");
    Ok(())
}

/// A process that leaves boxd's reach and, after `then`, claims at once and again a little later.
fn survivor(then: &str) -> String {
    format!(
        "
boxd = os.getppid()
here = os.getcwd()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(here + '/told.ready', 'w').close()
        {then}
        out['claim'] = claim()
        time.sleep(0.5)
        out['later'] = claim()
        open(here + '/told.new', 'w').write(json.dumps(out))
        os.rename(here + '/told.new', here + '/told')
    os._exit(0)
time.sleep(60)
"
    )
}

fn answers(told: &std::path::Path) -> Result<Value> {
    let bytes = until("the survivor's answer", SOON, || std::fs::read(told).ok())?;
    serde_json::from_slice(&bytes).context("parse what the survivor told")
}

const SOON: Duration = Duration::from_secs(20);
const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python];
const ISOLATED: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces];
