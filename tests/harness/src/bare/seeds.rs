//! What each bare agent finds when it starts: its files, its variables, its arguments.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use box_spec::{Agent, Provider};
use serde_json::{Value, json};
use standin::Real;

use crate::process;
use crate::tools::Tools;

/// Files in the agent's own folder, and variables.
pub(super) struct Seed {
    pub(super) files: Vec<(&'static str, Vec<u8>)>,
    pub(super) variables: Vec<(&'static str, String)>,
}

pub(super) fn seed(agent: Agent, provider: Provider, secret: &Real, home: &Path) -> Result<Seed> {
    match (agent, provider, secret) {
        (Agent::Claude, Provider::Anthropic, Real::Bearer(_) | Real::ApiKey(_)) => Ok(claude(secret, home)),
        (Agent::Codex, Provider::OpenaiCodex, Real::Login { token, account }) => {
            codex(&codex_login(token, account), home)
        }
        (Agent::Codex, Provider::Openai, Real::ApiKey(key)) => {
            codex(&json!({"auth_mode": "apikey", "OPENAI_API_KEY": key}), home)
        }
        (Agent::Pi, Provider::Anthropic | Provider::Openai, Real::ApiKey(key)) => {
            Ok(pi(provider, &json!({"type": "api_key", "key": key}), home))
        }
        (Agent::Pi, Provider::Anthropic, Real::Bearer(token)) => {
            Ok(pi(provider, &json!({"type": "oauth", "access": token, "refresh": "", "expires": LATE}), home))
        }
        (Agent::Pi, Provider::OpenaiCodex, Real::Login { token, account }) => {
            let entry =
                json!({"type": "oauth", "access": token, "refresh": "rt-real", "expires": LATE, "accountId": account});
            Ok(pi(provider, &entry, home))
        }
        (agent, provider, _) => bail!("{agent} takes no such credential of {provider}"),
    }
}

/// The arguments before the user's own.
pub(super) const fn arguments(agent: Agent) -> &'static [&'static str] {
    match agent {
        Agent::Claude => &["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"],
        Agent::Codex => &["exec", "--json", "--skip-git-repo-check"],
        Agent::Pi => &["-p", "--mode", "json"],
    }
}

/// The arguments by which pi takes a model of this provider's.
#[must_use]
pub const fn pi_model(provider: Provider) -> [&'static str; 4] {
    match provider {
        Provider::Anthropic => ["--provider", "anthropic", "--model", "claude-sonnet-4-5"],
        Provider::Openai => ["--provider", "openai", "--model", "gpt-5.2"],
        Provider::OpenaiCodex => ["--provider", "openai-codex", "--model", "gpt-5.6-luna"],
    }
}

fn claude(secret: &Real, home: &Path) -> Seed {
    let mut seed = Seed { files: Vec::new(), variables: Vec::new() };
    match secret {
        Real::ApiKey(key) => seed.variables.push(("ANTHROPIC_API_KEY", key.clone())),
        Real::Bearer(token) | Real::Login { token, account: _ } => {
            let login = json!({"claudeAiOauth": {"accessToken": token, "scopes": ["user:inference"], "subscriptionType": "max"}});
            seed.files.push((".credentials.json", login.to_string().into_bytes()));
        }
    }
    seed.variables.push(("CLAUDE_CONFIG_DIR", home.display().to_string()));
    for knob in [
        "IS_SANDBOX",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_AUTOUPDATER",
    ] {
        seed.variables.push((knob, "1".to_owned()));
    }
    seed
}

fn codex(auth: &Value, home: &Path) -> Result<Seed> {
    let catalog = home.join("models.json");
    let config = format!(
        "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\ncheck_for_update_on_startup = false\n\
         model_catalog_json = {}\n[analytics]\nenabled = false\n[otel]\nexporter = \"none\"\ntrace_exporter = \"none\"\n\
         metrics_exporter = \"none\"\n[features]\nplugins = false\napps = false\nunbounded_connection_retries = false\n",
        Value::from(catalog.display().to_string())
    );
    let files = vec![
        ("auth.json", auth.to_string().into_bytes()),
        ("config.toml", config.into_bytes()),
        ("models.json", models()?.clone()),
    ];
    Ok(Seed { files, variables: vec![("CODEX_HOME", home.display().to_string())] })
}

/// A login as codex itself writes it, with the account: so codex asks for the routes of the account first.
fn codex_login(token: &str, account: &str) -> Value {
    json!({
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": null,
        "tokens": {"id_token": token, "access_token": token, "refresh_token": "rt-real", "account_id": account},
        "last_refresh": "2026-11-30T00:00:00Z",
    })
}

/// The models that codex knows by itself, so that it does not ask for others. Asked once.
fn models() -> Result<&'static Vec<u8>> {
    static MODELS: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(known) = MODELS.get() {
        return Ok(known);
    }
    let home = tempfile::Builder::new().prefix("codex-").tempdir().context("make a folder")?;
    let mut command = Command::new(Tools::codex()?);
    command.args(["debug", "models", "--bundled"]).env_clear().env("CODEX_HOME", home.path()).env("HOME", home.path());
    let ran = process::run(command, None, Duration::from_secs(30))?.expect_code(0)?;
    Ok(MODELS.get_or_init(|| ran.stdout))
}

fn pi(provider: Provider, entry: &Value, home: &Path) -> Seed {
    let mut auth = serde_json::Map::new();
    auth.insert(provider.as_str().to_owned(), entry.clone());
    let variables = vec![
        ("PI_CODING_AGENT_DIR", home.display().to_string()),
        ("PI_OFFLINE", "1".to_owned()),
        ("PI_SKIP_VERSION_CHECK", "1".to_owned()),
        ("PI_TELEMETRY", "0".to_owned()),
    ];
    Seed { files: vec![("auth.json", Value::Object(auth).to_string().into_bytes())], variables }
}

/// In milliseconds: a login that ends in a century.
const LATE: u64 = 4_900_000_000_000;
