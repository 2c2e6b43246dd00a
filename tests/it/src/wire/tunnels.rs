//! Tunnels: an agent that opens one for each call costs little, and leaves nothing behind.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::Provider;
use harness::{Case, Claimed, House, Tunnel, case};
use standin::{Fault, Options, Real, Rule, StandIn};

use super::base::{GATEWAY, post};

pub(super) const CASES: &[Case] =
    &[case("wire::twenty_boxes_with_a_tunnel_per_call_leave_nothing_behind", side_by_side).needs(GATEWAY)];

/// As codex does over SSE: each call has a CONNECT, a handshake and a connection of its own.
fn side_by_side() -> Result<()> {
    let login = Real::chatgpt("account-of-many", "SIDE-BY-SIDE");
    let standin =
        StandIn::start(Options { names: vec![HOST.to_owned()], real: vec![login.clone()], ..Options::default() })?;
    let body = b"data: {}\n\n".to_vec();
    standin.rules(vec![Rule::new("", Fault::Status { status: 200, headers: Vec::new(), body })]);
    let boxes: Vec<String> = (0..BOXES).map(|number| format!("box-{number}")).collect();
    let house = House::builder().agent("codex").no_boxes().serve(&standin, Provider::OpenaiCodex, login);
    let house = boxes.iter().fold(house, |house, id| house.add_box(id, "")).start()?;
    let runs = boxes.iter().map(|id| Claimed::take(&house.door(id))).collect::<Result<Vec<_>>>()?;
    let ca = house.ca_pem()?;
    let quiet = measured(&house)?;

    std::thread::scope(|scope| {
        let callers: Vec<_> =
            boxes.iter().zip(&runs).map(|(id, run)| scope.spawn(|| calls(&house, &ca, id, run))).collect();
        callers.into_iter().try_for_each(|caller| caller.join().expect("a caller panicked"))
    })?;

    each_under_its_own_run(&house, &boxes, &runs)?;
    ensure!(standin.seen().iter().all(|seen| seen.real), "a call went out without the login");
    // A box calls one after the other, so it keeps one connection to the upstream, whatever its tunnels do.
    let upstream = standin.connections().len();
    ensure!(upstream <= BOXES * 2, "{upstream} connections to the upstream");
    harness::until("everything to be given back", Duration::from_secs(5), || {
        let now = measured(&house).ok()?;
        // What is kept is the idle connection of each box: one descriptor and one task.
        (now.connections == quiet.connections
            && now.tasks <= quiet.tasks + upstream
            && now.files <= quiet.files + upstream)
            .then_some(())
    })
    .with_context(|| format!("before {quiet:?}, after {:?}, upstream {upstream}", measured(&house)))
}

fn calls(house: &House, ca: &str, id: &str, run: &Claimed) -> Result<()> {
    let sentinel = &run.spec.sentinels.first().context("no sentinel")?.access;
    for number in 0..CALLS {
        let tunnel = Tunnel::connect(&house.door(id), run.token(), &format!("{HOST}:443"))?;
        let headers = format!("Authorization: Bearer {sentinel}\r\nX-Box: {id}\r\nConnection: close\r\n");
        let answer = tunnel.tls(ca, HOST)?.ask(&post(HOST, PATH, &headers, "{}"))?;
        ensure!(answer.status == 200 && answer.complete, "call {number} of {id}: {answer:?}");
    }
    Ok(())
}

fn each_under_its_own_run(house: &House, boxes: &[String], runs: &[Claimed]) -> Result<()> {
    let ledger = house.ledger()?;
    for (id, run) in boxes.iter().zip(runs) {
        let of = |kind: &str| {
            let own = |line: &&serde_json::Value| line["kind"] == kind && line["box"] == id.as_str();
            ledger.iter().filter(own).filter(|line| line["run"] == run.spec.run.as_str()).count()
        };
        ensure!(
            (of("tunnel"), of("request")) == (CALLS, CALLS),
            "{id}: {} tunnels, {} requests",
            of("tunnel"),
            of("request")
        );
    }
    let refused = ledger.iter().filter(|line| line["verdict"] == "refuse").count();
    ensure!(refused == 0, "{refused} refusals");
    let reports = ledger.iter().filter(|line| line["kind"] == "request").count();
    ensure!(reports == BOXES * CALLS, "{reports} requests in the ledger");
    Ok(())
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    connections: u64,
    tasks: usize,
    files: usize,
}

fn measured(house: &House) -> Result<Measured> {
    let status = house.status()?;
    let number = |key: &str| status[key].as_u64().with_context(|| format!("no {key} in {status}"));
    let pid = house.pid().context("no gateway")?;
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count();
    Ok(Measured { connections: number("connections")?, tasks: usize::try_from(number("tasks")?)?, files })
}

const BOXES: usize = 20;
const CALLS: usize = 10;
const HOST: &str = "chatgpt.com";
const PATH: &str = "/backend-api/codex/responses";
