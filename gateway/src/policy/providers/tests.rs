//! Model hosts and local routes as tables of sentences.

use box_spec::Provider;
use http::Method;

use super::{LocalRoute, local_route, model_host};
use crate::host::{Host, Target};
use crate::policy::NormalPath;

#[test]
fn model_hosts_match_exactly() {
    for (host, provider) in [
        ("api.anthropic.com", Some(Provider::Anthropic)),
        ("API.Anthropic.com.", Some(Provider::Anthropic)),
        ("chatgpt.com", Some(Provider::OpenaiCodex)),
        ("ab.chatgpt.com", None),
        ("api.anthropic.com.evil.test", None),
        ("10.0.0.1", None),
    ] {
        assert_eq!(model_host(&Host::parse(host).expect("a host")), provider, "{host}");
    }
}

#[test]
fn each_local_route_is_told_from_its_neighbours() {
    use LocalRoute::{DurableCredential, Profile, Refresh, Settings, Telemetry};
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
    ] {
        let target = Target::from_authority(target, None).expect("a target");
        let asked = NormalPath::parse(path).expect("a path");
        let method = method.parse::<Method>().expect("a method");
        assert_eq!(local_route(&target, &method, &asked), route, "{method} {target} {path}");
    }
}
