//! Playing a cell: the house, the box, the event; and the same without boxgate where the two must be alike.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::{BoxRun, House, Ran, Running, Tools, until, wrapped};
use standin::StandIn;

use super::event::{Event, Refusal};
use super::expect::{self, Expected};
use super::judge;
use super::seat::{Seat, Transport};
use super::table;
use super::tool;

/// What can be compared between a boxed run and a bare one.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    pub(super) code: Option<i32>,
    pub(super) failed: Option<bool>,
    pub(super) text: String,
    /// At the model's route, WebSocket handshakes among them.
    pub(super) requests: usize,
    /// What was asked over WebSockets.
    pub(super) messages: usize,
}

pub(super) fn play(seat: &'static Seat, event: Event) -> Result<()> {
    let expected = expect::expected(seat, event).context("there is no such cell")?;
    if !event.is_compared() {
        return boxed(seat, event, &expected).map(drop);
    }
    let (bare, boxed) = std::thread::scope(|scope| {
        let bare = scope.spawn(|| bare(seat, event).context("bare"));
        let boxed = boxed(seat, event, &expected);
        (bare.join(), boxed)
    });
    let bare = bare.map_err(|_| anyhow::anyhow!("the bare run panicked"))?;
    let (mut bare, boxed) = (bare?, boxed?);
    if matches!(event, Event::Signal(_)) {
        // A race within the agent itself: it tells an end or not, by how far it had read when the signal came.
        bare.failed = boxed.failed;
    }
    ensure!(boxed == bare, "in the box {boxed:?}, bare {bare:?}");
    Ok(())
}

fn boxed(seat: &Seat, event: Event, expected: &Expected) -> Result<Outcome> {
    let standin = seat.standin()?;
    standin.rules(event.rules(seat));
    let house = house(seat, event, &standin)?;
    let agents = agents(seat, event)?;
    let launch = launch(seat, event, &house, agents.as_ref())?;
    let running = launch.start()?;
    meanwhile(seat, event, &running, &standin, Some(&house)).with_context(|| running.stderr())?;
    let ran = running.wait(LONG)?;
    let outcome = outcome(seat, &ran, &standin);
    table::add(seat, event, &outcome, &ran)?;
    if event.is_refusal() {
        let waited = if event == Event::Refused(Refusal::NoSecret) { LATE } else { 0 };
        let took = ran.took.saturating_sub(Duration::from_secs(waited.into()));
        ensure!(took < SOON_ENOUGH, "a refusal ended it after {took:?} only\n{}", ran.stderr);
    }
    judge::expected(&outcome, expected, &ran)?;
    judge::always(seat, &launch, &ran, &standin, &house, expected)?;
    judge::event(event, seat, &launch, &standin, &house)?;
    Ok(outcome)
}

fn house(seat: &Seat, event: Event, standin: &StandIn) -> Result<House> {
    match event {
        Event::Ceiling => seat.house(standin).ceiling("10s").start(),
        Event::Refused(Refusal::NoGrant) => seat.ungranting_house().start(),
        Event::Refused(Refusal::Untrusted) => {
            let foreign = seat.standin()?;
            let name = format!("standin-{}-ca.pem", seat.provider);
            seat.house(standin).file(&name, foreign.ca_pem().as_bytes()).start()
        }
        _ => seat.house(standin).start(),
    }
}

/// What the box is to find in the place of the agent's own tree.
fn agents(seat: &Seat, event: Event) -> Result<Option<FakeAgents>> {
    match event {
        Event::Expired => wrapped::expired(seat.agent).map(Some),
        Event::Refused(Refusal::NoSecret) => wrapped::late(seat.agent, LATE).map(Some),
        _ => Ok(None),
    }
}

fn launch(seat: &Seat, event: Event, house: &House, agents: Option<&FakeAgents>) -> Result<BoxRun> {
    let mut launch = seat.launch(house)?;
    if let Some(agents) = agents {
        launch = launch.agents(agents.folder()).more_agents(&Tools::agents());
    }
    match event {
        Event::LongPrompt => launch.long_prompt(&event.prompt(seat)),
        Event::Mcp => Ok(tool::with(launch, seat.agent)?.prompt(&event.prompt(seat))),
        _ => Ok(launch.prompt(&event.prompt(seat))),
    }
}

fn bare(seat: &Seat, event: Event) -> Result<Outcome> {
    let standin = seat.standin()?;
    standin.rules(event.rules(seat));
    let bare = seat.bare(&standin, &event.prompt(seat))?;
    let running = bare.start()?;
    meanwhile(seat, event, &running, &standin, None)?;
    let ran = running.wait(LONG)?;
    Ok(outcome(seat, &ran, &standin))
}

/// What is done while the agent runs.
fn meanwhile(seat: &Seat, event: Event, running: &Running, standin: &StandIn, house: Option<&House>) -> Result<()> {
    match (event, house) {
        (Event::Signal(signal), _) => {
            let wanted = if seat.transport == Transport::WebSocket { (1, 1) } else { (1, 0) };
            until("the model to be asked", SOON, || (asked(seat, standin) >= wanted).then_some(()))?;
            // The request is there; the agent is to have read the head of the answer, too.
            std::thread::sleep(Duration::from_millis(500));
            running.signal(signal)
        }
        (Event::Refused(Refusal::NoSecret), Some(house)) => {
            house.wait_line("the attestation", |line| line["kind"] == "attested")?;
            std::fs::remove_file(house.secret_of(seat.provider)).context("take the secret away")
        }
        _ => Ok(()),
    }
}

/// Requests at the model's route, and messages over WebSockets there. A stand-in that refuses WebSockets as a house does is not asked.
pub(crate) fn asked(seat: &Seat, standin: &StandIn) -> (usize, usize) {
    let seen = standin.seen();
    let there = seen.iter().filter(|seen| seen.path.starts_with(seat.model_path()) && seen.answered != Some(426));
    let (messages, requests): (Vec<_>, Vec<_>) = there.partition(|seen| seen.method == "WS");
    (requests.len(), messages.iter().filter(|message| message.model).count())
}

fn outcome(seat: &Seat, ran: &Ran, standin: &StandIn) -> Outcome {
    let said = ran.said(seat.agent).ok();
    // A shell reports a death by signal so.
    let code = ran.code.or_else(|| ran.signal.map(|signal| 128 + signal));
    let (requests, messages) = asked(seat, standin);
    let (failed, text) = said.map(|said| (Some(said.failed), said.text)).unwrap_or_default();
    Outcome { code, failed, text, requests, messages }
}

/// Seconds between the claim and the agent's start where something is done in between.
const LATE: u32 = 2;
const SOON_ENOUGH: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(180);
