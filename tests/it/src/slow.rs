//! Full-length runs of the stock claude with all its own retries, bare and in the box: minutes each, so only `cargo xtask agents --slow` runs them.
//! Each prints its row of the table in `docs/agents.md`.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use harness::{Bare, BoxRun, Case, House, Need, Ran, case};
use standin::{Answer, Beat, Fault, Options, Real, Rule, StandIn};

pub(crate) const CASES: &[Case] = &[
    case("slow::claude_429_for_ever", || same("429 for ever", &Event::status(429))).needs(ALL).slow(),
    case("slow::claude_500_for_ever", || same("500 for ever", &Event::status(500))).needs(ALL).slow(),
    case("slow::claude_529_for_ever", || same("529 for ever", &Event::status(529))).needs(ALL).slow(),
    case("slow::claude_a_stream_falls_silent", || same("a stream falls silent", &Event::Silence)).needs(ALL).slow(),
    case("slow::claude_no_answer_at_all", || same("no answer at all", &Event::Hang)).needs(ALL).slow(),
    case("slow::claude_our_refusals", refusals).needs(ALL).slow(),
    case("slow::claude_our_transient_refusals", transient).needs(ALL).slow(),
];

/// What the upstream does.
enum Event {
    Rule(Rule),
    /// The first answer's stream says nothing after its first events.
    Silence,
    /// The first request gets no answer.
    Hang,
}

/// How a run went. Times are told, not compared.
struct Outcome {
    code: Option<i32>,
    failed: bool,
    text: String,
    requests: usize,
    took: Duration,
}

/// The same run bare and in the box, side by side, each with a stand-in of its own.
fn same(what: &str, event: &Event) -> Result<()> {
    let (bare, boxed) = std::thread::scope(|scope| {
        let bare = scope.spawn(|| bare(event));
        let boxed = boxed(event);
        (bare.join().unwrap_or_else(|_| Err(anyhow!("the bare run panicked"))), boxed)
    });
    let (bare, boxed) = (bare.context("bare")?, boxed.context("boxed")?);
    row(what, &bare.to_string(), &boxed.to_string());
    ensure!(boxed.compared() == bare.compared(), "{what}: boxed {:?}, bare {:?}", boxed.compared(), bare.compared());
    Ok(())
}

fn bare(event: &Event) -> Result<Outcome> {
    let standin = standin(event)?;
    Outcome::of(&Bare::new(&standin, &login(), PROMPT)?.run(LONG)?, &standin)
}

fn boxed(event: &Event) -> Result<Outcome> {
    let standin = standin(event)?;
    let house = House::builder().model_at(&standin, login()).ceiling(CEILING).start()?;
    Outcome::of(&in_box(&house)?, &standin)
}

/// Final refusals: each ends the run within seconds, and says why.
fn refusals() -> Result<()> {
    let refused = |reason: &str, house: &House, said: &str| {
        let ran = in_box(house)?;
        let result = ran.result()?;
        let text = result["result"].as_str().unwrap_or_default();
        let told = format!("exit {}, {:.1} s", Code(ran.code), ran.took.as_secs_f64());
        row(&format!("`{reason}`, told as 400"), "", &told);
        ensure!(ran.code == Some(1) && text.contains(said), "{reason}: {:?} {text}", ran.code);
        // All of claude's retries would take three minutes.
        ensure!(ran.took < Duration::from_secs(60), "{reason}: {:?}", ran.took);
        let refusals = house.ledger()?.iter().filter(|line| line["reason"] == reason).count();
        ensure!(refusals == 1, "{reason}: refused {refusals} times, so it was tried again");
        Ok(())
    };
    let ungranted = House::builder().secret(login()).start()?;
    refused("no-grant", &ungranted, "no grant")?;

    let standin = standin(&Event::status(401))?;
    let house = House::builder().model_at(&standin, login()).start()?;
    refused("credential-rejected", &house, "outage")?;

    let foreign = StandIn::start(Options { real: vec![login()], ..Options::default() })?;
    let untrusting = House::builder().file("other.pem", foreign.ca_pem().as_bytes()).secret(login());
    let grant = format!("unsafe_dial = \"{}\"\nupstream_ca = \"other.pem\"", standin.address());
    let house = untrusting.grant(&format!("{MODEL}{grant}")).start()?;
    refused("upstream-untrusted", &house, "certificate")
}

/// A refusal that may pass by itself keeps its status, and the agent its retries.
fn transient() -> Result<()> {
    let house = House::builder()
        .secret(login())
        .ceiling(CEILING)
        .grant(&format!("{MODEL}unsafe_dial = \"127.0.0.1:1\""))
        .start()?;
    let ran = in_box(&house)?;
    let refused = house.ledger()?.iter().filter(|line| line["reason"] == "upstream-unreachable").count();
    let told = format!("exit {}, {:.0} s", Code(ran.code), ran.took.as_secs_f64());
    row("`upstream-unreachable`, told as 502", "", &told);
    ensure!(ran.code == Some(1) && ran.took > Duration::from_secs(60), "{told}: {}", ran.text());
    ensure!(refused >= 1, "no line says that the upstream is unreachable");
    Ok(())
}

impl Event {
    fn status(status: u16) -> Self {
        Self::Rule(Rule::status("/v1/messages", status))
    }
}

impl Outcome {
    fn of(ran: &Ran, standin: &StandIn) -> Result<Self> {
        let result = ran.result()?;
        let text = result["result"].as_str().unwrap_or_default().to_owned();
        let failed = result["is_error"] == true;
        Ok(Self { code: ran.code, failed, text, requests: standin.seen().len(), took: ran.took })
    }

    fn compared(&self) -> (Option<i32>, bool, &str, usize) {
        (self.code, self.failed, &self.text, self.requests)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}, {} requests, {:.0} s", Code(self.code), self.requests, self.took.as_secs_f64())
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
fn row(event: &str, bare: &str, boxed: &str) {
    println!("\n| claude | {event} | {bare} | {boxed} |");
}

fn in_box(house: &House) -> Result<Ran> {
    BoxRun::new(house, "one")?.isolated().prompt(PROMPT).output("native").run(LONG)
}

fn standin(event: &Event) -> Result<StandIn> {
    let standin = StandIn::start(Options { real: vec![login()], ..Options::default() })?;
    match event {
        Event::Rule(rule) => standin.rules(vec![rule.clone()]),
        Event::Silence => standin.script(vec![Answer(vec![Beat::Silence(LONG), Beat::Text("never".into())])]),
        Event::Hang => standin.rules(vec![Rule::new("/v1/messages", Fault::Hang(LONG)).times(1)]),
    }
    Ok(standin)
}

fn login() -> Real {
    Real::Bearer("sk-ant-oat01-REAL-of-slow".into())
}

const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces];
const PROMPT: &str = "hello <<text:after all>>";
/// claude gives a request up after ten minutes.
const LONG: Duration = Duration::from_secs(1200);
/// Beyond all that is measured.
const CEILING: &str = "30m";
const MODEL: &str = "name = \"model\"\npreset = \"anthropic\"\nsecret = \"anthropic\"\n";
