//! The whole program at once: a stand-in for the model, a house, and the stock claude in a box without network and without a secret.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::wire::SENTINEL_MARK;
use harness::{BoxRun, Case, House, Need, case, secrets};
use standin::{Options, Real, StandIn};

pub(crate) const CASES: &[Case] = &[
    case("house::a_governed_run_end_to_end", end_to_end).needs(&[
        Need::Gateway,
        Need::Boxd,
        Need::Agent,
        Need::Namespaces,
    ]),
    case("house::ready_is_said_while_the_doors_are_open_and_not_after", ready).needs(&[Need::Gateway]),
];

fn ready() -> Result<()> {
    let mut house = House::builder().start()?;
    let said = house.gateway(&["ready"])?.expect_code(0)?;
    ensure!(said.text() == "ready\n", "{}", said.text());
    house.term()?.expect_code(0)?;
    let said = house.gateway(&["ready"])?.expect_code(69)?;
    ensure!(said.stderr.contains("is `gateway serve` running"), "{}", said.stderr);
    Ok(())
}

fn end_to_end() -> Result<()> {
    for real in [Real::Bearer(LOGIN.into()), Real::ApiKey(KEY.into())] {
        let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
        let mut house = House::builder().model_at(&standin, real.clone()).start()?;
        let launch = BoxRun::new(&house, "one")?.isolated().prompt("say <<sleep:1>><<text:governed>>");

        // While the stream is silent, no process of the box knows the secret.
        let running = launch.start()?;
        standin.wait_seen(1, Duration::from_secs(30)).with_context(|| running.stderr())?;
        let (looked_at, leaks) = secrets::in_tree(running.pid(), &[LOGIN, KEY]);
        ensure!(looked_at >= 2, "looked at {looked_at} processes of the box");
        ensure!(leaks.is_empty(), "the secret is in the box: {leaks:?}");

        let ran = running.wait(Duration::from_secs(60))?.expect_code(0)?;
        ensure!(ran.result()?["result"] == "governed", "{}", ran.text());
        ensure!(!secrets::in_bytes(&ran.stdout, &[LOGIN, KEY]), "the secret was printed");
        let leaks = secrets::in_files(launch.session_folder(), &[LOGIN, KEY])?;
        ensure!(leaks.is_empty(), "the secret is in the session: {leaks:?}");

        upstream_saw_one_real_request(&standin)?;
        ledger_shows_it(&house)?;
        house.term()?.expect_code(0)?;
        house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    }
    Ok(())
}

fn upstream_saw_one_real_request(standin: &StandIn) -> Result<()> {
    let seen = standin.seen();
    let told: Vec<String> =
        seen.iter().map(|seen| format!("{} {} {:?}", seen.method, seen.path, seen.answered)).collect();
    ensure!(seen.len() == 1, "{told:?}");
    ensure!(seen[0].real && seen[0].method == "POST" && seen[0].path.starts_with("/v1/messages"), "{told:?}");
    for connection in standin.connections() {
        ensure!(!secrets::in_bytes(&connection.raw, &[SENTINEL_MARK]), "a sentinel reached the upstream");
        ensure!(connection.sni.as_deref() == Some("api.anthropic.com"), "the server name was {:?}", connection.sni);
    }
    Ok(())
}

fn ledger_shows_it(house: &House) -> Result<()> {
    house.wait_line("the report", |line| line["kind"] == "report")?;
    let lines = house.ledger()?;
    let all = std::fs::read_to_string(house.ledger_file())?;
    let injected: Vec<_> = lines.iter().filter(|line| line["kind"] == "request").collect();
    ensure!(injected.len() == 1, "{all}");
    ensure!(injected[0].to_string().contains("/v1/messages"), "{all}");
    let refused = lines.iter().filter(|line| line["kind"] == "refused" || line["verdict"] == "refuse").count();
    ensure!(refused == 0, "{refused} refusals: {all}");
    ensure!(!secrets::in_bytes(all.as_bytes(), &[LOGIN, KEY]), "the secret is in the ledger");
    Ok(())
}

const LOGIN: &str = "sk-ant-oat01-REAL-LOGIN-7f3a9c2e5b8d";
const KEY: &str = "sk-ant-api03-REAL-KEY-1d4e6f8a0b2c";
