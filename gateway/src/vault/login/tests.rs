//! A login through its life: due, refreshed, kept, renewed by the host, refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use box_spec::{Agent, CredentialKind, Provider};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

use super::{Attempt, Login, LoginConfig, LoginFault, Rotated, Trouble};
use crate::vault::credential::SecretText;
use crate::vault::source::SourceFault;
use crate::vault::{Outage, Role, SecretConfig, SecretName, Source, Vault, Whose};

/// claude's own file, with what is not ours.
fn file(access: &str, refresh: &str, ends_in: i64) -> String {
    let expires = (Timestamp::now() + SignedDuration::from_secs(ends_in)).as_millisecond();
    format!(
        r#"{{"mcpOAuth":{{"a":1.0}},"claudeAiOauth":{{"accessToken":"{access}","refreshToken":"{refresh}","expiresAt":{expires},"x":[]}}}}"#
    )
}

fn write(folder: &Path, text: &str) {
    crate::files::write_private(&folder.join(".credentials.json"), text.as_bytes()).expect("written");
}

fn config(folder: &Path) -> SecretConfig {
    let login =
        LoginConfig { agent: Agent::Claude, folder: folder.to_owned(), unsafe_refresh_dial: None, refresh_ca: None };
    SecretConfig {
        name: SecretName::new("claude"),
        whose: Whose::Provider(Role { provider: Provider::Anthropic, kind: CredentialKind::Login, account: None }),
        source: Source::Login(login),
        expires: None,
    }
}

fn house(ends_in: i64) -> (TempDir, Vault, Arc<Login>) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &file("a-1", "r-1", ends_in));
    let vault = Vault::open(vec![config(folder.path())]).expect("opened");
    let login = Arc::clone(vault.login(&SecretName::new("claude")).expect("a login"));
    (folder, vault, login)
}

fn used(vault: &Vault) -> Result<String, Outage> {
    vault.credential(&SecretName::new("claude")).map(|credential| credential.expose().to_owned())
}

fn rotated(access: &str, refresh: &str) -> Rotated {
    let expires = Timestamp::now() + SignedDuration::from_hours(1);
    Rotated::of(access, Some(refresh), None, expires, None).expect("tokens")
}

fn begun(login: &Login) -> SecretText {
    login.begin(false).expect("readable").expect("an attempt").refresh
}

#[test]
fn it_is_due_five_minutes_before_its_end_and_used_until_the_last() {
    for (ends_in, due, usable) in [(3_600, false, true), (280, true, true), (30, true, false), (-99, true, false)] {
        let (_folder, vault, login) = house(ends_in);
        assert_eq!(login.due(false).is_some(), due, "{ends_in}");
        assert_eq!(used(&vault).is_ok(), usable, "{ends_in}");
        // A box may begin all the same: its first request waits for the refresh.
        assert_eq!(vault.available(Provider::Anthropic), Some(CredentialKind::Login));
        assert_eq!(vault.status()[0].outage, None);
    }
}

#[test]
fn what_the_provider_gave_is_on_disk_before_it_is_used_and_all_else_stays() {
    let (folder, vault, login) = house(-99);
    let path = folder.path().join(".credentials.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
    let spent = begun(&login);
    assert_eq!(spent.expose(), "r-1");
    login.keep(&spent, rotated("a-2", "r-2")).expect("kept");
    assert_eq!(used(&vault).as_deref(), Ok("a-2"));
    let text = fs::read_to_string(&path).expect("read");
    assert!(text.starts_with(r#"{"mcpOAuth":{"a":1.0},"#) && text.ends_with(r#""x":[]}}"#), "{text}");
    assert!(text.contains(r#""refreshToken":"r-2""#), "{text}");
    assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o640);
    assert!(login.begin(false).expect("readable").is_none(), "nothing is due any more");
}

#[test]
fn what_cannot_be_kept_is_not_used_and_its_token_is_never_sent_again() {
    let (folder, vault, login) = house(-99);
    let path = folder.path().join(".credentials.json");
    let spent = begun(&login);
    let text = fs::read_to_string(&path).expect("read");
    // Nothing can be renamed over a folder that is not empty.
    fs::remove_file(&path).expect("removed");
    fs::create_dir_all(path.join("full")).expect("a folder");
    assert!(login.keep(&spent, rotated("a-2", "r-2")).is_err());
    fs::remove_dir_all(&path).expect("removed");
    write(folder.path(), &text);
    assert!(matches!(used(&vault), Err(Outage::Expired { .. })));
    assert!(login.begin(false).expect("kept now").is_none(), "what was given is kept, and nothing sent");
    assert_eq!(used(&vault).as_deref(), Ok("a-2"));
}

#[test]
fn what_the_hosts_own_agent_put_there_wins() {
    let (folder, vault, login) = house(-99);
    let spent = begun(&login);
    write(folder.path(), &file("a-host", "r-host", 3_600));
    login.keep(&spent, rotated("a-2", "r-2")).expect("nothing to keep");
    assert_eq!(used(&vault).as_deref(), Ok("a-host"));
    // It was faster by a moment: the refusal of the old token breaks nothing.
    assert!(!login.refused(&spent, "invalid_grant"));
    assert_eq!(login.trouble(), None);
    assert!(login.begin(false).expect("readable").is_none());
}

#[test]
fn a_broken_chain_is_an_outage_until_somebody_logs_in_again() {
    let (folder, vault, login) = house(-99);
    let spent = begun(&login);
    assert!(login.refused(&spent, "invalid_grant"));
    assert_eq!(login.due(true), None, "never sent again, not even when asked to");
    let said = used(&vault).expect_err("an outage").to_string();
    assert!(said.contains("chain is broken (invalid_grant)") && said.contains("claude, then /login"), "{said}");
    assert_eq!(vault.available(Provider::Anthropic), None);
    write(folder.path(), &file("a-new", "r-new", 3_600));
    assert_eq!(used(&vault).as_deref(), Ok("a-new"));
    assert_eq!((login.trouble(), vault.status()[0].outage.clone()), (None, None));
}

#[test]
fn a_failure_puts_the_next_try_off_and_a_valid_token_is_used_meanwhile() {
    let (_folder, vault, login) = house(200);
    login.failed("unreachable");
    assert_eq!(login.due(false), None);
    assert!(login.due(true).is_some(), "an operator need not wait");
    assert_eq!(used(&vault).as_deref(), Ok("a-1"));
    assert_eq!(login.trouble(), Some(Trouble::Later { said: "unreachable".to_owned() }));
    let (_folder, vault, login) = house(-99);
    login.failed("unreachable");
    assert!(matches!(used(&vault), Err(Outage::Stale { said, .. }) if said == "unreachable"));
}

#[test]
fn a_login_that_could_not_be_kept_or_is_none_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = || Vault::open(vec![config(folder.path())]).map(drop).map_err(|faults| faults[0].fault.clone());
    assert_eq!(opened(), Ok(()), "one that is not there yet is an outage, and no fault");
    let path = folder.path().join(".credentials.json");
    write(folder.path(), "{}");
    assert!(matches!(opened(), Err(SourceFault::Login(_, LoginFault::NoLogin(..)))));
    fs::write(&path, "{\"half").expect("written");
    assert_eq!(opened(), Err(SourceFault::Login(path.clone(), LoginFault::NotJson)));
    write(folder.path(), &file("a", "r", 9));
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&path, &elsewhere).expect("moved");
    symlink(&elsewhere, &path).expect("a link");
    assert_eq!(opened(), Err(SourceFault::Login(path, LoginFault::Linked)));
}

#[test]
fn half_a_file_that_is_being_written_is_no_outage() {
    let (folder, vault, _login) = house(3_600);
    fs::write(folder.path().join(".credentials.json"), "{\"claudeAiO").expect("written");
    assert_eq!(used(&vault).as_deref(), Ok("a-1"));
}

#[test]
fn of_two_gateways_one_at_a_time_refreshes() {
    let (folder, _vault, login) = house(-99);
    let other = Vault::open(vec![config(folder.path())]).expect("opened");
    let other = other.login(&SecretName::new("claude")).expect("a login");
    let lock = login.lock().expect("a lock");
    assert!(lock.is_some() && other.lock().expect("asked").is_none());
    drop(lock);
    assert!(other.lock().expect("asked").is_some());
    let Attempt { refresh, scopes } = login.begin(false).expect("readable").expect("an attempt");
    login.keep(&refresh, rotated("a-2", "r-2")).expect("kept");
    assert_eq!(scopes, None);
    assert!(other.begin(false).expect("readable").is_none(), "adopted");
}
