//! Services in a good file: how each secret is sent, and which box is given which stand-in.

use super::loaded;
use crate::vault::{Form, SentAs, Whose};

#[test]
fn a_services_secret_is_sent_as_the_secret_says_or_as_the_grant_does() {
    let (_folder, config) = loaded(SERVICES, |_| {});
    let config = config.unwrap_or_else(|faults| panic!("{faults}"));
    assert!(config.secrets.iter().all(|secret| secret.whose == Whose::Service));
    let sent: Vec<_> =
        config.policy.grants().iter().map(|grant| (grant.name.as_str(), grant.sent_as().cloned())).collect();
    let of = |header: &'static str, form| Some(SentAs { header: http::HeaderName::from_static(header), form });
    let basic = |username: &str| Form::Basic { username: username.to_owned() };
    let bare = |prefix: &str| Form::Bare { prefix: prefix.to_owned() };
    assert_eq!(
        sent,
        [
            ("api", of("authorization", Form::Bearer)),
            ("git", of("authorization", basic("x-access-token"))),
            ("packages", of("private-token", bare(""))),
            ("uploads", of("authorization", basic("__token__"))),
            ("bot", of("authorization", bare("Bot "))),
        ]
    );
}

#[test]
fn a_box_is_given_the_stand_ins_of_what_its_grants_send() {
    let (_folder, config) = loaded(EXPOSED, |_| {});
    let config = config.unwrap_or_else(|faults| panic!("{faults}"));
    let given: Vec<_> = config
        .boxes
        .iter()
        .map(|one| {
            let named = one.exposures.iter().map(|exposure| {
                let names: Vec<_> = exposure.variables.iter().map(|name| name.as_str()).collect();
                format!("{}={}", names.join("+"), exposure.secret)
            });
            (one.id.as_str(), named.collect::<Vec<_>>().join(" "))
        })
        .collect();
    let expected = [("one", "GH_TOKEN+GITHUB_TOKEN=mine NPM_TOKEN=npm"), ("two", "GH_TOKEN=theirs NPM_TOKEN=npm")];
    assert_eq!(given, expected.map(|(id, named)| (id, named.to_owned())));
}

const EXPOSED: &str = r#"
state = "state"
[[box]]
id = "one"
door = "one.sock"
[[box]]
id = "two"
door = "two.sock"
[[secret]]
name = "mine"
expose = ["GH_TOKEN", "GITHUB_TOKEN"]
env = "BOXGATE_TEST_UNSET"
[[secret]]
name = "theirs"
expose = "GH_TOKEN"
env = "BOXGATE_TEST_UNSET"
[[secret]]
name = "npm"
expose = "NPM_TOKEN"
env = "BOXGATE_TEST_UNSET"
[[grant]]
name = "mine"
boxes = "one"
hosts = "github.test"
secret = "mine"
[[grant]]
name = "mine-api"
boxes = "one"
hosts = "api.github.test"
secret = "mine"
[[grant]]
name = "theirs"
boxes = "two"
hosts = "github.test"
secret = "theirs"
[[grant]]
name = "npm"
hosts = "npm.test"
secret = "npm"
"#;

const SERVICES: &str = r#"
state = "state"
[[secret]]
name = "github"
env = "BOXGATE_TEST_UNSET"
[[secret]]
name = "gitlab"
header = "PRIVATE-TOKEN"
env = "BOXGATE_TEST_UNSET"
[[grant]]
name = "api"
hosts = "api.github.test"
secret = "github"
[[grant]]
name = "git"
hosts = "github.test"
secret = "github"
scheme = "basic"
[[grant]]
name = "packages"
hosts = "*.gitlab.test"
secret = "gitlab"
unsafe_secret_hosts = true
[[grant]]
name = "uploads"
hosts = "upload.test"
secret = "gitlab"
scheme = "basic"
username = "__token__"
[[grant]]
name = "bot"
hosts = "chat.test"
secret = "github"
scheme = "none"
prefix = "Bot "
"#;
