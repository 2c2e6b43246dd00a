//! Model hosts and local routes as tables of sentences.

use box_spec::Provider;
use http::Method;

use super::{LocalRoute, ROUTES, Route, Shape, local_route, model_host};
use crate::host::{Host, Target};
use crate::policy::NormalPath;

#[test]
fn model_hosts_match_exactly() {
    for (host, provider) in [
        ("api.anthropic.com", Some(Provider::Anthropic)),
        ("API.Anthropic.com.", Some(Provider::Anthropic)),
        ("chatgpt.com", Some(Provider::OpenaiCodex)),
        ("api.openai.com", Some(Provider::Openai)),
        ("ab.chatgpt.com", None),
        ("chat.openai.com", None),
        ("api.anthropic.com.evil.test", None),
        ("10.0.0.1", None),
    ] {
        assert_eq!(model_host(&Host::parse(host).expect("a host")), provider, "{host}");
    }
}

#[test]
fn each_local_route_is_told_from_its_neighbours() {
    use LocalRoute::{Accounts, DurableCredential, Preferences, Profile, Refresh, Settings, Telemetry};
    for (method, target, path, route) in [
        ("POST", "platform.claude.com:443", "/v1/oauth/token", Some(Refresh(Provider::Anthropic))),
        ("POST", "console.anthropic.com:443", "/v1/oauth/token", Some(Refresh(Provider::Anthropic))),
        ("GET", "platform.claude.com:443", "/v1/oauth/token", Some(DurableCredential)),
        ("POST", "platform.claude.com:8443", "/v1/oauth/token", Some(DurableCredential)),
        ("POST", "platform.claude.com:443", "//v1/oauth/%74oken/", Some(DurableCredential)),
        ("POST", "api.anthropic.com:443", "/v1/messages/..;/oauth/token", Some(DurableCredential)),
        ("POST", "platform.claude.test:443", "/v1/oauth/token", None),
        ("POST", "platform.claude.com:443", "/v1/oauth/token/x", None),
        ("GET", "api.anthropic.com:443", "/api/oauth/profile", Some(Profile(Provider::Anthropic))),
        ("POST", "api.anthropic.com:443", "/api/event_logging/v2/batch", Some(Telemetry)),
        ("POST", "api.anthropic.com:443", "/api/eval/sdk-zAZezfDKGoZuXXKe", Some(Telemetry)),
        ("POST", "api.anthropic.com:443", "/api/event_logging/../../v1/messages", None),
        ("POST", "api.anthropic.com:443", "/api/event_logging/%2e%2e/x", None),
        ("GET", "api.anthropic.com:443", "/api/claude_code/settings", Some(Settings)),
        ("GET", "api.anthropic.com:443", "/api/claude_code/policy_limits", Some(Settings)),
        ("GET", "api.anthropic.com:443", "/api/claude_cli/bootstrap", Some(Settings)),
        ("POST", "api.anthropic.com:443", "/v1/messages", None),
        ("POST", "api.anthropic.com:443", "/api/oauth/claude_cli/create_api_key", Some(DurableCredential)),
        ("POST", "api.anthropic.com:8443", "/api/oauth/claude_cli/create_api_key", Some(DurableCredential)),
        (
            "POST",
            "api.anthropic.com:443",
            "/v1/messages/..%2f..%2fapi/oauth/claude_cli/CREATE_api_key/",
            Some(DurableCredential),
        ),
        ("POST", "api.anthropic.com:443", "/api/oauth/claude_cli/create_api_key;x", Some(DurableCredential)),
        ("POST", "api.anthropic.com:443", "/v1/organizations/api_keys/k1", Some(DurableCredential)),
        ("GET", "api.anthropic.com:443", "/v1/organizations/api_keys", None),
        ("GET", "console.anthropic.com:443", "/oauth/authorize", Some(DurableCredential)),
        ("GET", "claude.ai:443", "/oauth/authorize", Some(DurableCredential)),
        ("POST", "auth.openai.com:443", "/oauth/token", Some(Refresh(Provider::OpenaiCodex))),
        ("POST", "auth.openai.com:443", "/api/accounts/oauth/token", Some(Refresh(Provider::OpenaiCodex))),
        ("GET", "auth.openai.com:443", "/oauth/token", Some(DurableCredential)),
        ("POST", "chatgpt.com:443", "/oauth/token", Some(DurableCredential)),
        ("POST", "auth.openai.com:443", "/oauth/token%20", Some(DurableCredential)),
        ("POST", "auth.openai.com:443", "/oauth/token.json", Some(DurableCredential)),
        ("GET", "auth.openai.com:443", "/oauth/authorize", Some(DurableCredential)),
        ("POST", "auth.openai.com:443", "/api/accounts/deviceauth/usercode", Some(DurableCredential)),
        ("POST", "auth.openai.com:443", "/agent/register", Some(DurableCredential)),
        ("POST", "chatgpt.com:443", "/backend-api/wham/remote/control/server/enroll", Some(DurableCredential)),
        ("POST", "api.openai.com:443", "/v1/organization/projects/p/service_accounts", Some(DurableCredential)),
        ("POST", "api.openai.com:443", "/v1/realtime/client_secrets", Some(DurableCredential)),
        ("POST", "api.openai.com:443", "/v1/realtime/sessions", Some(DurableCredential)),
        ("POST", "api.openai.com:443", "/v1/realtime/transcription_sessions/", Some(DurableCredential)),
        ("POST", "api.openai.com:443", "/v1/chatkit/sessions", Some(DurableCredential)),
        ("GET", "api.openai.com:443", "/v1/realtime/sessions", None),
        ("POST", "api.openai.com:443", "/v1/chatkit/sessions/s/cancel", None),
        ("GET", "chatgpt.com:443", "/backend-api/wham/accounts/check", Some(Accounts)),
        ("POST", "chatgpt.com:443", "/backend-api/wham/accounts/check", None),
        ("GET", "chatgpt.com:443", "/backend-api/wham/settings/user", Some(Preferences)),
        ("POST", "chatgpt.com:443", "/backend-api/wham/settings/user", None),
        ("POST", "chatgpt.com:443", "/backend-api/codex/analytics-events/events", Some(Telemetry)),
        ("POST", "chatgpt.com:443", "/backend-api/codex/analytics-events/../responses", None),
        ("GET", "chatgpt.com:443", "/backend-api/codex/models", Some(Settings)),
        ("POST", "chatgpt.com:443", "/backend-api/ps/mcp", Some(Settings)),
        ("GET", "chatgpt.com:443", "/backend-api/plugins/export/curated", Some(Settings)),
        ("POST", "chatgpt.com:443", "/backend-api/codex/responses", None),
        ("GET", "chatgpt.com:443", "/backend-api/codex/responses", None),
        ("POST", "chatgpt.com:443", "/backend-api/codex/responses/compact", None),
        ("POST", "ab.chatgpt.com:443", "/otlp/v1/metrics", Some(Telemetry)),
        ("POST", "chatgpt.com:443", "/otlp/v1/metrics", None),
        ("POST", "api.openai.com:443", "/v1/responses", None),
        ("POST", "api.openai.com:443", "/v1/chat/completions", None),
        ("GET", "pi.dev:443", "/api/latest-version", Some(Settings)),
        ("GET", "pi.dev:443", "/api/models/providers/anthropic", Some(Settings)),
        ("GET", "pi.dev:443", "/api/report-install", Some(Telemetry)),
        ("GET", "pi.dev:443", "/install.sh", None),
        ("GET", "radius.pi.dev:443", "/api/latest-version", None),
    ] {
        let target = Target::from_authority(target, None).expect("a target");
        let asked = NormalPath::parse(path).expect("a path");
        let method = method.parse::<Method>().expect("a method");
        assert_eq!(local_route(&target, &method, &asked), route, "{method} {target} {path}");
    }
}

#[test]
fn the_table_of_local_routes_is_this_list() {
    let page = include_str!("../../../../docs/agents.md");
    let table = page.split("## What they ask for besides models").nth(1).expect("the section");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), ROUTES.len());
    for (row, Route { hosts, method, path, answer }) in rows.iter().zip(ROUTES) {
        let hosts: Vec<String> = hosts.iter().map(|host| format!("`{host}`")).collect();
        let path = match path {
            Shape::Is(exact) => format!("`{exact}`"),
            Shape::Begins(start) => format!("`{start}…`"),
        };
        let method = method.as_ref().map_or("any", Method::as_str);
        assert_eq!(row[..4], [hosts.join(", ").as_str(), method, path.as_str(), &format!("`{}`", answer.code())]);
    }
}
