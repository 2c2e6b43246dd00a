//! Many codex at once: each opens a tunnel for every call, and each call stays its own box's.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::{Agent, Provider};
use harness::{BoxRun, Case, House, Need, case, until};
use serde_json::Value;
use standin::{Options, Real, StandIn};

pub(crate) const CASES: &[Case] = &[case("codex::twenty_side_by_side_leave_nothing_behind", twenty).needs(ALL).alone()];

fn twenty() -> Result<()> {
    let real = Real::chatgpt("b1b2b3b4-1111-4222-8333-444455556666", "REAL-of-twenty");
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let ids: Vec<String> = (0..=MANY).map(|number| format!("b{number}")).collect();
    let mut house = House::builder().no_boxes().agent("codex").ceiling("5m").websocket(false);
    house = house.serve(&standin, Provider::OpenaiCodex, real).extra("\n[limits]\nupstream_idle = \"1s\"\n");
    for id in &ids {
        house = house.add_box(id, "");
    }
    let house = house.start()?;
    // One run first, so that what is made once is there.
    launch(&house, &ids[0])?.run(LONG)?.expect_code(0)?;
    let before = open(&house).context("before")?;
    standin.forget();

    let runs: Vec<BoxRun> = ids[1..].iter().map(|id| launch(&house, id)).collect::<Result<_>>()?;
    let running: Vec<_> = runs.iter().map(BoxRun::start).collect::<Result<_>>()?;
    for (id, running) in ids[1..].iter().zip(running) {
        let ran = running.wait(LONG)?.expect_code(0).with_context(|| id.clone())?;
        let said = ran.said(Agent::Codex)?;
        ensure!(!said.failed && said.text == format!("answer of {id}"), "{id}: {said:?}");
    }

    let seen = standin.seen();
    let calls: Vec<_> = seen.iter().map(|seen| (seen.real, seen.method.as_str(), seen.path.as_str())).collect();
    ensure!(calls == vec![(true, "POST", "/backend-api/codex/responses"); MANY], "{calls:?}");
    each_line_under_its_run(&house, &ids[1..])?;
    let mut after = before;
    until("all that was opened to be closed", Duration::from_secs(20), || {
        after = open(&house).ok()?;
        (after <= before).then_some(())
    })
    .with_context(|| format!("descriptors, connections and tasks were {before:?} and are {after:?}"))
}

/// Every request has one line, in the box and the run that sent it, and all of its tunnels are closed.
fn each_line_under_its_run(house: &House, ids: &[String]) -> Result<()> {
    let lines = house.ledger()?;
    let runs: BTreeMap<&str, &str> = lines
        .iter()
        .filter(|line| line["kind"] == "claim")
        .filter_map(|line| Some((line["box"].as_str()?, line["run"].as_str()?)))
        .collect();
    for id in ids {
        let of_box = |line: &&Value| line["box"] == id.as_str();
        let run = runs.get(id.as_str()).with_context(|| format!("{id} has no claim"))?;
        ensure!(lines.iter().filter(of_box).all(|line| line["run"] == *run), "a line of {id} is of another run");
        let sent = lines.iter().filter(of_box).filter(|line| line["kind"] == "request" && line["verdict"] == "allow");
        ensure!(sent.count() == 1, "{id} sent more than its one request, or less");
        let opened = lines.iter().filter(of_box).filter(|line| line["open"] == true);
        for line in opened {
            let closed = lines.iter().any(|other| other["of"] == line["seq"] && other["run"] == *run);
            ensure!(closed, "never closed: {line}");
        }
        let told = lines.iter().find(|line| line["kind"] == "report" && line["box"] == id.as_str());
        let verdict = told.map(|line| line["facts"]["verdict"].to_string());
        ensure!(verdict.as_deref() == Some("\"completed\""), "{id}: {verdict:?}");
    }
    Ok(())
}

fn launch(house: &House, id: &str) -> Result<BoxRun> {
    Ok(BoxRun::new(house, id)?.isolated().agent("codex").prompt(&format!("<<text:answer of {id}>>")))
}

/// What the gateway holds: descriptors, connections, tasks.
fn open(house: &House) -> Result<(usize, u64, u64)> {
    let pid = house.pid().context("the gateway runs")?;
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).context("look at its descriptors")?.count();
    let status = house.status()?;
    let number = |name: &str| status[name].as_u64().with_context(|| format!("status has no {name}"));
    Ok((descriptors, number("connections")?, number("tasks")?))
}

const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Codex, Need::Namespaces];
const MANY: usize = 20;
const LONG: Duration = Duration::from_secs(180);
