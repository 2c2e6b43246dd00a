//! Refused: each provider's agents are told in the shape that they show, and outages as outages.

use anyhow::{Result, ensure};
use base64::Engine;
use box_spec::Provider;
use harness::files::put;
use harness::secrets;
use standin::{Rule, StandIn};

use super::super::base::{get, post};
use super::{ANTHROPIC, CHATGPT, CODEX_PATH, OPENAI, jwt, start, there};

pub(super) fn shapes() -> Result<()> {
    let wire = start(&jwt(), true, |house, _| house)?;
    for (host, path) in [(ANTHROPIC, "/v1/messages"), (OPENAI, "/v1/responses"), (CHATGPT, CODEX_PATH)] {
        let request = format!("DELETE {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = wire.inside(host)?.ask(request.as_bytes())?;
        ensure!(answer.status == 400 && answer.reason() == Some("no-grant"), "{answer:?}");
        ensure!(answer.header("x-boxgate-status") == Some("403"), "{answer:?}");
        let told = answer.json()?;
        let error = &told["error"];
        let message = error["message"].as_str().unwrap_or_default();
        ensure!(error["type"] == "invalid_request_error", "{told}");
        ensure!(message.contains("no-grant") && message.contains("this is policy"), "{told}");
        if host == ANTHROPIC {
            ensure!(told["type"] == "error", "{told}");
        } else {
            ensure!(error["code"] == "no-grant" && error["param"].is_null(), "{told}");
            // codex shows the body as it stands: the sentence comes first, and once.
            ensure!(answer.text().starts_with("{\"error\":"), "{}", answer.text());
            ensure!(answer.text().matches("this is policy").count() == 1, "{}", answer.text());
        }
    }
    // Away from model routes the status is the true one.
    let answer = wire.inside(CHATGPT)?.ask(&get(CHATGPT, "/backend-api/wham/tasks", ""))?;
    ensure!(answer.status == 403 && answer.json()?["error"] == "no-grant", "{answer:?}");
    Ok(())
}

pub(super) fn outage() -> Result<()> {
    let wire = start(&jwt(), false, |house, _| house)?;
    wire.answer_all();
    let file = wire.house.secret_of(Provider::OpenaiCodex);
    let ask = || wire.inside(CHATGPT)?.ask(&post(CHATGPT, CODEX_PATH, "", "{}"));
    ensure!(ask()?.status == 200);
    wire.standin.forget();
    let real = std::fs::read_to_string(&file)?;
    std::fs::remove_file(&file)?;
    for (change, says) in [(None, "is missing"), (Some("opaque-without-account"), "names no ChatGPT account")] {
        if let Some(text) = change {
            put(&file, text.as_bytes(), 0o600)?;
        }
        let answer = ask()?;
        ensure!(answer.status == 400 && answer.reason() == Some("credential-outage"), "{answer:?}");
        ensure!(answer.header("x-boxgate-status") == Some("503"), "{answer:?}");
        ensure!(answer.text().contains("outage of the house"), "{answer:?}");
        ensure!(!secrets::in_bytes(&answer.body, &["opaque-without-account", jwt().value()]), "{answer:?}");
        wire.house.wait_line(says, |line| {
            line["reason"] == "credential-outage" && line["inside"].as_str().is_some_and(|inside| inside.contains(says))
        })?;
        // A start would fail by now. What runs can be asked all the same.
        let status = wire.house.status()?.to_string();
        ensure!(status.contains(says), "{status}");
    }
    ensure!(wire.standin.seen().is_empty(), "it went out: {:?}", wire.standin.seen());
    put(&file, real.as_bytes(), 0o600)?;
    ensure!(ask()?.status == 200, "the login did not come back");
    Ok(())
}

pub(super) fn rejected() -> Result<()> {
    let wire = start(&jwt(), true, |house, _| house)?;
    for (host, path) in [(OPENAI, "/v1/responses"), (CHATGPT, CODEX_PATH)] {
        wire.standin.rules(vec![Rule::status("", 401)]);
        let answer = wire.inside(host)?.ask(&post(host, path, "", "{}"))?;
        ensure!(answer.status == 400 && answer.reason() == Some("credential-rejected"), "{answer:?}");
        ensure!(answer.header("x-boxgate-status") == Some("503"), "{answer:?}");
        for status in [403, 429, 500, 529] {
            wire.standin.rules(vec![Rule::status("", status)]);
            let answer = wire.inside(host)?.ask(&post(host, path, "", "{}"))?;
            ensure!(answer.status == status && answer.reason().is_none(), "{status}: {answer:?}");
        }
    }
    Ok(())
}

pub(super) fn astray() -> Result<()> {
    let open = |standin: &StandIn| format!("name = \"open\"\nhosts = [\"pi.dev\"]\n{}", there(standin));
    let wire = start(&jwt(), true, |house, standin| house.grant(&open(standin)))?;
    wire.answer_all();
    let own = wire.sentinel_of(Provider::OpenaiCodex)?;
    let parts: Vec<&str> = own.split('.').collect();
    ensure!(parts.len() == 3, "{own}");
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("user:{own}"));
    for (what, headers, path) in [
        ("whole", format!("Authorization: Bearer {own}\r\n"), "/x".to_owned()),
        ("its third part", format!("X-Note: {}\r\n", parts[2]), "/x".to_owned()),
        ("without its third part", format!("X-Note: {}.{}\r\n", parts[0], parts[1]), "/x".to_owned()),
        ("its claims in the address", String::new(), format!("/x?y={}", parts[1])),
        ("in Basic", format!("Authorization: Basic {basic}\r\n"), "/x".to_owned()),
    ] {
        let answer = wire.inside("pi.dev")?.ask(&get("pi.dev", &path, &headers))?;
        ensure!(answer.status == 403 && answer.reason() == Some("sentinel-astray"), "{what}: {answer:?}");
    }
    ensure!(wire.standin.seen().is_empty(), "it went out: {:?}", wire.standin.seen());
    wire.house.wait_line("the alarm", |line| line["kind"] == "alarm" && line["reason"] == "sentinel-astray")?;
    Ok(())
}
