//! `[[secret]]`: whose it is, and where it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use box_spec::{Agent, CredentialKind, Provider};
use jiff::Timestamp;

use crate::policy::Serves;
use crate::vault::{self, AccountId, LoginConfig, Role, SecretConfig, SecretName, Source, Whose};

use super::convert::{plain_name, served, span_of, unique};
use super::exposures::{self, Exposing};
use super::faults::{Faults, Span};
use super::grants;
use super::raw::{RawLogin, RawSecret, RawSending, Text};
use super::reader::At;
use super::sending;

/// What grants may name, and whose it is: `None` where that has a fault of its own.
pub(super) type Named = BTreeMap<String, Option<Serves>>;

/// What the secrets of the file come to.
#[derive(Debug, Default)]
pub(super) struct Converted {
    /// All that is well; the rest are faults.
    pub(super) secrets: Vec<SecretConfig>,
    pub(super) named: Named,
    pub(super) exposing: Vec<Exposing>,
}

pub(super) fn convert(raw: Vec<RawSecret>, base: &Path, faults: &mut Faults) -> Converted {
    let mut names = BTreeSet::new();
    let mut converted = Converted::default();
    if let Some(one) = raw.get(MOST) {
        faults.add(span_of(&one.name), format!("a house has at most {MOST} secrets"));
    }
    for RawSecret { name, provider, kind, account_id, sending, expose, env, file, expires, login } in raw {
        let written = name.as_ref().map(|name| name.value.clone());
        let name = name.and_then(|name| plain_name(name, faults));
        let name = name.and_then(|name| unique(&mut names, name, "secret", faults));
        let (whose, serves) = match provider {
            Some(provider) => {
                let stray = sending::given(&sending).chain(expose.as_ref().map(|at| ("expose", at.span.clone())));
                of_provider(provider, kind, account_id, stray, faults)
            }
            None => of_service(kind, account_id, sending, faults),
        };
        if let Some(written) = written {
            converted.named.entry(written).or_insert(serves);
        }
        let is_login = login.folder.is_some();
        let source = convert_source(env, file, login, whose.as_ref(), base, faults);
        let expires = expires.and_then(|expires| {
            if is_login {
                faults
                    .add(expires.span, "`expires` cannot stand beside `folder`: a login tells by itself when it ends");
                return None;
            }
            let read = expires.value.parse::<Timestamp>();
            faults.take(&expires.span, read.map_err(|_| "`expires` must be a time as in \"2026-12-31T23:59:59Z\""))
        });
        let name = name.map(|name| SecretName::new(&name.value));
        if let (Some(name), Some(Whose::Service)) = (&name, &whose) {
            converted.exposing.extend(exposures::convert(name, expose, faults));
        }
        if let (Some(name), Some(whose), Some(source)) = (name, whose, source) {
            converted.secrets.push(SecretConfig { name, whose, source, expires });
        }
    }
    converted
}

/// A secret of a model provider, which has a way of its own to take it.
fn of_provider(
    provider: At<String>,
    kind: Text,
    account: Text,
    stray: impl Iterator<Item = (&'static str, Span)>,
    faults: &mut Faults,
) -> (Option<Whose>, Option<Serves>) {
    for (key, stray) in stray {
        faults.add(
            stray,
            format!(
                "`{key}` is for a [[secret]] without `provider`: a provider takes its credential in a way of its own"
            ),
        );
    }
    if kind.is_none() {
        faults.add(provider.span.clone(), "[[secret]] with `provider` needs `kind`");
    }
    let served = served(&provider, faults);
    let whose = match kind {
        Some(kind) if kind.value == AUTO => by_shape(served, &kind, account, faults),
        kind => convert_role(served, kind, account, faults).map(Whose::Provider),
    };
    (whose, served.map(Serves::Provider))
}

/// A secret of a service: what is no provider's says how it is sent.
fn of_service(kind: Text, account: Text, sending: RawSending, faults: &mut Faults) -> (Option<Whose>, Option<Serves>) {
    for (key, stray) in [("kind", kind), ("account_id", account)] {
        if let Some(stray) = stray {
            faults.add(
                stray.span,
                format!("`{key}` in [[secret]] goes with `provider`: anthropic, openai or openai-codex"),
            );
        }
    }
    (Some(Whose::Service), sending::convert(sending, faults).map(Serves::Service))
}

/// Its text says of which kind it is: of a provider that takes both, and begins them differently.
fn by_shape(provider: Option<Provider>, kind: &At<String>, account: Text, faults: &mut Faults) -> Option<Whose> {
    if let Some(account) = account {
        faults.add(account.span, "`account_id` is only for a login of provider \"openai-codex\"");
        return None;
    }
    match provider? {
        Provider::Anthropic => Some(Whose::ByShape(Provider::Anthropic)),
        Provider::Openai | Provider::OpenaiCodex => {
            faults.add(
                kind.span.clone(),
                "`kind = \"auto\"` is for provider \"anthropic\", which takes a login and a key: openai takes an \"api-key\", openai-codex a \"login\"",
            );
            None
        }
    }
}

/// Whose secret it is, and what its provider takes.
fn convert_role(provider: Option<Provider>, kind: Text, account: Text, faults: &mut Faults) -> Option<Role> {
    let kind_place = span_of(&kind);
    let kind = kind.and_then(|kind| credential_kind(&kind, faults));
    let account_place = span_of(&account);
    let given = account.is_some();
    let account = account.and_then(|account| faults.take(&account.span, AccountId::parse(&account.value)));
    let is_sound = given == account.is_some();
    let role = Role { provider: provider?, kind: kind?, account };
    match (role.provider, role.kind) {
        (Provider::Openai, CredentialKind::Login) => faults
            .add(kind_place, "openai takes an \"api-key\"; a ChatGPT login is a secret of provider \"openai-codex\""),
        (Provider::OpenaiCodex, CredentialKind::ApiKey) => {
            faults.add(kind_place, "openai-codex takes a \"login\"; an API key is a secret of provider \"openai\"");
        }
        (Provider::Anthropic, _)
        | (Provider::Openai, CredentialKind::ApiKey)
        | (Provider::OpenaiCodex, CredentialKind::Login) => {}
    }
    if given && role.provider != Provider::OpenaiCodex {
        faults.add(account_place, "`account_id` is only for a login of provider \"openai-codex\"");
    }
    // Without the account that was meant, its text would be blamed for naming none.
    is_sound.then_some(role)
}

/// One source, or a file before a login; what is in it now must be a secret, or not be there yet.
fn convert_source(
    env: Text,
    file: Text,
    login: RawLogin,
    whose: Option<&Whose>,
    base: &Path,
    faults: &mut Faults,
) -> Option<Source> {
    let source = match (env, file, login.folder.is_some()) {
        (Some(_), Some(stray), _) => {
            faults.add(stray.span, "[[secret]] has two sources: keep one of `env`, `file` and `folder`");
            return None;
        }
        (Some(_), None, true) => {
            let place = span_of(&login.folder);
            faults.add(
                place,
                "[[secret]] has two sources: keep one of `env` and `folder` (a `file` may stand beside it)",
            );
            return None;
        }
        (Some(env), None, false) => At { span: env.span, value: Source::Env(env.value) },
        (None, Some(file), false) => At { span: file.span, value: Source::File(base.join(file.value)) },
        (None, file, true) => {
            let place = file.as_ref().map_or_else(|| span_of(&login.folder), |file| file.span.clone());
            let config = convert_login(login, whose, base, faults)?;
            let value = match file {
                Some(file) => Source::FileOrLogin(base.join(file.value), config),
                None => Source::Login(config),
            };
            faults.take(&place, vault::check(&value, whose))?;
            return Some(value);
        }
        (None, None, false) => return None,
    };
    for (key, stray) in login.stray() {
        faults.add(stray, format!("`{key}` in [[secret]] goes with `folder` alone"));
    }
    if let Source::Env(variable) = &source.value
        && (variable.is_empty() || variable.contains(['=', '\0']))
    {
        faults.add(source.span, "`env` in [[secret]] must be the name of an environment variable, not a value");
        return None;
    }
    faults.take(&source.span, vault::check(&source.value, whose))?;
    Some(source.value)
}

/// A login of an agent of the host: whose it is must fit, and what is in its folder now.
fn convert_login(login: RawLogin, whose: Option<&Whose>, base: &Path, faults: &mut Faults) -> Option<LoginConfig> {
    let RawLogin { folder, login_of, unsafe_refresh_dial, refresh_ca } = login;
    let folder = folder?;
    let Some(of) = login_of else {
        faults.add(folder.span, "`folder` in [[secret]] needs `login_of`: \"claude\", \"codex\" or \"pi\"");
        return None;
    };
    let agent = faults.take(&of.span, of.value.parse::<Agent>())?;
    let dial = unsafe_refresh_dial.map(|dial| grants::dial_address(&dial, "unsafe_refresh_dial", faults));
    let ca = refresh_ca.map(|file| grants::roots(&file, base, faults));
    let whose = whose?;
    if !whose.as_login().is_some_and(|role| LoginConfig::fits(agent, role.provider)) {
        let said = match agent {
            Agent::Claude => "a login of claude has `provider = \"anthropic\"` and `kind = \"login\"`",
            Agent::Codex => "a login of codex has `provider = \"openai-codex\"` and `kind = \"login\"`",
            Agent::Pi => "a login of pi has `provider = \"anthropic\"` or \"openai-codex\", and `kind = \"login\"`",
        };
        faults.add(of.span, said);
        return None;
    }
    let config = LoginConfig {
        agent,
        folder: base.join(&folder.value),
        // One that was given and has a fault leaves no login that could ask elsewhere.
        unsafe_refresh_dial: dial.map_or(Some(None), |dial| dial.map(Some))?,
        refresh_ca: ca.map_or(Some(None), |ca| ca.map(Some))?,
    };
    if config.folder.is_file() {
        faults.add(
            folder.span,
            "`folder` must be the folder that holds the login, not the file itself: what is refreshed is renamed into it",
        );
        return None;
    }
    Some(config)
}

impl RawLogin {
    /// Keys that say nothing without `folder`.
    fn stray(&self) -> impl Iterator<Item = (&'static str, Span)> {
        let keys = [
            ("login_of", &self.login_of),
            ("unsafe_refresh_dial", &self.unsafe_refresh_dial),
            ("refresh_ca", &self.refresh_ca),
        ];
        keys.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?.span.clone())))
    }
}

fn credential_kind(kind: &At<String>, faults: &mut Faults) -> Option<CredentialKind> {
    match kind.value.as_str() {
        "login" => Some(CredentialKind::Login),
        "api-key" => Some(CredentialKind::ApiKey),
        _ => {
            faults.add(
                kind.span.clone(),
                "`kind` in [[secret]] must be \"login\" (a subscription's token), \"api-key\", or \"auto\" (by its beginning)",
            );
            None
        }
    }
}

/// The kind that the text itself tells.
const AUTO: &str = "auto";
/// So that the marks of all are one line of a claim.
const MOST: usize = 256;
