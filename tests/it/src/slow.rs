//! Full-length runs, with all of an agent's own retries and patience, bare and in the box: minutes each, so only
//! `cargo xtask agents --slow` runs them. Each prints its row of the table in `docs/agents.md`.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use box_spec::Agent;
use harness::{BoxRun, Case, House, Need, Ran, made};
use standin::{Answer, Beat, Fault, Rule, StandIn};

use crate::matrix::play::asked;
use crate::matrix::seat::{SEATS, Seat};
use crate::matrix::table;

/// A case for each agent on each transport and each event.
pub(crate) fn cases() -> Vec<Case> {
    let seats = SEATS.iter().filter(|seat| SHOWN.contains(&seat.name));
    let cells = seats.flat_map(|seat| Event::ALL.into_iter().map(move |event| (seat, event)));
    // The other agents' retries are short enough for the matrix.
    let cells = cells.filter(|(seat, event)| seat.agent == Agent::Claude || !matches!(event, Event::Status(_)));
    let case = |(seat, event): (&'static Seat, Event)| {
        let name = format!("slow::{}::{}", seat.name, event.name());
        made(name, move || if event == Event::Unreachable { unreachable(seat) } else { same(seat, event) })
            .needs(ALL)
            .slow()
    };
    cells.map(case).collect()
}

/// What the upstream does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    /// For ever.
    Status(u16),
    /// The first answer's stream says nothing after its first events.
    Silence,
    /// The first request gets no answer, until the upstream closes.
    NoAnswer,
    /// Nobody is there.
    Unreachable,
}

/// How a run went. Times are told, not compared.
struct Outcome {
    code: Option<i32>,
    failed: Option<bool>,
    text: String,
    requests: usize,
    messages: usize,
    took: Duration,
}

/// The same run bare and in the box, side by side, each with a stand-in of its own.
fn same(seat: &Seat, event: Event) -> Result<()> {
    let (bare, boxed) = std::thread::scope(|scope| {
        let bare = scope.spawn(|| bare(seat, event));
        let boxed = boxed(seat, event);
        (bare.join().unwrap_or_else(|_| Err(anyhow!("the bare run panicked"))), boxed)
    });
    let (bare, boxed) = (bare.context("bare")?, boxed.context("boxed")?);
    row(seat, event, &bare.to_string(), &boxed.to_string());
    ensure!(boxed.compared() == bare.compared(), "boxed {:?}, bare {:?}", boxed.compared(), bare.compared());
    Ok(())
}

fn bare(seat: &Seat, event: Event) -> Result<Outcome> {
    let standin = standin(seat, event)?;
    let ran = seat.patient_bare(&standin, PROMPT)?.run(LONG)?;
    Ok(Outcome::of(seat, &ran, &standin))
}

fn boxed(seat: &Seat, event: Event) -> Result<Outcome> {
    let standin = standin(seat, event)?;
    let house = seat.house(&standin).ceiling(CEILING).start()?;
    Ok(Outcome::of(seat, &in_box(seat, &house)?, &standin))
}

/// A refusal that may pass by itself keeps its status, and the agent its retries; in the end it fails and says why.
fn unreachable(seat: &Seat) -> Result<()> {
    let standin = seat.standin()?;
    let house = seat.house(&standin).ceiling(CEILING).start()?;
    standin.stop();
    let ran = in_box(seat, &house)?;
    let said = ran.said(seat.agent)?;
    let tried = house.ledger()?.iter().filter(|line| line["reason"] == "upstream-unreachable").count();
    let told = format!("exit {}, {tried} requests, {:.0} s", Code(ran.code), ran.took.as_secs_f64());
    row(seat, Event::Unreachable, "", &told);
    ensure!(said.failed && said.text.contains("upstream-unreachable"), "{told}: {}", said.text);
    ensure!(ran.code == Some(if seat.agent == Agent::Pi { 0 } else { 1 }) && tried > 1, "{told}: {}", ran.stderr);
    Ok(())
}

impl Event {
    const ALL: [Self; 6] =
        [Self::Status(429), Self::Status(500), Self::Status(529), Self::Silence, Self::NoAnswer, Self::Unreachable];

    fn name(self) -> String {
        match self {
            Self::Status(status) => format!("{status}_for_ever"),
            Self::Silence => "a_stream_falls_silent".into(),
            Self::NoAnswer => "no_answer_to_the_first_request".into(),
            Self::Unreachable => "nobody_is_there".into(),
        }
    }
}

impl Outcome {
    fn of(seat: &Seat, ran: &Ran, standin: &StandIn) -> Self {
        let said = ran.said(seat.agent).ok();
        let (failed, text) = said.map(|said| (Some(said.failed), said.text)).unwrap_or_default();
        let (requests, messages) = asked(seat, standin);
        Self { code: ran.code, failed, text, requests, messages, took: ran.took }
    }

    fn compared(&self) -> (Option<i32>, Option<bool>, &str, usize, usize) {
        (self.code, self.failed, &self.text, self.requests, self.messages)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = table::asked(self.requests, self.messages);
        write!(f, "exit {}, {asked} requests, {:.0} s", Code(self.code), self.took.as_secs_f64())
    }
}

struct Code(Option<i32>);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(code) => write!(f, "{code}"),
            None => f.write_str("by a signal"),
        }
    }
}

#[expect(clippy::print_stdout, reason = "the task that runs these collects the rows")]
fn row(seat: &Seat, event: Event, bare: &str, boxed: &str) {
    println!("\n| {} | {} | {bare} | {boxed} |", seat.name, event.name().replace('_', " "));
}

fn in_box(seat: &Seat, house: &House) -> Result<Ran> {
    BoxRun::new(house, "one")?.isolated().agent(seat.agent.as_str()).prompt(PROMPT).run(LONG)
}

fn standin(seat: &Seat, event: Event) -> Result<StandIn> {
    let standin = seat.standin()?;
    match event {
        Event::Status(status) => standin.rules(vec![seat.rule(Rule::status(seat.model_path(), status).fault)]),
        Event::Silence => standin.script(vec![Answer(vec![Beat::Silence(LONG), Beat::Text("never".into())])]),
        Event::NoAnswer => standin.rules(vec![seat.rule(Fault::Hang(UNANSWERED)).times(1)]),
        Event::Unreachable => {}
    }
    Ok(standin)
}

/// One seat for each agent and transport.
const SHOWN: [&str; 6] = [
    "claude_login",
    "codex_login_websocket",
    "codex_login_events",
    "pi_anthropic_login",
    "pi_codex_websocket",
    "pi_codex_events",
];
const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Codex, Need::Pi, Need::Namespaces];
const PROMPT: &str = "hello <<text:after all>>";
/// Longer than claude and pi wait; codex waits for ever.
const UNANSWERED: Duration = Duration::from_secs(400);
/// claude gives a request up after ten minutes.
const LONG: Duration = Duration::from_secs(1200);
/// Beyond all that is measured.
const CEILING: &str = "30m";
