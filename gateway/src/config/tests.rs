//! A good file read whole, and a folder of bad ones, each with the exact complaint.

mod presets;
mod services;

use std::fs;
use std::path::Path;
use std::time::Duration;

use box_spec::{Agent, CredentialKind, Provider};

use super::{Config, ConfigFaults, DoorConfig, Limits, Places, load, places};
use crate::ledger::SyncMode;
use crate::policy::{Grant, Serves};
use crate::vault::{Role, Source, Whose};

/// Loads a text as `house.toml` of a folder of its own, in which `change` may put more.
fn loaded(text: &str, change: impl FnOnce(&Path)) -> (tempfile::TempDir, Result<Config, ConfigFaults>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("house.toml");
    fs::write(&file, text).expect("written");
    change(folder.path());
    let config = load(&file);
    (folder, config)
}

#[test]
fn a_house_has_a_limit_of_secrets() {
    let secret = |number| {
        format!("[[secret]]\nname = \"s{number}\"\nprovider = \"openai\"\nkind = \"api-key\"\nfile = \"none\"\n")
    };
    for (count, is_good) in [(256, true), (257, false)] {
        let text: String = (0..count).map(secret).collect();
        let (_folder, config) = loaded(&format!("state = \"state\"\n{text}"), |_| {});
        let said = config.err().map(|faults| faults.to_string());
        assert_eq!(said.is_none(), is_good, "{count}");
        assert!(said.is_none_or(|said| said.contains("at most 256 secrets") && said.lines().count() == 1));
    }
}

#[test]
fn what_a_fault_repeats_tells_a_terminal_nothing() {
    let text = "state = \"s\"\n[[grant]]\nname = \"g\"\nhosts = [\"a.test\"]\nsecret = \"a\\u001b[2J\\tb\\nc\"\n";
    let (_folder, config) = loaded(text, |_| {});
    let said = config.expect_err("no such secret").to_string();
    assert!(!said.lines().any(|line| line.contains(char::is_control)), "{said:?}");
    assert!(said.contains("a\\u{1b}[2J\\tb\\nc") && said.lines().count() == 1, "{said:?}");
}

#[test]
fn a_full_file_is_read_as_it_says() {
    let (folder, config) = loaded(FULL, |folder| {
        let key = rcgen::KeyPair::generate().expect("a key");
        let ca = rcgen::CertificateParams::default().self_signed(&key).expect("signed");
        fs::write(folder.join("standin-ca.pem"), ca.pem()).expect("written");
        crate::files::write_private(&folder.join("secret"), b"sk-real\n").expect("written");
    });
    let config = config.unwrap_or_else(|faults| panic!("{faults}"));
    let base = folder.path();
    assert_eq!(config.state, base.join("state"));
    assert_eq!(config.operator_socket, base.join("op.sock"));
    assert_eq!(
        (config.ledger.file.clone(), config.ledger.sync, config.ledger.deadline),
        (base.join("l.jsonl"), SyncMode::Always, Duration::from_secs(3))
    );
    assert_eq!(config.limits, Limits { head_bytes: 8192, drain: Duration::from_millis(1500), ..Limits::default() });
    let nameservers = ["127.0.0.1:5353", "[::1]:53"].map(|address| address.parse().expect("an address"));
    assert_eq!(
        (config.dial.nameservers.as_slice(), config.dial.connect_timeout),
        (&nameservers[..], Duration::from_secs(5))
    );
    let boxes: Vec<_> =
        config.boxes.iter().map(|one| (one.id.as_str(), one.door.clone(), one.agent, one.ceiling)).collect();
    let minute = Duration::from_secs(60);
    assert_eq!(
        boxes,
        [
            ("one", DoorConfig::Socket(base.join("one.sock")), Agent::Claude, Some(minute * 60)),
            ("two", DoorConfig::Socket("/run/two.sock".into()), Agent::Pi, Some(minute / 4))
        ]
    );
    let anthropic = |kind| Whose::Provider(Role { provider: Provider::Anthropic, kind, account: None });
    let secrets: Vec<_> = config
        .secrets
        .iter()
        .map(|secret| (secret.name.as_str(), secret.whose.clone(), secret.source.clone()))
        .collect();
    assert_eq!(
        secrets,
        [
            ("anthropic", anthropic(CredentialKind::Login), Source::File(base.join("secret"))),
            ("key", anthropic(CredentialKind::ApiKey), Source::Env("BOXGATE_TEST_UNSET".to_owned())),
        ]
    );
    let model = Some(Serves::Provider(Provider::Anthropic));
    let grants: Vec<_> = config
        .policy
        .grants()
        .iter()
        .map(|grant| (grant.name.as_str(), grant.secret.is_some(), grant.serves.clone(), grant.keeps_credentials))
        .collect();
    assert_eq!(
        grants,
        [("model", true, model.clone(), false), ("docs", false, None, true), ("private", true, model, false)]
    );
    let model = &config.policy.grants()[0];
    assert_eq!(model.unsafe_dial, Some("127.0.0.1:18443".parse().expect("an address")));
    assert_eq!(model.upstream_ca.as_ref().map(|ca| ca.path().to_owned()), Some(base.join("standin-ca.pem")));
}

#[test]
fn the_smallest_file_allows_nothing_and_limits_everything() {
    let (folder, config) = loaded("state = \"state\"\n", |_| {});
    let config = config.expect("read");
    assert_eq!(config.operator_socket, folder.path().join("state/operator.sock"));
    assert_eq!(config.ledger.file, folder.path().join("state/ledger.jsonl"));
    assert_eq!(config.limits, Limits::default());
    assert!(config.boxes.is_empty() && config.policy.grants().is_empty());
}

#[test]
fn the_places_of_a_house_are_found_whatever_else_is_wrong() {
    let text =
        "state = \"state\"\nunknown = 1\n[[secret]]\nname = \"a\"\nfile = \"spoiled\"\n[ledger]\nfile = \"/l.jsonl\"\n";
    let (folder, config) = loaded(text, |folder| fs::write(folder.join("spoiled"), "two words").expect("written"));
    assert!(config.is_err());
    let found = places(&folder.path().join("house.toml")).unwrap_or_else(|faults| panic!("{faults}"));
    let state = folder.path().join("state");
    assert_eq!(found, Places { operator_socket: state.join("operator.sock"), ledger: "/l.jsonl".into(), state });
    for bad in ["state = ", "stat = \"s\"", ""] {
        let (folder, _) = loaded(bad, |_| {});
        let said = places(&folder.path().join("house.toml")).expect_err(bad).to_string();
        assert!(said.contains("house.toml:1:"), "{said}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault_of_the_whole() {
    let missing = load(Path::new("/nonexistent/house.toml")).expect_err("missing").to_string();
    assert_eq!(missing, "/nonexistent/house.toml:1:1: cannot be read (entity not found)");
    let (_folder, folder_itself) = loaded("", |folder| {
        fs::remove_file(folder.join("house.toml")).expect("removed");
        fs::create_dir(folder.join("house.toml")).expect("made");
    });
    assert!(folder_itself.expect_err("a folder").to_string().contains("cannot be read"));
}

#[test]
fn a_malformed_secret_is_named_and_its_value_is_not() {
    let text =
        "state = \"s\"\n[[secret]]\nname = \"a\"\nprovider = \"anthropic\"\nkind = \"login\"\nfile = \"secret\"\n";
    let (folder, config) = loaded(text, |folder| fs::write(folder.join("secret"), "sk-\nreal").expect("written"));
    let said = config.expect_err("malformed").to_string();
    let place = folder.path().display();
    assert_eq!(
        said,
        format!("{place}/house.toml:6:8: {place}/secret holds a control character or a space inside the value")
    );
}

/// Each `NAME.toml` of the folder must be refused with exactly what `NAME.txt` says; the folder's own path is left out.
#[test]
fn every_bad_file_is_refused_with_the_exact_complaint() {
    let folder =
        fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/it/bad-config")).expect("the folder");
    let mut seen = 0;
    for entry in fs::read_dir(&folder).expect("a listing") {
        let file = entry.expect("an entry").path();
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let expected = fs::read_to_string(file.with_extension("txt"))
            .unwrap_or_else(|_| panic!("{} has no .txt beside it", file.display()));
        let said = load(&file)
            .expect_err(&file.display().to_string())
            .to_string()
            .replace(&format!("{}/", folder.display()), "");
        // Writes what is said now, and fails below, so that what was written is read by somebody.
        if std::env::var_os("BOXGATE_BLESS").is_some() {
            fs::write(file.with_extension("txt"), format!("{said}\n")).expect("blessed");
            continue;
        }
        assert_eq!(said.trim_end(), expected.trim_end(), "{}", file.display());
        seen += 1;
    }
    assert!(seen >= 40, "only {seen} bad files were seen");
}

#[test]
fn a_websocket_is_let_through_where_the_provider_serves_one_or_the_file_says_so() {
    let secret = |provider: &str, kind: &str| {
        format!(
            "[[secret]]\nname = \"{provider}\"\nprovider = \"{provider}\"\nkind = \"{kind}\"\nenv = \"BOXGATE_TEST_UNSET\"\n"
        )
    };
    let presets = ["anthropic", "openai", "openai-codex"];
    let mut text = String::from("state = \"state\"\n");
    for provider in presets {
        text.push_str(&secret(provider, if provider == "openai" { "api-key" } else { "login" }));
        text.push_str(&format!("[[grant]]\nname = \"{provider}\"\npreset = \"{provider}\"\nsecret = \"{provider}\"\n"));
    }
    text = text.replace(
        "kind = \"login\"\nenv = \"BOXGATE_TEST_UNSET\"\n[[grant]]\nname = \"openai-codex\"",
        "kind = \"login\"\naccount_id = \"a\"\nenv = \"BOXGATE_TEST_UNSET\"\n[[grant]]\nname = \"openai-codex\"",
    );
    text.push_str("[[grant]]\nname = \"quiet\"\npreset = \"openai\"\nsecret = \"openai\"\nwebsocket = false\n");
    text.push_str("[[grant]]\nname = \"moved\"\npreset = \"openai\"\npaths = [\"/o/v1/responses\"]\n");
    text.push_str("[[grant]]\nname = \"posts\"\npreset = \"openai\"\nmethods = [\"POST\"]\nwebsocket = false\n");
    text.push_str("[[grant]]\nname = \"docs\"\nhosts = [\"docs.test\"]\n");
    text.push_str("[[grant]]\nname = \"chat\"\nhosts = [\"chat.test\"]\nwebsocket = true\n");
    let (_folder, config) = loaded(&text, |_| {});
    let config = config.unwrap_or_else(|faults| panic!("{faults}"));
    let named = |fits: fn(&Grant) -> bool| -> Vec<&str> {
        config.policy.grants().iter().filter(|grant| fits(grant)).map(|grant| grant.name.as_str()).collect()
    };
    assert_eq!(named(|grant| grant.websocket), ["openai", "openai-codex", "moved", "chat"]);
    assert_eq!(named(Grant::takes_handshakes), ["openai", "openai-codex", "quiet", "moved", "docs", "chat"]);
}

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_example_of_the_documentation_is_a_good_file() {
    let text = document("config.md");
    let example = text.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let (_folder, config) = loaded(example, |_| {});
    let config = config.unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!((config.boxes.len(), config.secrets.len(), config.policy.grants().len()), (1, 1, 2));
}

/// Every row of the documentation's first table with a key of `[limits]`: the key is known, and the default is the one told.
#[test]
fn the_documentation_tells_every_limit_and_its_default() {
    let text = document("limits.md");
    let rows = text.lines().take_while(|line| *line != "## Fixed").filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let key = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        (!key.starts_with('[')).then(|| (key.to_owned(), cells.next().unwrap_or_default().to_owned()))
    });
    let mut written = String::from("state = \"s\"\n[limits]\n");
    let mut seen = 0;
    for (key, default) in rows {
        let quote = if default.parse::<u64>().is_ok() { "" } else { "\"" };
        written.push_str(&format!("{key} = {quote}{default}{quote}\n"));
        seen += 1;
    }
    let (_folder, config) = loaded(&written, |_| {});
    assert_eq!(config.unwrap_or_else(|faults| panic!("{faults}")).limits, Limits::default());
    let fields = format!("{:?}", Limits::default()).matches(": ").count();
    assert_eq!(seen, fields, "every field of Limits has its row");
}

const FULL: &str = r#"
state = "state"
[operator]
socket = "op.sock"
[ledger]
file = "l.jsonl"
sync = "always"
deadline = "3s"
[defaults]
agent = "claude"
ceiling = "1h"
[dial]
nameservers = ["127.0.0.1:5353", "::1"]
connect_timeout = "5s"
[limits]
head_bytes = 8_192
drain = "1s500ms"
[[box]]
id = "one"
door = "one.sock"
[[box]]
id = "two"
door = "/run/two.sock"
agent = "pi"
ceiling = "15s"
[[secret]]
name = "anthropic"
provider = "anthropic"
kind = "login"
file = "secret"
[[secret]]
name = "key"
provider = "anthropic"
kind = "api-key"
env = "BOXGATE_TEST_UNSET"
[[grant]]
name = "model"
boxes = "one"
preset = "anthropic"
secret = "anthropic"
unsafe_dial = "127.0.0.1:18443"
upstream_ca = "standin-ca.pem"
[[grant]]
name = "docs"
hosts = ["*.docs.test", "bücher.test"]
ports = [443, 8443]
methods = ["get", "HEAD"]
paths = "/public"
plain = true
unsafe_keep_credentials = true
[[grant]]
name = "private"
boxes = ["one", "two"]
hosts = "model.test"
methods = "*"
secret = "anthropic"
unsafe_secret_hosts = true
"#;
