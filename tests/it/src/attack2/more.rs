//! Where ceiling, drain and clock meet, and what a caller's environment brings into the box.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::fakes::{FakeAgents, result_event};
use harness::{BoxRun, Case, Claimed, House, Need, case};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standin::{Fault, Real, Rule, Then};

use super::wire;

pub(crate) const CASES: &[Case] = &[
    case("attack2::a_house_that_goes_down_still_cuts_at_the_ceiling", ceiling_in_drain).needs(&[Need::Gateway]),
    case("attack2::no_setting_of_an_agent_brings_a_credential_or_a_way_around", settings).needs(&[
        Need::Gateway,
        Need::Boxd,
        Need::Namespaces,
    ]),
    case("attack2::an_answer_of_two_lengths_ends_where_its_chunks_do", two_lengths).needs(&[Need::Gateway]),
];

/// The answer drips on for longer than the ceiling while the house waits for it to end.
fn ceiling_in_drain() -> Result<()> {
    let (standin, house) = wire::house_of(House::builder().ceiling("3s"))?;
    let began = Instant::now();
    let claimed = Claimed::take(&house.door("one"))?;
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n".to_vec();
    let drips = (0..40).map(|_| (Duration::from_millis(250), b"x".to_vec()));
    let pieces = std::iter::once((Duration::ZERO, head)).chain(drips).collect();
    standin.rules(vec![Rule::new("", Fault::Raw { pieces, then: Then::Close })]);
    let mut inside = wire::tunnel(&house, &claimed)?;
    inside.send(wire::count_tokens("").as_bytes())?;
    standin.wait_seen(1, Duration::from_secs(5))?;
    kill(Pid::from_raw(house.pid().context("no gateway")?), Signal::SIGTERM)?;
    let mut told = 0;
    while let Ok(piece) = inside.piece() {
        if piece.is_empty() {
            break;
        }
        told += piece.len();
    }
    let lasted = began.elapsed();
    ensure!(told > 0 && lasted > Duration::from_millis(2500), "cut too early, after {lasted:?}: nothing was tried");
    ensure!(lasted < Duration::from_secs(5), "the answer went on for {lasted:?} under a ceiling of 3 s");
    Ok(())
}

/// The agents' own settings are kept in every box; those among them that are secrets or lead elsewhere are not.
fn settings() -> Result<()> {
    let house = House::builder().open_network().secret(Real::ApiKey(KEY.into())).start()?;
    let fakes = FakeAgents::shell(&format!("env; echo '{}'", result_event("told")))?;
    let plain = BoxRun::new(&house, "one")?.prompt("hi").agents(fakes.folder());
    for launch in [plain.clone().isolated(), plain] {
        let launch = STRAY.iter().fold(launch, |launch, name| launch.env(name, "STRAY-VALUE"));
        let launch = KEPT.iter().fold(launch, |launch, name| launch.env(name, "31337"));
        let told = launch.run(Duration::from_secs(30))?.expect_code(0)?.text();
        let found: Vec<&str> = told.lines().filter(|line| line.contains("STRAY-VALUE")).collect();
        ensure!(found.is_empty(), "in the box: {found:?}");
        for name in KEPT {
            ensure!(told.contains(&format!("{name}=31337")), "{name} is gone: {told}");
        }
    }
    Ok(())
}

fn two_lengths() -> Result<()> {
    let (standin, house) = wire::house()?;
    let claimed = Claimed::take(&house.door("one"))?;
    for length in [3, 90] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabcHTTP/1\r\n0\r\n\r\n"
        );
        let pieces = vec![(Duration::ZERO, answer.into_bytes())];
        standin.rules(vec![Rule::new("", Fault::Raw { pieces, then: Then::Close })]);
        let answer = wire::tunnel(&house, &claimed)?.ask(wire::count_tokens("Connection: close\r\n").as_bytes())?;
        ensure!(answer.body == b"abcHTTP/1" && answer.complete, "said to be {length} long: {answer:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

const KEY: &str = "sk-ant-api03-REAL-KEY-of-more-9e";
const STRAY: [&str; 15] = [
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CLAUDE_CODE_GATEWAY_TOKEN",
    "CLAUDE_CODE_HFI_BEARER_TOKEN",
    "CLAUDE_CODE_CLIENT_KEY",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
    "CLAUDE_CODE_HOST_CREDS_FILE",
    "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR",
    "CLAUDE_CODE_HTTPS_PROXY",
    "CLAUDE_CODE_PROXY_URL",
    "CLAUDE_CODE_API_BASE_URL",
    "CLAUDE_CODE_CUSTOM_OAUTH_URL",
    "CLAUDE_CODE_RUNNER_MODEL_SOCKET",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CODEX_GITHUB_PERSONAL_ACCESS_TOKEN",
    "PI_SOME_SECRET",
];
const KEPT: [&str; 3] =
    ["CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_IDLE_TOKEN_THRESHOLD", "CLAUDE_CODE_OAUTH_401_WAIT_MS"];
