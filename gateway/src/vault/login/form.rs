//! The form of a login: which file each agent keeps it in, where in it the tokens stand, and what a refresh writes there.

use box_spec::{Agent, Provider};
use jiff::Timestamp;
use serde_json::Value;
use zeroize::Zeroizing;

use super::LoginFault;
use super::splice::{quoted, splice};
use crate::vault::credential::SecretText;
use crate::vault::source;
use crate::vault::token::{AccountId, Claims};

/// Where one agent keeps its login at one provider. A path names the members of the file that lead to a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Form {
    /// The name of the file in the folder.
    pub(super) file: &'static str,
    /// What a person types to log in again.
    pub(super) command: &'static str,
    access: Path,
    refresh: Path,
    /// Milliseconds since 1970.
    expires: Option<Path>,
    account: Option<Path>,
    id_token: Option<Path>,
    scopes: Option<Path>,
    refresh_expires: Option<Path>,
    /// RFC 3339.
    refreshed: Option<Path>,
    /// What says that there is a login of this kind, as JSON.
    marks: &'static [(Path, &'static str)],
}

type Path = &'static [&'static str];

/// What a file of this form holds.
pub(super) struct Tokens {
    pub(super) access: SecretText,
    pub(super) refresh: Option<SecretText>,
    pub(super) expires: Option<Timestamp>,
    pub(super) account: Option<AccountId>,
    /// What it was logged in for, separated by blanks.
    pub(super) scopes: Option<String>,
}

/// What a provider gave for a refresh token.
pub struct Rotated {
    pub(crate) access: SecretText,
    /// `None`: the one that was sent goes on being good (RFC 6749 §6).
    pub(crate) refresh: Option<SecretText>,
    pub(crate) id_token: Option<SecretText>,
    pub(crate) expires: Timestamp,
    pub(crate) refresh_expires: Option<Timestamp>,
}

impl Rotated {
    /// `None` where one of them cannot be a token.
    pub(crate) fn of(
        access: &str,
        refresh: Option<&str>,
        id_token: Option<&str>,
        expires: Timestamp,
        refresh_expires: Option<Timestamp>,
    ) -> Option<Self> {
        let secret = |text: &str| source::parse(text.as_bytes()).ok();
        Some(Self {
            access: secret(access)?,
            refresh: refresh.map(|text| secret(text).ok_or(())).transpose().ok()?,
            // Nothing is asked with it: one that cannot be read is no reason to lose the others.
            id_token: id_token.and_then(secret),
            expires,
            refresh_expires,
        })
    }
}

impl Form {
    /// `None` where this agent keeps no login at this provider.
    pub(super) const fn of(agent: Agent, provider: Provider) -> Option<Self> {
        match (agent, provider) {
            (Agent::Claude, Provider::Anthropic) => Some(CLAUDE),
            (Agent::Codex, Provider::OpenaiCodex) => Some(CODEX),
            (Agent::Pi, Provider::Anthropic) => Some(PI_ANTHROPIC),
            (Agent::Pi, Provider::OpenaiCodex) => Some(PI_CODEX),
            (Agent::Claude | Agent::Codex | Agent::Pi, _) => None,
        }
    }

    pub(super) fn read(&self, text: &str) -> Result<Tokens, LoginFault> {
        let file: Value = serde_json::from_str(text).map_err(|_| LoginFault::NotJson)?;
        let at =
            |path: Path| path.iter().try_fold(&file, |value, name| value.get(*name)).filter(|value| !value.is_null());
        let secret = |path: Path| match at(path) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => {
                source::parse(text.as_bytes()).map(Some).map_err(|_| LoginFault::Bad(name(path)))
            }
            Some(_) => Err(LoginFault::Bad(name(path))),
        };
        let access = secret(self.access)?.ok_or_else(|| LoginFault::NoLogin(name(self.access), self.command))?;
        let written = match self.expires.and_then(at) {
            None => None,
            Some(value) => Some(moment(value).ok_or_else(|| LoginFault::Bad(name(self.expires.unwrap_or_default())))?),
        };
        let account = self.account.and_then(at).and_then(Value::as_str).and_then(|text| AccountId::parse(text).ok());
        let scopes = self.scopes.and_then(at).and_then(Value::as_array).map(|list| {
            list.iter().filter_map(Value::as_str).filter(|scope| is_scope(scope)).collect::<Vec<_>>().join(" ")
        });
        Ok(Tokens {
            // What the token says itself is what its provider goes by.
            expires: Claims::of(access.expose()).expires.or(written),
            refresh: secret(self.refresh)?,
            scopes: scopes.filter(|scopes| !scopes.is_empty()),
            account,
            access,
        })
    }

    /// The file with the new tokens in the place of the old; all else as it was.
    pub(super) fn write(&self, text: &str, rotated: &Rotated, now: Timestamp) -> Option<Zeroizing<String>> {
        let text_of = |secret: &SecretText| quoted(secret.expose());
        let mut changes = vec![(self.access, text_of(&rotated.access))];
        changes.extend(rotated.refresh.as_ref().map(|secret| (self.refresh, text_of(secret))));
        changes.extend(self.id_token.zip(rotated.id_token.as_ref().map(text_of)));
        changes.extend(self.expires.map(|path| (path, rotated.expires.as_millisecond().to_string())));
        let refresh_expires = rotated.refresh_expires.map(|time| time.as_millisecond().to_string());
        changes.extend(self.refresh_expires.zip(refresh_expires));
        changes.extend(self.refreshed.map(|path| (path, quoted(&now.to_string()))));
        splice(text, &changes).map(Zeroizing::new)
    }

    /// The file with a login that is new, whatever stood in its place; all else as it was. `{}` where there was no file.
    pub(super) fn begin(
        &self,
        text: &str,
        given: &Rotated,
        scopes: Option<&str>,
        account: Option<&AccountId>,
        now: Timestamp,
    ) -> Option<Zeroizing<String>> {
        let file: Value = serde_json::from_str(text).ok()?;
        let (above, _) = self.access.split_first()?;
        let has_place = file.as_object()?.get(*above).is_some_and(Value::is_object);
        let mut changes = Vec::new();
        if !has_place {
            changes.push((&self.access[..1], "{}".to_owned()));
        }
        changes.extend(self.marks.iter().map(|(path, value)| (*path, (*value).to_owned())));
        changes.extend(self.account.zip(account.map(|account| quoted(account.as_str()))));
        let list = scopes.map(|scopes| Value::from_iter(scopes.split(' ').filter(|scope| is_scope(scope))).to_string());
        changes.extend(self.scopes.zip(list));
        self.write(&Zeroizing::new(splice(text, &changes)?), given, now)
    }
}

fn moment(value: &Value) -> Option<Timestamp> {
    // Whole milliseconds, or what JavaScript makes of them.
    #[expect(clippy::cast_possible_truncation, reason = "a time of this age has no fraction that counts")]
    let milliseconds = value.as_i64().or_else(|| value.as_f64().map(|number| number as i64))?;
    Timestamp::from_millisecond(milliseconds).ok()
}

/// RFC 6749 §3.3.
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

fn name(path: Path) -> String {
    path.join(".")
}

const CLAUDE: Form = Form {
    file: ".credentials.json",
    command: "claude, then /login",
    access: &["claudeAiOauth", "accessToken"],
    refresh: &["claudeAiOauth", "refreshToken"],
    expires: Some(&["claudeAiOauth", "expiresAt"]),
    account: None,
    id_token: None,
    scopes: Some(&["claudeAiOauth", "scopes"]),
    refresh_expires: Some(&["claudeAiOauth", "refreshTokenExpiresAt"]),
    refreshed: None,
    marks: &[],
};
const CODEX: Form = Form {
    file: "auth.json",
    command: "codex login",
    access: &["tokens", "access_token"],
    refresh: &["tokens", "refresh_token"],
    expires: None,
    account: Some(&["tokens", "account_id"]),
    id_token: Some(&["tokens", "id_token"]),
    scopes: None,
    refresh_expires: None,
    refreshed: Some(&["last_refresh"]),
    marks: &[(&["auth_mode"], "\"chatgpt\"")],
};
const PI_ANTHROPIC: Form = Form {
    file: "auth.json",
    command: "pi, then /login",
    access: &["anthropic", "access"],
    refresh: &["anthropic", "refresh"],
    expires: Some(&["anthropic", "expires"]),
    account: None,
    id_token: None,
    scopes: None,
    refresh_expires: None,
    refreshed: None,
    marks: &[(&["anthropic", "type"], "\"oauth\"")],
};
const PI_CODEX: Form = Form {
    access: &["openai-codex", "access"],
    refresh: &["openai-codex", "refresh"],
    expires: Some(&["openai-codex", "expires"]),
    account: Some(&["openai-codex", "accountId"]),
    marks: &[(&["openai-codex", "type"], "\"oauth\"")],
    ..PI_ANTHROPIC
};

#[cfg(test)]
mod tests {
    use box_spec::{Agent, Provider};
    use jiff::Timestamp;
    use zeroize::Zeroizing;

    use super::super::LoginFault;
    use super::{Form, Rotated};
    use crate::vault::credential::SecretText;

    const FILES: [(Agent, Provider, &str); 4] = [
        (
            Agent::Claude,
            Provider::Anthropic,
            r#"{"mcpOAuth":{"x":[1.0]},"claudeAiOauth":{"accessToken":"a-old","refreshToken":"r-old","expiresAt":1800000000000,"scopes":["user:inference","user:profile"],"subscriptionType":"max"}}"#,
        ),
        (
            Agent::Codex,
            Provider::OpenaiCodex,
            r#"{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":"i-old","access_token":"a-old","refresh_token":"r-old","account_id":"acc"},"last_refresh":"2026-01-01T00:00:00Z","own":1}"#,
        ),
        (
            Agent::Pi,
            Provider::Anthropic,
            r#"{"openai":{"type":"api_key","key":"sk-x"},"anthropic":{"type":"oauth","access":"a-old","refresh":"r-old","expires":1800000000000}}"#,
        ),
        (
            Agent::Pi,
            Provider::OpenaiCodex,
            r#"{"openai-codex":{"type":"oauth","access":"a-old","refresh":"r-old","expires":1800000000000.5,"accountId":"acc"}}"#,
        ),
    ];

    fn secret(text: &str) -> SecretText {
        SecretText::new(Zeroizing::new(text.to_owned()))
    }

    #[test]
    fn each_agents_file_is_read_and_written_with_all_else_as_it_was() {
        for (agent, provider, text) in FILES {
            let form = Form::of(agent, provider).expect("a form");
            let tokens = form.read(text).expect("tokens");
            assert_eq!(tokens.access.expose(), "a-old");
            assert_eq!(tokens.refresh.as_ref().map(SecretText::expose), Some("r-old"));
            assert_eq!(tokens.account.is_some(), provider == Provider::OpenaiCodex);
            let written = (agent != Agent::Codex).then_some(1_800_000_000);
            assert_eq!(tokens.expires.map(Timestamp::as_second), written);
            let rotated = Rotated {
                access: secret("a-new"),
                refresh: Some(secret("r-new")),
                id_token: Some(secret("i-new")),
                expires: Timestamp::from_second(1_900_000_000).expect("a time"),
                refresh_expires: None,
            };
            let now = Timestamp::from_second(1_850_000_000).expect("a time");
            let after = form.write(text, &rotated, now).expect("written");
            let expected = text
                .replace("-old", "-new")
                .replace("1800000000000.5", "1900000000000")
                .replace("1800000000000", "1900000000000")
                .replace("2026-01-01T00:00:00Z", "2028-08-16T00:53:20Z");
            assert_eq!(*after, expected, "{agent}");
        }
    }

    #[test]
    fn a_refresh_that_brings_no_refresh_token_leaves_the_old_one() {
        let (agent, provider, text) = FILES[0];
        let form = Form::of(agent, provider).expect("a form");
        let expires = Timestamp::from_second(1_900_000_000).expect("a time");
        let rotated =
            Rotated { access: secret("a-new"), refresh: None, id_token: None, expires, refresh_expires: Some(expires) };
        let after = form.write(text, &rotated, expires).expect("written");
        let tokens = form.read(&after).expect("tokens");
        assert_eq!(tokens.refresh.as_ref().map(SecretText::expose), Some("r-old"));
        assert!(after.contains("\"refreshTokenExpiresAt\":1900000000000"), "{}", *after);
        assert_eq!(tokens.scopes.as_deref(), Some("user:inference user:profile"));
    }

    #[test]
    fn what_is_no_login_says_so_and_how_to_have_one() {
        let form = Form::of(Agent::Codex, Provider::OpenaiCodex).expect("a form");
        let fault = |text: &str| form.read(text).err().map(|fault| fault.to_string()).unwrap_or_default();
        assert_eq!(fault("{"), "is no JSON");
        let none = fault(r#"{"OPENAI_API_KEY":"sk-x","tokens":null}"#);
        assert!(none.contains("tokens.access_token") && none.contains("codex login"), "{none}");
        assert_eq!(
            form.read(r#"{"tokens":{"access_token":"a b"}}"#).err(),
            Some(LoginFault::Bad("tokens.access_token".to_owned()))
        );
        assert!(Form::of(Agent::Claude, Provider::OpenaiCodex).is_none());
        assert!(Form::of(Agent::Pi, Provider::Openai).is_none());
    }
}
