//! Put: a login that a person has just made, into the file where its agent would have it.

use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::form::{Form, Rotated};
use super::{LOCK, LoginConfig, LoginFault, can_be_kept, try_room};
use crate::files::{self, FileError};
use crate::vault::credential::{Credential, Role, Whose};
use crate::vault::source::{self, SourceFault};
use crate::vault::token::Claims;

/// Takes the lock that keeps refreshes away; `None` while one is under way.
///
/// # Errors
/// The folder cannot be made, or does not take it.
pub fn lock(config: &LoginConfig) -> Result<Option<File>, FileError> {
    files::create_private_dir(&config.folder)?;
    files::lock_file(&config.folder.join(LOCK))
}

/// Looks whether a login could be kept, before a person makes one.
///
/// # Errors
/// It could not; says what to put right.
pub fn prepare(config: &LoginConfig, role: &Role) -> Result<(), SourceFault> {
    let form = Form::of(config.agent, role.provider).ok_or_else(|| SourceFault::Missing(config.folder.clone()))?;
    let path = config.folder.join(form.file);
    let unwritable = |error: FileError| SourceFault::Unwritable(path.clone(), error.kind());
    files::create_private_dir(&config.folder).map_err(unwritable)?;
    before(&path, &config.folder)?;
    try_room(&path, &config.folder)
}

/// Writes the login, under the lock, and tells where. Of a file that is there all else stays.
///
/// # Errors
/// It could not be kept there, or the house could not use it: then nothing is changed.
pub fn put(config: &LoginConfig, role: &Role, given: &Rotated, scopes: Option<&str>) -> Result<PathBuf, SourceFault> {
    let Some(form) = Form::of(config.agent, role.provider) else {
        return Err(SourceFault::Missing(config.folder.clone()));
    };
    let path = config.folder.join(form.file);
    let fault = |fault| SourceFault::Login(path.clone(), fault);
    let before = before(&path, &config.folder)?;
    let account = role.account.clone().or_else(|| Claims::of(given.access.expose()).account);
    let account = account.or_else(|| Claims::of(given.id_token.as_ref()?.expose()).account);
    let text = before.as_deref().map_or("{}", String::as_str);
    let fresh = form.begin(text, given, scopes, account.as_ref(), Timestamp::now());
    let fresh = fresh.ok_or_else(|| fault(LoginFault::NotJson))?;
    // What could not be used is not written over what perhaps can.
    let tokens = form.read(&fresh).map_err(fault)?;
    Credential::new(&Whose::Provider(Role { account, ..role.clone() }), tokens.access)
        .map_err(|malformed| SourceFault::File(path.clone(), malformed))?;
    let written = match before {
        Some(_) => files::replace_alike(&path, fresh.as_bytes()),
        None => files::write_private(&path, fresh.as_bytes()),
    };
    written.map_err(|error| SourceFault::Unwritable(path.clone(), error.kind()))?;
    Ok(path)
}

/// The file as it is, where there is one that may be replaced.
fn before(path: &Path, folder: &Path) -> Result<Option<zeroize::Zeroizing<String>>, SourceFault> {
    if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        return Err(SourceFault::Login(path.to_owned(), LoginFault::Linked));
    }
    match source::read_text(path) {
        Ok(text) => {
            can_be_kept(path, folder)?;
            Ok(Some(text))
        }
        Err(SourceFault::Missing(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use box_spec::{Agent, CredentialKind, Provider};
    use jiff::{SignedDuration, Timestamp};

    use super::{Role, lock, put};
    use crate::vault::LoginConfig;
    use crate::vault::login::Rotated;
    use crate::vault::source::SourceFault;

    const ACCOUNT: &str =
        "eyJhbGciOiJub25lIn0.eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoiYWNjLTEifX0.eA";

    fn given(access: &str, id_token: Option<&str>) -> Rotated {
        let expires = Timestamp::now() + SignedDuration::from_hours(1);
        Rotated::of(access, Some("r-new"), id_token, expires, None).expect("tokens")
    }

    fn login(agent: Agent, provider: Provider, folder: &std::path::Path) -> (LoginConfig, Role) {
        let config = LoginConfig { agent, folder: folder.to_owned(), unsafe_refresh_dial: None, refresh_ca: None };
        (config, Role { provider, kind: CredentialKind::Login, account: None })
    }

    #[test]
    fn a_first_login_is_private_and_whole_in_each_agents_form() {
        let above = tempfile::tempdir().expect("a folder");
        for (agent, provider, file, parts) in [
            (
                Agent::Claude,
                Provider::Anthropic,
                ".credentials.json",
                ["\"accessToken\":\"a-new\"", "\"scopes\":[\"x\",\"y\"]"],
            ),
            (Agent::Pi, Provider::Anthropic, "auth.json", ["\"type\":\"oauth\"", "\"access\":\"a-new\""]),
        ] {
            let folder = above.path().join(agent.as_str());
            let (config, role) = login(agent, provider, &folder);
            let held = lock(&config).expect("a lock");
            assert!(held.is_some() && lock(&config).expect("asked").is_none(), "one at a time");
            let path = put(&config, &role, &given("a-new", None), Some("x y")).expect("put");
            assert_eq!(path, folder.join(file));
            let text = fs::read_to_string(&path).expect("read");
            assert!(parts.iter().all(|part| text.contains(part)) && text.contains("r-new"), "{text}");
            assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o7777, 0o600);
            assert_eq!(fs::metadata(&folder).expect("a folder").permissions().mode() & 0o7777, 0o700);
        }
    }

    #[test]
    fn a_second_login_takes_the_place_of_the_first_and_of_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth.json");
        fs::write(&path, r#"{"OPENAI_API_KEY":"sk-mine","auth_mode":"apikey", "z":1e2,"tokens":null}"#)
            .expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        let (config, role) = login(Agent::Codex, Provider::OpenaiCodex, folder.path());
        put(&config, &role, &given(ACCOUNT, Some("i.d.t")), None).expect("put");
        let text = fs::read_to_string(&path).expect("read");
        for part in
            ["\"OPENAI_API_KEY\":\"sk-mine\"", " \"z\":1e2", "\"account_id\":\"acc-1\"", "\"auth_mode\":\"chatgpt\""]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let parsed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&parsed["tokens"]["access_token"], &parsed["tokens"]["refresh_token"]),
            (&ACCOUNT.into(), &"r-new".into())
        );
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o7777, 0o640);
    }

    #[test]
    fn what_could_not_be_used_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth.json");
        let (config, role) = login(Agent::Codex, Provider::OpenaiCodex, folder.path());
        let without_account = put(&config, &role, &given("opaque", None), None).expect_err("no account");
        assert!(matches!(without_account, SourceFault::File(..)) && !path.exists(), "{without_account}");
        for text in ["[]", "{", ""] {
            fs::write(&path, text).expect("written");
            assert!(matches!(put(&config, &role, &given(ACCOUNT, None), None), Err(SourceFault::Login(..))), "{text}");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        fs::rename(&path, folder.path().join("other")).expect("moved");
        symlink(folder.path().join("other"), &path).expect("a link");
        assert!(matches!(put(&config, &role, &given(ACCOUNT, None), None), Err(SourceFault::Login(..))));
        assert_eq!(fs::read_to_string(folder.path().join("other")).expect("read"), "");
    }
}
