//! Local: what OpenAI's agents ask for besides models, answered by the house and never sent on.

use anyhow::{Context, Result, ensure};
use box_spec::Provider;
use box_spec::wire::{SENTINEL_ACCOUNT, SENTINEL_MARK};
use harness::raw::Response;
use harness::secrets;

use super::super::base::{REAL, Wire, get, post};
use super::{CHATGPT, KEY, jwt, start, there};

pub(super) fn refresh() -> Result<()> {
    let wire = everywhere()?;
    let json = |grant: &str| format!(r#"{{"client_id":"x","grant_type":"{grant}","refresh_token":"x"}}"#);
    let exchange = "urn:ietf:params:oauth:grant-type:token-exchange";
    let form = "application/x-www-form-urlencoded";
    let own = wire.claimed.spec.sentinels.iter().find(|sentinel| sentinel.provider == Provider::OpenaiCodex);
    let own = own.context("no sentinel")?;
    for (path, kind, body) in [
        ("/oauth/token", "application/json", json("refresh_token")),
        ("/oauth/token", form, "grant_type=refresh_token&refresh_token=x&client_id=x".to_owned()),
        ("/oauth/token", form, format!("grant_type={exchange}&requested_token=openai-api-key&subject_token=x")),
        ("/oauth/token", "application/json", json(exchange)),
        ("/api/accounts/oauth/token", form, "grant_type=refresh_token&refresh_token=x".to_owned()),
    ] {
        let host = "auth.openai.com";
        let answer = wire.inside(host)?.ask(&post(host, path, &format!("Content-Type: {kind}\r\n"), &body))?;
        ensure!(answer.status == 200, "{body}: {answer:?}");
        let told = answer.json()?;
        ensure!(told["access_token"] == own.access.as_str() && told["id_token"] == own.access.as_str(), "{told}");
        ensure!(told["refresh_token"].as_str() == own.refresh.as_deref(), "{told}");
        ensure!(
            told["token_type"] == "Bearer" && told["expires_in"].as_u64().is_some_and(|left| left > 3600),
            "{told}"
        );
        no_real(&answer)?;
    }
    let line = wire.house.wait_line("the answer", |line| line["kind"] == "answered")?;
    ensure!(line["facts"]["route"] == "refresh-attempt" && line["method"] == "POST", "{line}");
    std::fs::remove_file(wire.house.secret_of(Provider::OpenaiCodex))?;
    let answer = wire.inside("auth.openai.com")?.ask(&post("auth.openai.com", "/oauth/token", "", "{}"))?;
    ensure!(answer.status == 400 && answer.json()?["error"] == "invalid_grant", "{answer:?}");
    nothing_left(wire)
}

pub(super) fn side_calls() -> Result<()> {
    let wire = everywhere()?;
    let asked = [
        (CHATGPT, "GET", "/backend-api/wham/accounts/check", 200, "accounts"),
        (CHATGPT, "GET", "/backend-api/wham/settings/user", 200, "preferences"),
        (CHATGPT, "GET", "/backend-api/codex/models?client_version=0.171.0", 404, "settings"),
        (CHATGPT, "GET", "/backend-api/ps/plugins/installed?limit=200", 404, "settings"),
        (CHATGPT, "POST", "/backend-api/ps/mcp", 404, "settings"),
        (CHATGPT, "GET", "/backend-api/plugins/export/curated", 404, "settings"),
        (CHATGPT, "POST", "/backend-api/codex/analytics-events/events", 204, "telemetry"),
        ("ab.chatgpt.com", "POST", "/otlp/v1/metrics", 204, "telemetry"),
        ("pi.dev", "GET", "/api/latest-version", 404, "settings"),
        ("pi.dev", "GET", "/api/models/providers/anthropic", 404, "settings"),
        ("pi.dev", "GET", "/api/report-install?version=1.6.0", 204, "telemetry"),
    ];
    for (host, method, path, status, route) in asked {
        let request = if method == "GET" { get(host, path, "") } else { post(host, path, "", "{}") };
        let answer = wire.inside(host)?.ask(&request)?;
        ensure!(answer.status == status, "{path}: {answer:?}");
        no_real(&answer)?;
        let bare = path.split('?').next().unwrap_or_default();
        let line = wire.house.wait_line(path, |line| line["kind"] == "answered" && line["path"] == bare)?;
        ensure!(line["facts"]["route"] == route && line["verdict"] == "answer", "{line}");
        if route == "accounts" {
            let told = answer.json()?;
            ensure!(told["accounts"].as_array().is_some_and(|all| all.len() == 1), "{told}");
            let account = &told["accounts"][0];
            ensure!(account["id"] == SENTINEL_ACCOUNT, "{told}");
            ensure!(account["workspace_backend_origin"] == "https://chatgpt.com", "{told}");
        }
        ensure!(route != "preferences" || answer.json()? == serde_json::json!({}), "{answer:?}");
    }
    nothing_left(wire)
}

pub(super) fn durable() -> Result<()> {
    let wire = everywhere()?;
    for (host, method, path) in [
        ("auth.openai.com", "GET", "/oauth/authorize?client_id=x"),
        ("auth.openai.com", "GET", "/oauth/token"),
        ("auth.openai.com", "POST", "/api/accounts/deviceauth/usercode"),
        ("auth.openai.com", "POST", "/agent/register"),
        (CHATGPT, "POST", "/oauth/%74oken"),
        (CHATGPT, "POST", "/backend-api/wham/remote/control/server/enroll"),
        ("api.openai.com", "POST", "/v1/organization/admin_api_keys"),
        ("api.openai.com", "POST", "/v1/realtime/client_secrets"),
    ] {
        let request = if method == "GET" { get(host, path, "") } else { post(host, path, "", "{}") };
        let answer = wire.inside(host)?.ask(&request)?;
        ensure!(answer.status == 403 && answer.reason() == Some("durable-credential"), "{path}: {answer:?}");
    }
    wire.house.wait_line("the alarm", |line| line["kind"] == "alarm" && line["reason"] == "durable-credential")?;
    went_nowhere(&wire)
}

/// Nothing went out, no real credential came in, and none of it counts against the run.
fn nothing_left(wire: Wire) -> Result<()> {
    went_nowhere(&wire)?;
    ensure!(wire.house.ledger()?.iter().all(|line| line["verdict"] != "refuse"), "{:?}", wire.house.ledger()?);
    let settled = wire.claimed.report()?;
    ensure!(!format!("{settled:?}").contains("refus"), "{settled:?}");
    Ok(())
}

/// No request came since, and no connection but the one of the proof in [`everywhere`].
fn went_nowhere(wire: &Wire) -> Result<()> {
    let (seen, connections) = (wire.standin.seen(), wire.standin.connections().len());
    ensure!(seen.is_empty() && connections <= 1, "{connections} connections: {seen:?}");
    Ok(())
}

fn no_real(answer: &Response) -> Result<()> {
    let login = jwt();
    let real = [login.value(), login.account().unwrap_or_default(), KEY, REAL];
    ensure!(!secrets::in_bytes(&answer.body, &real), "a real credential or account was given out: {answer:?}");
    let sentinels = secrets::in_bytes(&answer.body, &[SENTINEL_MARK]);
    ensure!(!sentinels || answer.json()?["access_token"].is_string(), "{answer:?}");
    Ok(())
}

/// A house that grants everything at OpenAI, and the login with it. What went out would be seen at the stand-in.
fn everywhere() -> Result<Wire> {
    let wire = start(&jwt(), true, |house, standin| {
        let hosts = "[\"chatgpt.com\", \"api.openai.com\", \"auth.openai.com\", \"ab.chatgpt.com\", \"pi.dev\"]";
        let there = there(standin);
        house.grant(&format!(
            "name = \"all\"\nhosts = {hosts}\nsecret = \"openai-codex\"\nunsafe_secret_hosts = true\n{there}"
        ))
    })?;
    wire.answer_all();
    // The grant is what it says: what nobody answers here goes out with the login.
    let answer = wire.inside(CHATGPT)?.ask(&get(CHATGPT, "/backend-api/wham/usage", ""))?;
    ensure!(answer.status == 200 && wire.standin.seen().len() == 1, "{answer:?}");
    wire.standin.forget();
    Ok(wire)
}
