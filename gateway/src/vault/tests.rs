//! The vault against variables, files and logins that come, change and end.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use box_spec::{Agent, CredentialKind, Provider};
use jiff::{SignedDuration, Timestamp};

use super::{
    LoginConfig, Malformed, Outage, Role, SecretConfig, SecretName, Source, SourceFault, Vault, VaultFault, Whose,
};

fn secret(source: Source) -> Vec<SecretConfig> {
    vec![SecretConfig {
        name: SecretName::new("model"),
        whose: Whose::Provider(Role { provider: Provider::Anthropic, kind: CredentialKind::Login, account: None }),
        source,
        expires: None,
    }]
}

fn with_env(value: Option<&str>) -> Result<Vault, Vec<VaultFault>> {
    let value = value.map(OsString::from);
    Vault::open_with(secret(Source::Env("KEY".to_owned())), None, move |_| value.clone())
}

fn with_file(path: &Path) -> Result<Vault, Vec<VaultFault>> {
    Vault::open(secret(Source::File(path.to_owned())))
}

fn value(vault: &Vault) -> Result<String, Outage> {
    vault.credential(&SecretName::new("model")).map(|credential| credential.expose().to_owned())
}

#[test]
fn a_credential_is_not_used_in_its_last_minute() {
    let after = |seconds| Timestamp::now() + SignedDuration::from_secs(seconds);
    let ends = [(3_600, true), (90, true), (30, false), (-1, false)].map(|(seconds, usable)| (after(seconds), usable));
    for (expires, usable) in ends.into_iter().chain([(Timestamp::MIN, false), (Timestamp::MAX, true)]) {
        let mut secrets = secret(Source::Env("KEY".to_owned()));
        secrets[0].expires = Some(expires);
        let vault = Vault::open_with(secrets, None, |_| Some("sk-real".into())).expect("opened");
        assert_eq!(value(&vault).is_ok(), usable, "{expires}");
        assert_eq!(vault.available(Provider::Anthropic).is_some(), usable, "{expires}");
    }
}

#[test]
fn a_secret_that_is_written_as_before_is_kept_as_it_is() {
    let env = |name: &str, variable: &str| SecretConfig {
        name: SecretName::new(name),
        ..secret(Source::Env(variable.to_owned())).remove(0)
    };
    let before = Vault::open_with(vec![env("kept", "A"), env("moved", "A"), env("gone", "A")], None, |_| {
        Some("sk-first".into())
    });
    let before = before.expect("opened");
    let after = vec![env("moved", "B"), env("kept", "A"), env("new", "A")];
    let after = Vault::open_with(after, Some(&before), |variable| Some(format!("sk-second-{variable}").into()));
    let after = after.expect("opened");
    let said = |name: &str| after.credential(&SecretName::new(name)).map(|credential| credential.expose().to_owned());
    // A variable is read once: what is written as before has the value that it had.
    assert_eq!(said("kept").as_deref(), Ok("sk-first"));
    assert_eq!(said("moved").as_deref(), Ok("sk-second-B"));
    assert_eq!(said("new").as_deref(), Ok("sk-second-A"));
    assert!(matches!(said("gone"), Err(Outage::Unknown { .. })));
    let order: Vec<_> = after.status().into_iter().map(|status| status.name.as_str().to_owned()).collect();
    assert_eq!(order, ["moved", "kept", "new"]);
}

#[test]
fn a_missing_secret_is_an_outage_and_a_malformed_one_a_fault() {
    assert_eq!(value(&with_env(Some("sk-real\n")).expect("opened")).as_deref(), Ok("sk-real"));
    for unset in [None, Some("")] {
        let vault = with_env(unset).expect("opened");
        assert!(matches!(value(&vault), Err(Outage::EnvUnset { .. })));
        assert_eq!(vault.available(Provider::Anthropic), None);
    }
    let faults = with_env(Some("sk-\nreal")).expect_err("a fault");
    assert_eq!(faults[0].fault, SourceFault::Env("KEY".to_owned(), Malformed::Inner));
    assert_eq!(
        faults[0].to_string(),
        "secret model: the environment variable KEY holds a control character or a space inside the value"
    );
}

#[test]
fn a_replaced_file_is_read_again_and_a_spoiled_one_gives_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    let vault = with_file(&path).expect("a missing file is no fault");
    assert!(matches!(value(&vault), Err(Outage::File { fault: SourceFault::Missing(_), .. })));
    for text in ["sk-one\n", "sk-two\r\n", " sk-six\t"] {
        crate::files::write_private(&path, text.as_bytes()).expect("written");
        assert_eq!(value(&vault).as_deref(), Ok(text.trim()), "replaced");
    }
    // In place, of the same length, within the same tick of the clock.
    fs::write(&path, " sk-ten\t").expect("written");
    assert_eq!(value(&vault).as_deref(), Ok("sk-ten"));
    assert_eq!(vault.available(Provider::Anthropic), Some(CredentialKind::Login));
    fs::write(&path, "").expect("written");
    assert!(matches!(value(&vault), Err(Outage::File { fault: SourceFault::File(_, Malformed::Empty), .. })));
    assert_eq!(vault.available(Provider::Anthropic), None);
    assert!(vault.status()[0].outage.is_some());
}

#[test]
fn the_first_usable_secret_of_a_provider_is_its_credential() {
    let key = SecretConfig {
        name: SecretName::new("key"),
        whose: Whose::Provider(Role { provider: Provider::Anthropic, kind: CredentialKind::ApiKey, account: None }),
        ..secret(Source::Env("KEY".to_owned())).remove(0)
    };
    let mut both = secret(Source::Env("LOGIN".to_owned()));
    both.push(key);
    let vault =
        Vault::open_with(both, None, |variable| (variable == "KEY").then(|| OsString::from("sk"))).expect("opened");
    assert_eq!(vault.available(Provider::Anthropic), Some(CredentialKind::ApiKey));
    assert_eq!(vault.available(Provider::Openai), None);
}

#[test]
fn a_file_is_used_while_it_is_there_and_the_login_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, login) = (folder.path().join("secret"), folder.path().join("login"));
    fs::create_dir(&login).expect("a folder");
    let config =
        LoginConfig { agent: Agent::Claude, folder: login.clone(), unsafe_refresh_dial: None, refresh_ca: None };
    let mut secrets = secret(Source::FileOrLogin(path.clone(), config));
    secrets[0].whose = Whose::ByShape(Provider::Anthropic);
    let vault = Vault::open(secrets).expect("opened");
    let seen = || (value(&vault).ok(), vault.available(Provider::Anthropic), vault.status()[0].kind);
    assert!(matches!(value(&vault), Err(Outage::File { fault: SourceFault::BothMissing(..), .. })));
    assert_eq!((seen(), vault.status()[0].provider), ((None, None, None), Some(Provider::Anthropic)));
    let text = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-mine-of-the-host","refreshToken":"sk-ant-ort01-of-the-host","expiresAt":4102444800000}}"#;
    crate::files::write_private(&login.join(".credentials.json"), text.as_bytes()).expect("written");
    let kind = Some(CredentialKind::Login);
    assert_eq!(seen(), (Some("sk-ant-oat01-mine-of-the-host".to_owned()), kind, kind));
    assert!(vault.login(&SecretName::new("model")).is_some() && vault.status()[0].source.contains("since there is no"));
    crate::files::write_private(&path, b"sk-ant-api03-key-of-the-house").expect("written");
    let kind = Some(CredentialKind::ApiKey);
    assert_eq!(seen(), (Some("sk-ant-api03-key-of-the-house".to_owned()), kind, kind));
    assert!(vault.login(&SecretName::new("model")).is_none(), "nothing of it is refreshed meanwhile");
    assert_eq!(vault.marks().secrets.len(), 3, "a box is searched for all three, used or not");
    // What is there and no credential is an outage, and nothing else is used in its place.
    crate::files::write_private(&path, b"neither").expect("written");
    assert!(matches!(value(&vault), Err(Outage::File { fault: SourceFault::File(_, Malformed::NoShape(_)), .. })));
    fs::remove_file(&path).expect("removed");
    assert_eq!(value(&vault).as_deref(), Ok("sk-ant-oat01-mine-of-the-host"));
}

#[test]
fn a_chatgpt_login_that_has_ended_or_names_no_account_is_an_outage() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    let mut secrets = secret(Source::File(path.clone()));
    let login = Role { provider: Provider::OpenaiCodex, kind: CredentialKind::Login, account: None };
    secrets[0].whose = Whose::Provider(login);
    let vault = Vault::open(secrets).expect("opened");
    for (ends_in, usable) in [(3_600, true), (30, false), (-1, false)] {
        let exp = (Timestamp::now() + SignedDuration::from_secs(ends_in)).as_second();
        let claims = format!(r#"{{"exp":{exp},"https://api.openai.com/auth":{{"chatgpt_account_id":"a"}}}}"#);
        let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        crate::files::write_private(&path, token.as_bytes()).expect("written");
        let told = value(&vault);
        assert_eq!(told.is_ok(), usable, "{ends_in}: {told:?}");
        assert!(usable || matches!(told, Err(Outage::Expired { .. })), "{told:?}");
    }
    crate::files::write_private(&path, b"opaque").expect("written");
    assert!(matches!(value(&vault), Err(Outage::File { fault: SourceFault::File(_, Malformed::NoAccount), .. })));
}

#[test]
fn nothing_prints_a_value() {
    let vault = with_env(Some("sk-real-9")).expect("opened");
    assert!(!format!("{vault:?}").contains("sk-real-9"));
}
