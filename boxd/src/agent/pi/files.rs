//! pi's files: the credentials, the settings, and the user's own that must be sound.

use box_spec::{CredentialKind, Provider, Sentinel};
use serde_json::{Map, Value, json};

use crate::agent::{Content, IN_A_CENTURY, Place, PlanFault, PlannedFile, Task, json};

pub(in crate::agent) const STANDING: &[&str] = &[SETTINGS, MODELS, MCP];

/// `auth.json`: what pi knows of each provider, and nothing else. `None` where there is nothing that it can use.
pub(super) fn credentials(task: &Task<'_>) -> Option<String> {
    let entries = task.sentinels.iter().filter_map(|sentinel| Some((name(sentinel.provider), entry(sentinel)?)));
    let known: Map<String, Value> = entries.collect();
    (!known.is_empty()).then(|| Value::Object(known).to_string())
}

/// All files of a launch.
pub(super) fn planned(task: &Task<'_>, auth: String) -> Result<Vec<PlannedFile>, PlanFault> {
    // pi reports a broken file of models or servers and goes on without it, with other models than the user's.
    for file in [MODELS, MCP] {
        object(task, file)?;
    }
    let file = |name, content| PlannedFile { place: Place::AgentHome, name, content };
    let system = task.system.map_or(Content::Absent, |text| Content::Whole(text.to_owned()));
    Ok(vec![
        file("auth.json", Content::Whole(auth)),
        file(SETTINGS, Content::Whole(settings(object(task, SETTINGS)?))),
        file(SYSTEM, system),
    ])
}

fn name(provider: Provider) -> String {
    provider.as_str().to_owned()
}

/// A login lasts for a century, so that pi never thinks of a refresh.
fn entry(sentinel: &Sentinel) -> Option<Value> {
    let Sentinel { provider, kind, access, refresh } = sentinel;
    match (provider, kind) {
        (Provider::Anthropic | Provider::Openai, CredentialKind::ApiKey) => {
            Some(json!({ "type": "api_key", "key": access }))
        }
        (Provider::Anthropic, CredentialKind::Login) => Some(login(access, refresh.as_deref())),
        (Provider::OpenaiCodex, CredentialKind::Login) => {
            let mut entry = login(access, refresh.as_deref());
            entry["accountId"] = json!(NO_ACCOUNT);
            Some(entry)
        }
        (Provider::Openai, CredentialKind::Login) | (Provider::OpenaiCodex, CredentialKind::ApiKey) => None,
    }
}

fn login(access: &str, refresh: Option<&str>) -> Value {
    json!({ "type": "oauth", "access": access, "refresh": refresh.unwrap_or_default(), "expires": IN_A_CENTURY })
}

/// The user's choice of a model, and what a box wants.
fn settings(standing: Map<String, Value>) -> String {
    let mut settings: Map<String, Value> =
        standing.into_iter().filter(|(key, _)| CHOICES.contains(&key.as_str())).collect();
    settings.insert("defaultProjectTrust".to_owned(), json!("never"));
    settings.insert("enableAnalytics".to_owned(), json!(false));
    settings.insert("enableInstallTelemetry".to_owned(), json!(false));
    Value::Object(settings).to_string()
}

fn object(task: &Task<'_>, name: &'static str) -> Result<Map<String, Value>, PlanFault> {
    let Some(bytes) = task.standing.get(name) else {
        return Ok(Map::new());
    };
    json::object(bytes).ok_or_else(|| PlanFault::standing(task.home, name, "is no JSON object"))
}

const SETTINGS: &str = "settings.json";
const MODELS: &str = "models.json";
pub(super) const MCP: &str = "mcp.json";
/// Given to pi as a file, since it would take a short text for the name of one.
pub(super) const SYSTEM: &str = "boxgate-system.md";
const CHOICES: [&str; 3] = ["defaultProvider", "defaultModel", "defaultThinkingLevel"];
/// The house puts the real account in its place.
const NO_ACCOUNT: &str = "00000000-0000-4000-8000-000000000000";
