//! Providers: the logins and keys of OpenAI at the real gateway, and what of their traffic never leaves the house.

mod local;
mod refused;

use anyhow::{Context, Result, ensure};
use box_spec::wire::SENTINEL_ACCOUNT;
use box_spec::{Agent, Claim, Provider};
use harness::claim::Answer;
use harness::{Case, Claimed, House, HouseBuilder, case};
use standin::{Options, Real, StandIn};

use super::base::{GATEWAY, REAL, Wire, get, holds, only, post};

pub(super) const CASES: &[Case] = &[
    case("wire::r86_a_chatgpt_login_is_sent_with_its_account", with_its_account).needs(GATEWAY),
    case("wire::r86_a_key_of_openai_is_a_bearer_and_names_no_account", key).needs(GATEWAY),
    case("wire::r86_a_login_that_names_no_account_is_64", nameless).needs(GATEWAY),
    case("wire::r114_an_agent_needs_one_of_its_providers", claims).needs(GATEWAY),
    case("wire::r94_a_refresh_at_openai_is_answered_here", local::refresh).needs(GATEWAY),
    case("wire::r166_side_calls_are_answered_here_whatever_is_granted", local::side_calls).needs(GATEWAY),
    case("wire::r94_no_durable_credential_is_made_at_openai", local::durable).needs(GATEWAY),
    case("wire::r98_each_provider_is_refused_in_its_own_shape", refused::shapes).needs(GATEWAY),
    case("wire::r87_a_login_without_its_file_or_account_is_an_outage", refused::outage).needs(GATEWAY),
    case("wire::r85_a_rejected_login_is_an_outage_of_the_house", refused::rejected).needs(GATEWAY),
    case("wire::r85_a_login_that_is_a_jwt_is_known_by_any_of_its_parts", refused::astray).needs(GATEWAY),
];

fn with_its_account() -> Result<()> {
    for (login, is_told) in [(jwt(), false), (jwt(), true), (opaque(), true)] {
        let wire = start(&login, is_told, |house, _| house)?;
        wire.answer_all();
        let own = wire.sentinel_of(Provider::OpenaiCodex)?;
        for headers in [
            String::new(),
            format!("Authorization: Bearer {own}\r\n"),
            format!("authorization: Bearer {own}\r\nchatgpt-account-id: {SENTINEL_ACCOUNT}\r\n"),
            format!("Authorization: Bearer {own}\r\nChatGPT-Account-Id: {OTHER}\r\nCHATGPT-ACCOUNT-ID: {OTHER}\r\n"),
            format!("Authorization: Bearer {OTHER}\r\nchatgpt_account_id: {OTHER}\r\nChatGPT-Account_ID: {OTHER}\r\n"),
            format!("Connection: chatgpt-account-id, authorization\r\nx-api-key: {OTHER}\r\nCookie: a={OTHER}\r\n"),
        ] {
            carried(&wire, &login, &post(CHATGPT, CODEX_PATH, &headers, "{}"))?;
            carried(&wire, &login, &get(CHATGPT, CODEX_PATH, &format!("{HANDSHAKE}{}", without_connection(&headers))))?;
            ensure!(!holds(&wire.upstream(), &own), "{headers:?}: a sentinel went out");
        }
        let (opened, closed) = wire.closed(CODEX_PATH)?;
        ensure!(opened["grant"] == "model-openai-codex" && opened["verdict"] == "allow", "{opened}");
        ensure!(closed["injected"] == serde_json::json!(["authorization", "chatgpt-account-id"]), "{closed}");
        let ledger = std::fs::read(wire.house.ledger_file())?;
        ensure!(!holds(&ledger, login.value()) && !holds(&ledger, OTHER), "the ledger holds a value");
    }
    Ok(())
}

/// Whether what the box asked for went out with the real login, its account, and nothing of the box's own.
fn carried(wire: &Wire, login: &Real, request: &[u8]) -> Result<()> {
    wire.standin.forget();
    let asked = String::from_utf8_lossy(request);
    let answer = wire.inside(CHATGPT)?.ask(request)?;
    ensure!(answer.status == 200, "{asked}: {answer:?}");
    let seen = only(&wire.standin)?;
    ensure!(seen.real, "{asked}: {seen:?}");
    let accounts: Vec<_> = seen.headers.iter().filter(|(name, _)| folded(name) == "chatgpt-account-id").collect();
    ensure!(accounts.len() == 1 && login.account() == Some(accounts[0].1.as_str()), "{asked}: {seen:?}");
    ensure!(seen.header("authorization") == [format!("Bearer {}", login.value())], "{asked}: {seen:?}");
    ensure!(!holds(&seen.head, OTHER), "{asked}: {seen:?}");
    Ok(())
}

/// A handshake has a Connection field of its own.
fn without_connection(headers: &str) -> String {
    headers.split_inclusive("\r\n").filter(|line| !line.starts_with("Connection:")).collect()
}

fn key() -> Result<()> {
    let wire = start(&jwt(), true, |house, _| house)?;
    wire.answer_all();
    let own = wire.sentinel_of(Provider::Openai)?;
    for path in ["/v1/responses", "/v1/responses/compact", "/v1/chat/completions"] {
        wire.standin.forget();
        let headers = format!("Authorization: Bearer {own}\r\nx-api-key: {own}\r\nOpenAI-Organization: org-1\r\n");
        let answer = wire.inside(OPENAI)?.ask(&post(OPENAI, path, &headers, "{}"))?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
        let seen = only(&wire.standin)?;
        ensure!(seen.header("authorization") == [format!("Bearer {KEY}")], "{path}: {seen:?}");
        ensure!(
            seen.header("x-api-key").is_empty() && seen.header("chatgpt-account-id").is_empty(),
            "{path}: {seen:?}"
        );
        // Which organisation is billed is the caller's to say, among those of the key.
        ensure!(seen.header("openai-organization") == ["org-1"], "{path}: {seen:?}");
    }
    // A stand-in for one provider is none for another.
    let headers = format!("Authorization: Bearer {own}\r\n");
    let crossed = wire.inside(CHATGPT)?.ask(&post(CHATGPT, CODEX_PATH, &headers, "{}"))?;
    ensure!(crossed.status == 400 && crossed.reason() == Some("sentinel-astray"), "{crossed:?}");
    Ok(())
}

fn nameless() -> Result<()> {
    let standin = standin_for(&opaque())?;
    let mut house = house_for(&standin, &opaque(), false).prepare()?;
    let told = house.gateway(&["check"])?.expect_code(64)?;
    let told = format!("{}{}", told.text(), told.stderr);
    ensure!(told.contains("names no ChatGPT account") && told.contains("`account_id`"), "{told}");
    ensure!(told.contains("house.toml:") && !told.contains(opaque().value()), "{told}");
    ensure!(house.start().is_err(), "it started");
    Ok(())
}

fn claims() -> Result<()> {
    let house = House::builder()
        .secret(Real::Bearer(REAL.into()))
        .add_box("codex", "agent = \"codex\"\n")
        .add_box("pi", "agent = \"pi\"\n")
        .start()?;
    let asked = |agent| Claim { agent: Some(agent), ..harness::claim::claim() };
    let answer = Claimed::ask(&house.door("codex"), &asked(Agent::Codex))?;
    let Answer::Refused { status: 403, body: Some(refused) } = answer else {
        anyhow::bail!("a codex without a credential was not refused");
    };
    ensure!(refused.said.contains("no credential for openai-codex or openai"), "{refused:?}");
    ensure!(refused.hint.contains("[[secret]]") && refused.hint.contains("gateway status"), "{refused:?}");
    for id in ["one", "pi"] {
        let claimed = Claimed::take(&house.door(id))?;
        let providers: Vec<_> = claimed.spec.sentinels.iter().map(|sentinel| sentinel.provider).collect();
        ensure!(providers == [Provider::Anthropic], "{id}: {providers:?}");
    }
    let all = start(&jwt(), true, |house, _| house)?;
    let providers: Vec<_> = all.claimed.spec.sentinels.iter().map(|sentinel| sentinel.provider).collect();
    ensure!(providers == Agent::Pi.providers(), "{providers:?}");
    Ok(())
}

impl Wire {
    fn sentinel_of(&self, provider: Provider) -> Result<String> {
        let own = self.claimed.spec.sentinels.iter().find(|sentinel| sentinel.provider == provider);
        Ok(own.with_context(|| format!("no sentinel for {provider}"))?.access.clone())
    }
}

/// A run of pi at a house that serves all three providers. Where `is_told` is false, only the token names the account.
fn start(login: &Real, is_told: bool, more: impl FnOnce(HouseBuilder, &StandIn) -> HouseBuilder) -> Result<Wire> {
    let standin = standin_for(login)?;
    let house = more(house_for(&standin, login, is_told), &standin).start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    Ok(Wire { standin, house, claimed })
}

fn standin_for(login: &Real) -> Result<StandIn> {
    StandIn::start(Options {
        names: [CHATGPT, OPENAI, ANTHROPIC, "auth.openai.com", "ab.chatgpt.com", "pi.dev"].map(str::to_owned).to_vec(),
        real: vec![login.clone(), Real::ApiKey(KEY.into()), Real::Bearer(REAL.into())],
        ..Options::default()
    })
}

fn house_for(standin: &StandIn, login: &Real, is_told: bool) -> HouseBuilder {
    let house = House::builder().agent("pi").serve(standin, Provider::Openai, Real::ApiKey(KEY.into())).serve(
        standin,
        Provider::Anthropic,
        Real::Bearer(REAL.into()),
    );
    if is_told {
        return house.serve(standin, Provider::OpenaiCodex, login.clone());
    }
    let lines =
        "name = \"openai-codex\"\nprovider = \"openai-codex\"\nkind = \"login\"\nfile = \"secret-openai-codex\"";
    let there = there(standin);
    let grant = format!("name = \"model-openai-codex\"\npreset = \"openai-codex\"\nsecret = \"openai-codex\"\n{there}");
    house.file("secret-openai-codex", login.value().as_bytes()).extra(&format!("\n[[secret]]\n{lines}\n")).grant(&grant)
}

/// The lines of a grant that lead to the stand-in.
fn there(standin: &StandIn) -> String {
    format!("unsafe_dial = \"{}\"\nupstream_ca = \"standin-openai-ca.pem\"", standin.address())
}

fn folded(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

fn jwt() -> Real {
    Real::chatgpt("real-account-6b1f", "ON-THE-WIRE-3c")
}

fn opaque() -> Real {
    Real::Login { token: "opaque-REAL-LOGIN-ON-THE-WIRE-9e".into(), account: "given-account-77".into() }
}

const CHATGPT: &str = "chatgpt.com";
const OPENAI: &str = "api.openai.com";
const ANTHROPIC: &str = "api.anthropic.com";
const CODEX_PATH: &str = "/backend-api/codex/responses";
const HANDSHAKE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const KEY: &str = "sk-proj-REAL-KEY-ON-THE-WIRE-5d";
/// What a box might send of its own.
const OTHER: &str = "attackers-own";
