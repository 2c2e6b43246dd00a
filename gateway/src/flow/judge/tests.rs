//! The judge by table: what is asked, and the verdict with its reason.

use std::path::Path;
use std::time::Duration;

use box_spec::{Agent, BoxId, CredentialKind, Provider};
use http::request::Parts;
use http::{HeaderName, Request};

use super::{Decision, Pass, decide, model_route, same_host, target};
use crate::flow::identify::{Caller, Knock, knock};
use crate::host::Target;
use crate::policy::{Grant, GrantName, HostPattern, Matching, PathPattern, Policy, Scheme, Serves};
use crate::refusal::Reason;
use crate::runs::{Ask, Exposure, RunKind, Runs};
use crate::vault::{Form, SecretName, SentAs};

struct World {
    _folder: tempfile::TempDir,
    caller: Caller,
    policy: Policy,
}

fn world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let caller = caller(folder.path());
    World { _folder: folder, caller, policy: policy() }
}

fn caller(folder: &Path) -> Caller {
    let id: BoxId = "one".parse().expect("a box id");
    let runs = Runs::open(folder, std::slice::from_ref(&id)).expect("a registry");
    let served = vec![(Provider::Anthropic, CredentialKind::Login)];
    let ask = Ask {
        box_id: id.clone(),
        agent: Agent::Claude,
        kind: RunKind::OneShot,
        namespace_init: true,
        ceiling: Some(Duration::from_secs(60)),
        served,
        exposures: ["git", "other"].map(exposure).to_vec(),
    };
    let (_run, token) = runs.claim(ask).expect("a run");
    let credentials =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("{}:x", token.expose()));
    let request = Request::builder()
        .uri("http://a.test/")
        .header("proxy-authorization", format!("Basic {credentials}"))
        .body(())
        .expect("a request");
    match knock(&runs, &id, &request) {
        Knock::Caller(caller) => caller,
        Knock::Health | Knock::Claim | Knock::Nobody(_) => panic!("the token is known"),
    }
}

/// A secret of this name, in a variable.
fn exposure(secret: &str) -> Exposure {
    let variable = format!("{}_TOKEN", secret.to_ascii_uppercase());
    Exposure { secret: SecretName::new(secret), variables: vec![variable.parse().expect("a name")] }
}

fn policy() -> Policy {
    let matching = |host: &str, methods: Option<Vec<http::Method>>, path: Option<&str>| Matching {
        methods,
        paths: path.map(|path| vec![PathPattern::parse(path).expect("a prefix")]),
        plain: host == "plain.test",
        ..Matching::at(vec![HostPattern::parse(host).expect("a pattern")])
    };
    let post = Some(vec![http::Method::POST]);
    let mut model = Grant::new(GrantName::new("model"), matching("api.anthropic.com", post, Some("/v1/messages")));
    model.secret = Some(SecretName::new("anthropic"));
    model.serves = Some(Serves::Provider(Provider::Anthropic));
    let docs = Grant::new(GrantName::new("docs"), matching("docs.test", None, None));
    let plain = Grant::new(GrantName::new("plain"), matching("plain.test", None, None));
    let mut sockets = Grant::new(GrantName::new("ws"), matching("ws.test", None, None));
    sockets.websocket = true;
    let mut git = Grant::new(GrantName::new("git"), matching("git.test", None, None));
    let header = HeaderName::from_static("x-own");
    git.secret = Some(SecretName::new("git"));
    git.serves = Some(Serves::Service(SentAs { header, form: Form::Bare { prefix: String::new() } }));
    Policy::new(vec![model, docs, plain, sockets, git])
}

fn to(text: &str) -> Target {
    Target::from_authority(text, Some(443)).expect("a target")
}

fn head(method: &str, uri: &str, fields: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

fn verdict(world: &World, target: &str, head: &Parts) -> Result<String, Reason> {
    match decide(&world.policy, &world.caller, &to(target), Scheme::Https, head) {
        Ok((Decision::Grant(grant, _), _)) => Ok(grant.name.to_string()),
        Ok((Decision::Local(route), _)) => Ok(route.code().to_owned()),
        Err(refusal) => Err(refusal.reason()),
    }
}

#[test]
fn what_is_granted_passes_and_all_else_is_refused() {
    let world = world();
    let own = world.caller.run().sentinels[0].access.clone();
    let bearer = format!("Bearer {own}");
    let foreign = "Bearer sk-ant-oat01-boxgate-sentinel-00000000000000000000000000000000";
    let basic =
        format!("Basic {}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("u:{own}")));
    let with_key = format!("/v1/messages?x={own}");
    let websocket = [
        ("upgrade", "websocket"),
        ("connection", "upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    type Case<'a> = (&'a str, &'a str, &'a str, &'a str, Vec<(&'a str, &'a str)>, Result<&'a str, Reason>);
    let table: Vec<Case<'_>> = vec![
        (
            "the model call",
            "api.anthropic.com",
            "POST",
            "/v1/messages?beta=true",
            vec![("authorization", &bearer)],
            Ok("model"),
        ),
        ("without any credential", "api.anthropic.com", "POST", "/v1/messages", vec![], Ok("model")),
        ("another method", "api.anthropic.com", "GET", "/v1/messages", vec![], Err(Reason::NoGrant)),
        ("another path", "api.anthropic.com", "POST", "/v1/files", vec![], Err(Reason::NoGrant)),
        ("a path that climbs out", "api.anthropic.com", "POST", "/v1/messages/../files", vec![], Err(Reason::NoGrant)),
        ("an escaped climb", "api.anthropic.com", "POST", "/v1/messages/%2e%2e/files", vec![], Err(Reason::NoGrant)),
        ("another port", "api.anthropic.com:8443", "POST", "/v1/messages", vec![], Err(Reason::NoGrant)),
        ("another host", "evil.test", "POST", "/v1/messages", vec![("authorization", &bearer)], Err(Reason::NoGrant)),
        ("TRACE", "docs.test", "TRACE", "/", vec![], Err(Reason::MethodNever)),
        ("trace in lower case", "docs.test", "trace", "/", vec![], Err(Reason::MethodNever)),
        ("a refresh attempt", "platform.claude.com", "POST", "/v1/oauth/token", vec![], Ok("refresh-attempt")),
        ("telemetry", "api.anthropic.com", "POST", "/api/event_logging/v2/batch", vec![], Ok("telemetry")),
        (
            "a durable credential",
            "api.anthropic.com",
            "POST",
            "/api/oauth/claude_cli/create_api_key",
            vec![],
            Err(Reason::DurableCredential),
        ),
        (
            "an upgrade to something else",
            "ws.test",
            "GET",
            "/",
            vec![("upgrade", "h2c"), ("connection", "upgrade")],
            Err(Reason::UpgradeRefused),
        ),
        (
            "a WebSocket where none is let through",
            "docs.test",
            "GET",
            "/",
            websocket.to_vec(),
            Err(Reason::UpgradeRefused),
        ),
        ("a WebSocket where one is", "ws.test", "GET", "/", websocket.to_vec(), Ok("ws")),
        ("half a handshake", "ws.test", "GET", "/", websocket[..3].to_vec(), Err(Reason::BadRequest)),
        (
            "a handshake with a field spelled twice",
            "ws.test",
            "GET",
            "/",
            [&websocket[..], &[("sec_websocket_protocol", "x")]].concat(),
            Err(Reason::BadRequest),
        ),
        (
            "a sentinel toward another host",
            "docs.test",
            "GET",
            "/",
            vec![("authorization", &bearer)],
            Err(Reason::SentinelAstray),
        ),
        ("a sentinel in Basic", "docs.test", "GET", "/", vec![("authorization", &basic)], Err(Reason::SentinelAstray)),
        ("a sentinel in the address", "api.anthropic.com", "POST", &with_key, vec![], Err(Reason::SentinelAstray)),
        (
            "a sentinel in a foreign header",
            "api.anthropic.com",
            "POST",
            "/v1/messages",
            vec![("x-note", &own)],
            Err(Reason::SentinelAstray),
        ),
        (
            "a sentinel of another run",
            "api.anthropic.com",
            "POST",
            "/v1/messages",
            vec![("authorization", foreign)],
            Err(Reason::SentinelAstray),
        ),
        (
            "two transfer codings",
            "docs.test",
            "POST",
            "/",
            vec![("transfer-encoding", "chunked"), ("transfer-encoding", "xchunked")],
            Err(Reason::BadRequest),
        ),
        (
            "a transfer coding that is not chunked",
            "docs.test",
            "POST",
            "/",
            vec![("transfer-encoding", "gzip, chunked")],
            Err(Reason::BadRequest),
        ),
        (
            "both lengths",
            "docs.test",
            "POST",
            "/",
            vec![("transfer-encoding", "chunked"), ("content-length", "6")],
            Err(Reason::BadRequest),
        ),
        ("a signed length", "docs.test", "POST", "/", vec![("content-length", "+6")], Err(Reason::BadRequest)),
        (
            "two lengths",
            "docs.test",
            "POST",
            "/",
            vec![("content-length", "6"), ("content-length", "7")],
            Err(Reason::BadRequest),
        ),
    ];
    for (name, host, method, path, fields, expected) in table {
        let got = verdict(&world, host, &head(method, path, &fields));
        assert_eq!(got, expected.map(str::to_owned), "{name}");
    }
}

#[test]
fn whose_sentinel_a_head_carries_is_told_whatever_becomes_of_it() {
    let world = world();
    let model = world.caller.run().sentinels[0].access.clone();
    let git = world.caller.run().sentinel_for(&SecretName::new("git")).expect("a sentinel").to_owned();
    let basic = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("me:{git}"));
    let foreign = "boxgate-sentinel-00000000000000000000000000000000";
    for (uri, name, value, whose) in [
        ("/".to_owned(), "authorization", format!("Bearer {model}"), "anthropic"),
        ("/".to_owned(), "authorization", format!("Basic {basic}"), "secret:git"),
        ("/".to_owned(), "authorization", "Bearer of my own".to_owned(), ""),
        ("/".to_owned(), "authorization", format!("Bearer {foreign}"), "astray"),
        ("/".to_owned(), "x-note", format!("it is {model}"), "astray"),
        (format!("/?key={git}"), "accept", "*/*".to_owned(), "astray"),
    ] {
        let told = super::Whose::in_head(&world.caller, &head("GET", &uri, &[(name, &value)]));
        assert_eq!(told.0, whose, "{uri} {name}: {value}");
    }
}

#[test]
fn a_services_sentinel_goes_to_its_own_service_in_a_credentials_place() {
    let world = world();
    let of = |secret: &str| world.caller.run().sentinel_for(&SecretName::new(secret)).expect("a sentinel").to_owned();
    let (own, other) = (of("git"), of("other"));
    let model = world.caller.run().sentinels[0].access.clone();
    let foreign = "boxgate-sentinel-00000000000000000000000000000000".to_owned();
    let basic =
        |pair: String| format!("Basic {}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pair));
    for (name, host, field, value, path, is_let) in [
        ("a bearer", "git.test", "authorization", format!("Bearer {own}"), "/", true),
        ("a password", "git.test", "authorization", basic(format!("me:{own}")), "/", true),
        ("a user name", "git.test", "authorization", basic(format!("{own}:")), "/", true),
        ("the service's own header", "git.test", "x-own", own.clone(), "/", true),
        ("that header in another spelling", "git.test", "x_own", own.clone(), "/", true),
        ("a header that carries no credential", "git.test", "x-note", own.clone(), "/", false),
        ("the address", "git.test", "accept", "*/*".to_owned(), &format!("/?token={own}"), false),
        ("another secret's", "git.test", "authorization", format!("Bearer {other}"), "/", false),
        ("another secret's in Basic", "git.test", "authorization", basic(format!("me:{other}")), "/", false),
        ("a provider's", "git.test", "authorization", format!("Bearer {model}"), "/", false),
        ("another run's", "git.test", "authorization", format!("Bearer {foreign}"), "/", false),
        ("toward another host", "docs.test", "authorization", format!("Bearer {own}"), "/", false),
        ("toward another host in Basic", "docs.test", "authorization", basic(format!("me:{own}")), "/", false),
        ("toward a model", "api.anthropic.com", "authorization", format!("Bearer {own}"), "/v1/messages", false),
    ] {
        let got = verdict(&world, host, &head("POST", path, &[(field, &value)]));
        let expected = if is_let { Ok("git".to_owned()) } else { Err(Reason::SentinelAstray) };
        assert_eq!(got, expected, "{name}");
    }
}

#[test]
fn a_near_miss_names_the_grant_and_the_way_to_widen_it() {
    let world = world();
    let asked = head("GET", "/v1/messages", &[]);
    let refusal =
        decide(&world.policy, &world.caller, &to("api.anthropic.com"), Scheme::Https, &asked).expect_err("a refusal");
    assert_eq!(refusal.grant(), Some("model"));
    assert!(
        refusal.hint().contains("\"model\"") && refusal.hint().contains("method") && refusal.hint().contains("policy"),
        "{}",
        refusal.hint()
    );
}

#[test]
fn the_host_is_the_target_once_and_nothing_else() {
    let target = to("api.test");
    let good: [(&str, &[(&str, &str)]); 5] = [
        ("/x", &[("host", "api.test")]),
        ("/x", &[("host", "API.TEST")]),
        ("/x", &[("host", "api.test:443")]),
        ("/x", &[("host", "api.test.")]),
        ("https://api.test/x", &[("host", "api.test")]),
    ];
    for (uri, fields) in good {
        assert!(same_host::check(&target, Scheme::Https, &head("GET", uri, fields)).is_ok(), "{uri} {fields:?}");
    }
    type Bad<'a> = (&'a str, &'a [(&'a str, &'a str)], Reason);
    let bad: [Bad<'_>; 8] = [
        ("/x", &[], Reason::BadRequest),
        ("/x", &[("host", "api.test"), ("host", "api.test")], Reason::BadRequest),
        ("/x", &[("host", "api.test"), ("host", "evil.test")], Reason::BadRequest),
        ("/x", &[("host", "evil.test")], Reason::HostMismatch),
        ("/x", &[("host", "api.test:8443")], Reason::HostMismatch),
        ("/x", &[("host", "")], Reason::HostMismatch),
        ("https://evil.test/x", &[("host", "api.test")], Reason::HostMismatch),
        ("http://api.test/x", &[("host", "api.test")], Reason::HostMismatch),
    ];
    for (uri, fields, reason) in bad {
        let got = same_host::check(&target, Scheme::Https, &head("GET", uri, fields));
        assert_eq!(got.err().map(|refusal| refusal.reason()), Some(reason), "{uri} {fields:?}");
    }
}

#[test]
fn a_malformed_connect_target_is_refused() {
    for (authority, good) in [
        ("api.test:443", true),
        ("api.test", false),
        ("api.test:0", false),
        ("user@api.test:443", false),
        ("[::1]:443", true),
    ] {
        let request = Request::builder().method("CONNECT").uri(authority).body(()).expect("a request");
        assert_eq!(target(&request).is_ok(), good, "{authority}");
    }
}

#[test]
fn only_model_routes_take_the_shape_of_their_provider() {
    assert_eq!(model_route(&to("api.anthropic.com"), "/v1/messages"), Some(Provider::Anthropic));
    assert_eq!(model_route(&to("api.anthropic.com"), "/v1/messages/count_tokens"), Some(Provider::Anthropic));
    assert_eq!(model_route(&to("api.anthropic.com"), "/v1/files"), None);
    assert_eq!(model_route(&to("evil.test"), "/v1/messages"), None);
}

#[test]
fn a_pass_shows_its_caller_and_target_and_nothing_more() {
    let pass = Pass { caller: world().caller, target: to("api.test") };
    assert_eq!((pass.caller().box_id().as_str(), pass.target().to_string()), ("one", "api.test:443".to_owned()));
}
