//! Tests of the plan for pi.

use box_spec::{CredentialKind, Provider, Sentinel};
use serde_json::{Value, json};

use super::plan;
use crate::agent::trial::{self, sentinel};
use crate::agent::{ARGUMENT_LIMIT, Content, Plan, PlanFault, Standing, Task};

fn task<'a>(prompt: &'a str, sentinels: &'a [Sentinel], standing: &'a Standing) -> Task<'a> {
    trial::task("/s/pi", prompt, sentinels, standing)
}

fn keys() -> [Sentinel; 1] {
    [sentinel(Provider::Anthropic, CredentialKind::ApiKey)]
}

fn read(plan: &Plan, name: &str) -> Value {
    serde_json::from_str(trial::file(plan, name)).expect("JSON")
}

#[test]
fn every_provider_that_pi_can_use_is_in_its_credentials_with_known_fields_alone() {
    let standing = Standing::new();
    let sentinels = [
        sentinel(Provider::Anthropic, CredentialKind::Login),
        sentinel(Provider::OpenaiCodex, CredentialKind::Login),
        sentinel(Provider::Openai, CredentialKind::ApiKey),
    ];
    let auth = read(&plan(&task("hi", &sentinels, &standing)).expect("a plan"), "auth.json");
    let want = json!({
        "anthropic": { "type": "oauth", "access": "anthropic-sentinel", "refresh": "rt-sentinel", "expires": 4_922_899_200_000_u64 },
        "openai": { "type": "api_key", "key": "openai-sentinel" },
        "openai-codex": {
            "type": "oauth",
            "access": "openai-codex-sentinel",
            "refresh": "rt-sentinel",
            "expires": 4_922_899_200_000_u64,
            "accountId": "00000000-0000-4000-8000-000000000000",
        },
    });
    assert_eq!(auth, want);
    for unusable in [&[][..], &[sentinel(Provider::Openai, CredentialKind::Login)]] {
        assert!(matches!(plan(&task("hi", unusable, &standing)), Err(PlanFault::NoSentinel { .. })));
    }
}

#[test]
fn of_the_settings_only_the_choice_of_a_model_stays() {
    let found = r#"{"defaultModel":"m","defaultProvider":"anthropic","defaultThinkingLevel":"low","packages":["x"],
        "enableInstallTelemetry":true,"httpProxy":"http://elsewhere",}"#;
    let standing = Standing::from([("settings.json", found.as_bytes().to_vec())]);
    let settings = read(&plan(&task("hi", &keys(), &standing)).expect("a plan"), "settings.json");
    let want = json!({
        "defaultModel": "m",
        "defaultProvider": "anthropic",
        "defaultThinkingLevel": "low",
        "defaultProjectTrust": "never",
        "enableAnalytics": false,
        "enableInstallTelemetry": false,
    });
    assert_eq!(settings, want);
}

#[test]
fn the_users_models_and_servers_stay_and_a_broken_file_ends_the_launch() {
    for name in ["models.json", "mcp.json", "settings.json"] {
        let good = Standing::from([(name, b"{ // mine\n \"providers\": {}, }".to_vec())]);
        let planned = plan(&task("hi", &keys(), &good)).expect(name);
        let written = planned.files.iter().any(|file| file.name == name);
        assert_eq!(written, name == "settings.json", "{name} is the user's");
        let bad = Standing::from([(name, b"{\"providers\":".to_vec())]);
        let fault = plan(&task("hi", &keys(), &bad)).expect_err("refused");
        assert!(fault.to_string().contains(name) && fault.code() == 73, "{fault}");
    }
}

#[test]
fn the_command_line_is_one_turn_without_extensions() {
    let standing = Standing::new();
    let sentinels = keys();
    let planned = plan(&task("-x", &sentinels, &standing)).expect("a plan");
    let want = "-p --mode json --no-extensions --session-dir /s/pi/sessions --no-approve -- -x";
    assert_eq!(planned.arguments.join(" "), want);
    for through in ["a".repeat(ARGUMENT_LIMIT + 1), "@AGENTS.md".to_owned()] {
        let planned = plan(&task(&through, &sentinels, &standing)).expect("a plan");
        assert_eq!(planned.arguments.last().map(String::as_str), Some("--no-approve"));
        assert_eq!(planned.stdin.as_deref(), Some(through.as_str()));
    }
}

#[test]
fn a_system_text_is_a_file_and_without_one_there_is_none() {
    let standing = Standing::new();
    let sentinels = keys();
    let system = |plan: &Plan| {
        plan.files.iter().any(|file| matches!((file.name, &file.content), ("boxgate-system.md", Content::Whole(_))))
    };
    let without = plan(&task("hi", &sentinels, &standing)).expect("a plan");
    assert!(!system(&without) && !without.arguments.contains(&"--append-system-prompt".to_owned()));
    let with = plan(&Task { system: Some("AGENTS.md"), ..task("hi", &sentinels, &standing) }).expect("a plan");
    assert!(system(&with) && with.arguments.contains(&"/s/pi/boxgate-system.md".to_owned()));
}
