//! Every agent, every credential that it can use, every transport: the real CLI takes the stand-in for real.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::{Agent, Provider};
use harness::{Bare, Case, Need, Tools, case};
use standin::{Fault, Options, Packing, Real, Rule, Seen, StandIn};

pub(crate) const CASES: &[Case] = &[
    case("bare::claude_with_a_login", || talks(Agent::Claude, Provider::Anthropic, &login(), Over::Sse)).needs(CLAUDE),
    case("bare::claude_with_a_key", || talks(Agent::Claude, Provider::Anthropic, &key(), Over::Sse)).needs(CLAUDE),
    case("bare::codex_with_a_login_by_websocket", || {
        talks(Agent::Codex, Provider::OpenaiCodex, &chatgpt(), Over::WebSocket)
    })
    .needs(CODEX),
    case("bare::codex_with_a_login_by_sse", || talks(Agent::Codex, Provider::OpenaiCodex, &chatgpt(), Over::Sse))
        .needs(CODEX),
    case("bare::codex_with_a_key_by_websocket", || talks(Agent::Codex, Provider::Openai, &openai(), Over::WebSocket))
        .needs(CODEX),
    case("bare::codex_with_a_key_by_sse", || talks(Agent::Codex, Provider::Openai, &openai(), Over::Sse)).needs(CODEX),
    case("bare::pi_with_a_login_at_anthropic", || talks(Agent::Pi, Provider::Anthropic, &login(), Over::Sse)).needs(PI),
    case("bare::pi_with_a_key_of_anthropic", || talks(Agent::Pi, Provider::Anthropic, &key(), Over::Sse)).needs(PI),
    case("bare::pi_with_a_login_at_chatgpt_by_websocket", || {
        talks(Agent::Pi, Provider::OpenaiCodex, &chatgpt(), Over::WebSocket)
    })
    .needs(PI),
    case("bare::pi_with_a_login_at_chatgpt_by_sse", || talks(Agent::Pi, Provider::OpenaiCodex, &chatgpt(), Over::Sse))
        .needs(PI),
    case("bare::pi_with_a_key_of_openai", || talks(Agent::Pi, Provider::Openai, &openai(), Over::Sse)).needs(PI),
    case("bare::packed_answers_are_read", packed).needs(ALL),
    case("bare::codex_asks_no_model_with_another_account", another_account).needs(CODEX),
    case("bare::another_credential_is_answered_by_no_model", another_credential).needs(ALL).waiting(),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Over {
    Sse,
    WebSocket,
}

/// A plain answer; then a shell call, a call of the user's own MCP server, and an answer.
fn talks(agent: Agent, provider: Provider, real: &Real, over: Over) -> Result<()> {
    let websocket = over == Over::WebSocket;
    let standin = StandIn::start(Options { real: vec![real.clone()], websocket, ..Options::default() })?;
    let ran = Bare::of(agent, provider, &standin, real, "say <<drip:1>><<text:hello>>")?.run(LONG)?.expect_code(0)?;
    let said = ran.said(agent)?;
    ensure!(said.text == "0 hello" && !said.failed, "{said:?}: {}", ran.text());
    calls(&standin, over, 1)?;

    standin.forget();
    let prompt = "<<sh:echo changed > made.txt>><<mcp:echo {\"text\":\"back\"}>><<text:made>>";
    let bare = Bare::of(agent, provider, &standin, real, prompt)?;
    let log = bare.workspace().join("echo.log");
    let bare = bare.mcp(&Tools::mcp_echo()?, &log)?;
    let ran = bare.run(LONG)?.expect_code(0)?;
    let said = ran.said(agent)?;
    ensure!(said.text == "made" && !said.failed, "{said:?}: {}", ran.text());
    ensure!(std::fs::read_to_string(bare.workspace().join("made.txt"))? == "changed\n", "the file is another");
    let log = std::fs::read_to_string(log).context("read what the MCP server was sent")?;
    ensure!(log.contains("tools/call") && log.contains("back"), "{log}");
    calls(&standin, over, 3)
}

/// So many calls of the model, all by this transport, each with the real credential alone.
fn calls(standin: &StandIn, over: Over, count: usize) -> Result<()> {
    let calls = standin.model_calls();
    let method = if over == Over::WebSocket { "WS" } else { "POST" };
    let told: Vec<_> = standin.seen().iter().map(told).collect();
    ensure!(calls.len() == count && calls.iter().all(|seen| seen.method == method), "{told:#?}");
    ensure!(calls.iter().all(|seen| seen.real && seen.complete && seen.answered == Some(200)), "{told:#?}");
    // Where the agents pack what they post: the stand-in must have unpacked it.
    let packs = over == Over::Sse && calls.iter().all(|seen| seen.path.starts_with("/backend-api/"));
    let packed = calls.iter().all(|seen| seen.header("content-encoding") == ["zstd"] && seen.text().starts_with('{'));
    ensure!(!packs || packed, "{told:#?}");
    Ok(())
}

/// In every packing that the agent says it reads.
fn packed() -> Result<()> {
    let (all, codexs) = ([Packing::Gzip, Packing::Brotli, Packing::Zstd], [Packing::Gzip, Packing::Zstd]);
    for (agent, provider, real, packings) in [
        (Agent::Claude, Provider::Anthropic, login(), &all[..]),
        (Agent::Codex, Provider::OpenaiCodex, chatgpt(), &codexs[..]),
        (Agent::Pi, Provider::OpenaiCodex, chatgpt(), &all[..]),
    ] {
        for packing in packings {
            let standin = StandIn::start(Options { real: vec![real.clone()], websocket: false, ..Options::default() })?;
            standin.rules(vec![Rule::new("", Fault::Packed(*packing)).on("POST")]);
            let ran = Bare::of(agent, provider, &standin, &real, "<<text:unpacked>>")?.run(LONG)?.expect_code(0)?;
            let said = ran.said(agent)?;
            ensure!(said.text == "unpacked" && !said.failed, "{agent} {packing:?}: {said:?} {}", ran.text());
        }
    }
    Ok(())
}

fn another_account() -> Result<()> {
    let standin = StandIn::start(Options { real: vec![chatgpt()], ..Options::default() })?;
    let token = chatgpt().value().to_owned();
    let other = Real::Login { token, account: "account-of-another".into() };
    let ran = Bare::of(Agent::Codex, Provider::OpenaiCodex, &standin, &other, "hello")?.run(LONG)?.expect_code(1)?;
    ensure!(ran.said(Agent::Codex)?.failed, "{}", ran.text());
    ensure!(standin.model_calls().is_empty() && standin.seen().iter().all(|seen| !seen.real), "{:?}", standin.seen());
    Ok(())
}

/// The stand-in takes the real credential only, whoever comes with another.
fn another_credential() -> Result<()> {
    for (agent, provider, other) in [
        (Agent::Codex, Provider::Openai, Real::ApiKey("sk-proj-another".into())),
        (Agent::Pi, Provider::Openai, Real::ApiKey("sk-proj-another".into())),
        (Agent::Pi, Provider::Anthropic, Real::Bearer("sk-ant-oat01-another".into())),
        // pi takes the account out of the token, whatever stands beside it.
        (Agent::Pi, Provider::OpenaiCodex, Real::chatgpt("account-of-another", "another")),
    ] {
        let real = vec![login(), openai(), chatgpt()];
        let standin = StandIn::start(Options { real, ..Options::default() })?;
        let ran = Bare::of(agent, provider, &standin, &other, "hello")?.run(LONG)?;
        let said = ran.said(agent)?;
        let told = ["401", "no real credential"].iter().any(|why| said.text.contains(why));
        ensure!(said.failed && told, "{agent} {provider}: {said:?}");
        let seen = standin.seen();
        ensure!(!seen.is_empty() && seen.iter().all(|seen| !seen.real && seen.answered != Some(200)), "{seen:?}");
    }
    Ok(())
}

fn told(seen: &Seen) -> String {
    format!("{} {} {:?} real {} complete {}", seen.method, seen.path, seen.answered, seen.real, seen.complete)
}

fn login() -> Real {
    Real::Bearer("sk-ant-oat01-REAL-bare".into())
}

fn key() -> Real {
    Real::ApiKey("sk-ant-api03-REAL-bare".into())
}

fn openai() -> Real {
    Real::ApiKey("sk-proj-REAL-bare".into())
}

fn chatgpt() -> Real {
    Real::chatgpt("account-real", "REAL-bare")
}

const CLAUDE: &[Need] = &[Need::Agent];
const CODEX: &[Need] = &[Need::Codex];
const PI: &[Need] = &[Need::Pi];
const ALL: &[Need] = &[Need::Agent, Need::Codex, Need::Pi];
const LONG: Duration = Duration::from_secs(60);
