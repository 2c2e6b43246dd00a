//! codex, as measured with 0.171.0: with these files a run makes its model calls, asks once for the user's settings
//! (which the house answers), and nothing else.

mod arguments;
mod config;
mod heard;

use box_spec::{Agent, CredentialKind, Provider, Sentinel};
use serde_json::json;

pub(super) use self::arguments::refused_argument;
pub(super) use self::config::STANDING;
pub(super) use self::heard::Heard;
use super::{ARGUMENT_LIMIT, Content, Place, Plan, PlanFault, PlannedFile, Task, processor};

pub(super) fn plan(task: &Task<'_>) -> Result<Plan, PlanFault> {
    let found = task.prompt.chars().count();
    if found > PROMPT_LIMIT {
        return Err(PlanFault::PromptLength { agent: Agent::Codex, found, limit: PROMPT_LIMIT });
    }
    let auth = credentials(task).ok_or_else(|| PlanFault::no_sentinel(Agent::Codex))?;
    let file = |name, text| PlannedFile { place: Place::AgentHome, name, content: Content::Whole(text) };
    let variables_of_its_own = PlannedFile { place: Place::AgentHome, name: VARIABLES, content: Content::Absent };
    let files = vec![file("auth.json", auth), file("config.toml", config::text(task)?), variables_of_its_own];
    let (arguments, stdin) = arguments(task);
    let variables = vec![("CODEX_HOME", task.home.display().to_string())];
    Ok(Plan { files, arguments, stdin, variables })
}

pub(super) fn native_programs() -> Vec<(String, &'static str)> {
    let file = if cfg!(target_arch = "aarch64") {
        "vendor/aarch64-unknown-linux-musl/bin/codex"
    } else {
        "vendor/x86_64-unknown-linux-musl/bin/codex"
    };
    vec![(format!("@openai/codex-linux-{}", processor()), file)]
}

/// codex's `auth.json`. A login comes first, as with codex itself.
fn credentials(task: &Task<'_>) -> Option<String> {
    let of = |provider, kind| {
        let mut sentinels = task.sentinels.iter();
        sentinels.find(|sentinel| sentinel.provider == provider && sentinel.kind == kind)
    };
    let login = of(Provider::OpenaiCodex, CredentialKind::Login).map(|sentinel| login(sentinel, task.now));
    login.or_else(|| of(Provider::Openai, CredentialKind::ApiKey).map(|sentinel| api_key(&sentinel.access)))
}

/// A login without `tokens.account_id`: with it codex would first ask which workspace the account belongs to. codex
/// needs some refresh token, or it runs without any credential.
fn login(sentinel: &Sentinel, now: &str) -> String {
    let refresh = sentinel.refresh.as_deref().unwrap_or_default();
    json!({
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": null,
        "tokens": { "id_token": sentinel.access, "access_token": sentinel.access, "refresh_token": refresh },
        "last_refresh": now,
    })
    .to_string()
}

fn api_key(key: &str) -> String {
    json!({ "auth_mode": "apikey", "OPENAI_API_KEY": key }).to_string()
}

/// The whole argument list, with the prompt or without it. A prompt of one dash would mean standard input.
fn arguments(task: &Task<'_>) -> (Vec<String>, Option<String>) {
    let mut arguments: Vec<String> = ["exec", "--json", "--skip-git-repo-check"].map(str::to_owned).into();
    arguments.extend_from_slice(task.arguments);
    arguments.push("--".to_owned());
    if task.prompt.len() > ARGUMENT_LIMIT || task.prompt == STANDARD_INPUT {
        arguments.push(STANDARD_INPUT.to_owned());
        return (arguments, Some(task.prompt.to_owned()));
    }
    arguments.push(task.prompt.to_owned());
    (arguments, None)
}

pub(super) const CATALOG: &[&str] = &["debug", "models", "--bundled"];
const STANDARD_INPUT: &str = "-";
/// codex sets what this file says over its environment: a former run could lead every later one past the shim.
const VARIABLES: &str = ".env";
/// In characters; above it codex itself ends with an error.
const PROMPT_LIMIT: usize = 1_048_576;

#[cfg(test)]
mod tests;
