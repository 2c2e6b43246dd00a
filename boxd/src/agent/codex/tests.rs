//! Tests of the plan for codex.

use std::path::Path;

use box_spec::{CredentialKind, Provider, Sentinel};
use toml::Table;

use super::{PROMPT_LIMIT, plan};
use crate::agent::trial::{self, file, sentinel};
use crate::agent::{ARGUMENT_LIMIT, PlanFault, Standing, Task};

fn task<'a>(prompt: &'a str, sentinels: &'a [Sentinel], standing: &'a Standing) -> Task<'a> {
    trial::task("/s/codex", prompt, sentinels, standing)
}

fn login() -> [Sentinel; 2] {
    [sentinel(Provider::Openai, CredentialKind::ApiKey), sentinel(Provider::OpenaiCodex, CredentialKind::Login)]
}

#[test]
fn a_login_has_no_account_and_comes_before_a_key() {
    let standing = Standing::new();
    let planned = plan(&task("hi", &login(), &standing)).expect("a plan");
    let auth: serde_json::Value = serde_json::from_str(file(&planned, "auth.json")).expect("JSON");
    let want = serde_json::json!({
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": null,
        "tokens": {
            "id_token": "openai-codex-sentinel",
            "access_token": "openai-codex-sentinel",
            "refresh_token": "rt-sentinel",
        },
        "last_refresh": "2026-11-30T12:00:00Z",
    });
    assert_eq!(auth, want);
    let planned = plan(&task("hi", &login()[..1], &standing)).expect("a plan");
    let auth: serde_json::Value = serde_json::from_str(file(&planned, "auth.json")).expect("JSON");
    assert_eq!(auth, serde_json::json!({ "auth_mode": "apikey", "OPENAI_API_KEY": "openai-sentinel" }));
    let other = [sentinel(Provider::Anthropic, CredentialKind::ApiKey)];
    assert!(matches!(plan(&task("hi", &other, &standing)), Err(PlanFault::NoSentinel { .. })));
}

#[test]
fn the_configuration_is_sound_for_any_path_and_any_text() {
    let standing = Standing::new();
    for odd in ["/s/plain", "/s/with space", "/s/it's \"quoted\"", "/s/back\\slash\\u0041", "/s/größe/日本", "/s/a\tb"]
    {
        let catalog = Path::new(odd).join("models.json");
        let sentinels = login();
        let mut task = task("hi", &sentinels, &standing);
        (task.home, task.catalog, task.system) = (Path::new(odd), Some(catalog.as_path()), Some(odd));
        let planned = plan(&task).expect("a plan");
        let read: Table = file(&planned, "config.toml").parse().expect(odd);
        assert_eq!(read["model_catalog_json"].as_str(), catalog.to_str(), "{odd}");
        assert_eq!(read["developer_instructions"].as_str(), Some(odd));
        assert_eq!(read["otel"]["metrics_exporter"].as_str(), Some("none"));
        assert_eq!(planned.variables, [("CODEX_HOME", odd.to_owned())]);
    }
}

#[test]
fn root_keys_stand_before_the_tables() {
    let standing = Standing::from([(
        "config.toml",
        b"model = \"m\"\nweb_search = \"live\"\n[mcp_servers.a]\ncommand = \"x\"\n".to_vec(),
    )]);
    let planned = plan(&task("hi", &login(), &standing)).expect("a plan");
    let text = file(&planned, "config.toml");
    let first_table = text.find("\n[").expect("a table");
    let search_off = "web_search = \"disabled\"\n";
    for key in ["approval_policy = ", "sandbox_mode = ", "check_for_update_on_startup = ", "model = ", search_off] {
        assert!(text.find(key).is_some_and(|at| at < first_table), "{key} in {text}");
    }
}

#[test]
fn a_broken_configuration_of_the_users_ends_the_launch() {
    for bad in [&b"model = "[..], b"\xff", b"a = 1\na = 2"] {
        let standing = Standing::from([("config.toml", bad.to_vec())]);
        let fault = plan(&task("hi", &login(), &standing)).expect_err("refused");
        assert!(fault.to_string().contains("config.toml") && fault.code() == 73, "{fault}");
    }
}

#[test]
fn the_prompt_is_the_last_argument_or_comes_through_stdin_alone() {
    let standing = Standing::new();
    let sentinels = login();
    let planned = plan(&task("--help", &sentinels, &standing)).expect("a plan");
    assert_eq!(planned.arguments.join(" "), "exec --json --skip-git-repo-check -- --help");
    for through in ["a".repeat(ARGUMENT_LIMIT + 1), "-".to_owned()] {
        let planned = plan(&task(&through, &sentinels, &standing)).expect("a plan");
        assert_eq!(planned.arguments.join(" "), "exec --json --skip-git-repo-check -- -");
        assert_eq!(planned.stdin.as_deref(), Some(through.as_str()));
    }
}

#[test]
fn a_prompt_longer_than_codex_takes_is_refused_with_the_limit() {
    let standing = Standing::new();
    let sentinels = login();
    assert!(plan(&task(&"ü".repeat(PROMPT_LIMIT), &sentinels, &standing)).is_ok(), "characters count, not bytes");
    let long = "a".repeat(PROMPT_LIMIT + 1);
    let fault = plan(&task(&long, &sentinels, &standing)).expect_err("refused");
    assert!(fault.to_string().contains("1048576") && fault.code() == 64, "{fault}");
}
