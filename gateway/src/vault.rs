//! The vault: the real credentials, which exist in this process alone and are read when they are used.

pub mod sent_as;
pub mod credential;
pub mod login;
mod guard;
mod marks;
mod held;
pub mod source;
pub mod token;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use box_spec::{CredentialKind, Provider};
use jiff::{SignedDuration, Timestamp};

pub use credential::{Credential, Role, SecretText, Whose};
pub use login::{Login, LoginConfig, Trouble};
pub use sent_as::{Form, SentAs};
pub use source::{Malformed, SourceFault};
pub use token::AccountId;

use held::Held;

/// Names a secret of the configuration.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SecretName(Arc<str>);

/// One `[[secret]]`: whose it is, how it is used, where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretConfig {
    pub name: SecretName,
    pub whose: Whose,
    pub source: Source,
    /// When it ceases to be valid, where the operator knows. It is not used in the last minute before that.
    pub expires: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A variable of the gateway's environment, read once at start.
    Env(String),
    /// A file, read again whenever it changed.
    File(PathBuf),
    /// A login of an agent of the host, in its own folder; the house keeps it fresh.
    Login(LoginConfig),
    /// The file while it is there, else the login.
    FileOrLogin(PathBuf, LoginConfig),
}

/// All secrets of the house.
#[derive(Debug)]
pub struct Vault {
    entries: BTreeMap<SecretName, Arc<Entry>>,
    /// The names in the order of the configuration: of several for one provider the first is its credential.
    order: Vec<SecretName>,
    guard: guard::Guard,
}

/// A credential that cannot be used now: an outage of the house, never policy. Names the secret and its source.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Outage {
    #[error("secret {name}: the environment variable {variable} is not set")]
    EnvUnset { name: SecretName, variable: String },
    #[error("secret {name}: {fault}")]
    File { name: SecretName, fault: SourceFault },
    #[error("secret {name} expired, or is about to, at {expires}")]
    Expired { name: SecretName, expires: Timestamp },
    #[error("secret {name} expired at {expires}, and was not refreshed: {said}")]
    Stale { name: SecretName, expires: Timestamp, said: String },
    #[error("secret {name}: the login's chain is broken ({said}): log in again on the host ({command}), so that {} is new", .file.display())]
    Broken { name: SecretName, said: String, command: &'static str, file: PathBuf },
    #[error("secret {name} is not configured")]
    Unknown { name: SecretName },
}

/// A secret that is there and cannot be one: the house does not start with it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("secret {name}: {fault}")]
pub struct VaultFault {
    pub name: SecretName,
    pub fault: SourceFault,
}

/// One secret as `gateway status` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretStatus {
    pub name: SecretName,
    /// `None` for a service's.
    pub provider: Option<Provider>,
    /// `None` also where only its text would tell, and there is none.
    pub kind: Option<CredentialKind>,
    /// Where it comes from: `env NAME`, `file PATH`, `login of claude in PATH`.
    pub source: String,
    /// When it ceases to be valid, as far as known.
    pub expires: Option<Timestamp>,
    /// Why it cannot be used, and no request would change that.
    pub outage: Option<Outage>,
    /// What an operator should know although it can be used.
    pub note: Option<String>,
}

#[derive(Debug)]
struct Entry {
    /// As it is written.
    config: SecretConfig,
    held: Held,
}

/// Reads a file under the rules of a secret's: one line of visible ASCII.
///
/// # Errors
/// It is missing, cannot be read, or holds something else.
pub fn read_file(path: &Path) -> Result<SecretText, SourceFault> {
    source::read(path).map(|reading| reading.text)
}

/// Looks at a source as the vault will: what is in it must be a secret (of this owner's, where that is known),
/// or not be there yet. A login is a provider's always.
pub fn check(source: &Source, whose: Option<&Whose>) -> Result<(), SourceFault> {
    let Some(whose) = whose else {
        return match source {
            Source::Env(variable) => source::from_env(variable, std::env::var_os(variable)).map(drop),
            Source::File(path) | Source::FileOrLogin(path, _) => match source::read(path) {
                Ok(_) | Err(SourceFault::Missing(_)) => Ok(()),
                Err(fault) => Err(fault),
            },
            Source::Login(_) => Ok(()),
        };
    };
    Held::open(&SecretName::new(""), whose, source, &|variable| std::env::var_os(variable)).map(drop)
}

impl Vault {
    /// Reads every secret once. One that is missing is no fault here (its grants answer with an outage); one that is malformed is.
    pub fn open(secrets: Vec<SecretConfig>) -> Result<Self, Vec<VaultFault>> {
        Self::open_with(secrets, None, |variable| std::env::var_os(variable))
    }

    /// The vault of another configuration. A secret that is written as before stays as it is: a login keeps its turn, and what it
    /// knows of its chain.
    ///
    /// # Errors
    /// As [`Vault::open`].
    pub fn reopened(&self, secrets: Vec<SecretConfig>) -> Result<Self, Vec<VaultFault>> {
        Self::open_with(secrets, Some(self), |variable| std::env::var_os(variable))
    }

    /// The credential, as its source holds it now.
    pub fn credential(&self, name: &SecretName) -> Result<Arc<Credential>, Outage> {
        let entry = self.entries.get(name).ok_or_else(|| Outage::Unknown { name: name.clone() })?;
        let in_time = |expires: Option<Timestamp>| match expires {
            Some(expires) if Timestamp::now() + EXPIRY_SKEW >= expires => {
                Err(Outage::Expired { name: name.clone(), expires })
            }
            Some(_) | None => Ok(()),
        };
        in_time(entry.config.expires)?;
        let credential = entry.read().map_err(|fault| Outage::File { name: name.clone(), fault })?;
        let credential = match (credential, &entry.held) {
            (Some(credential), _) => credential,
            (None, Held::Env { variable, .. }) => {
                return Err(Outage::EnvUnset { name: name.clone(), variable: variable.clone() });
            }
            (None, _) => return Err(Outage::Unknown { name: name.clone() }),
        };
        in_time(credential.expires()).map_err(|outage| entry.why(outage))?;
        Ok(credential)
    }

    /// The login behind a secret, if that is what is used now.
    #[must_use]
    pub fn login(&self, name: &SecretName) -> Option<&Arc<Login>> {
        self.entries.get(name)?.held.login()
    }

    /// The kind of the first credential of a provider that can be used now, if need be after a refresh.
    #[must_use]
    pub fn available(&self, provider: Provider) -> Option<CredentialKind> {
        let entries = self.order.iter().filter_map(|name| Some((name, self.entries.get(name)?)));
        let of_provider = entries.filter(|(_, entry)| entry.config.whose.provider() == Some(provider));
        of_provider.filter(|(name, _)| self.outage(name).is_none()).find_map(|(_, entry)| entry.kind())
    }

    /// Every secret and whether it can be used now. No value.
    #[must_use]
    pub fn status(&self) -> Vec<SecretStatus> {
        let one = |name: &SecretName| {
            let entry = self.entries.get(name)?;
            let Entry { config: SecretConfig { whose, expires, .. }, held } = &**entry;
            Some(SecretStatus {
                name: name.clone(),
                provider: whose.provider(),
                kind: entry.kind(),
                source: held.to_string(),
                expires: expires.or_else(|| entry.told_end()),
                outage: self.outage(name),
                note: entry.note(),
            })
        };
        self.order.iter().filter_map(one).collect()
    }

    /// Why a secret cannot be used, where no refresh is to be tried first.
    fn outage(&self, name: &SecretName) -> Option<Outage> {
        let outage = self.credential(name).err()?;
        let expired = matches!(outage, Outage::Expired { .. } | Outage::Stale { .. });
        let refreshable = expired && self.login(name).is_some_and(|login| login.can_be_refreshed());
        (!refreshable).then_some(outage)
    }

    fn open_with(
        secrets: Vec<SecretConfig>,
        before: Option<&Self>,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Vec<VaultFault>> {
        let mut vault = Self { entries: BTreeMap::new(), order: Vec::new(), guard: guard::Guard::default() };
        let mut faults = Vec::new();
        for config in secrets {
            let name = config.name.clone();
            let kept = before.and_then(|before| before.entries.get(&name)).filter(|entry| entry.config == config);
            match kept.map_or_else(|| Entry::open(config, &env).map(Arc::new), |entry| Ok(Arc::clone(entry))) {
                Ok(entry) => {
                    vault.order.push(name.clone());
                    vault.entries.insert(name, entry);
                }
                Err(fault) => faults.push(VaultFault { name, fault }),
            }
        }
        for name in vault.unmarked() {
            tracing::warn!(secret = %name, "too short a secret, or of odd characters: no box is searched for it");
        }
        if faults.is_empty() { Ok(vault) } else { Err(faults) }
    }
}

impl Entry {
    fn open(config: SecretConfig, env: &impl Fn(&str) -> Option<OsString>) -> Result<Self, SourceFault> {
        let held = Held::open(&config.name, &config.whose, &config.source, env)?;
        Ok(Self { config, held })
    }

    /// Of a login that expired: what stands in the way of a refresh.
    fn why(&self, outage: Outage) -> Outage {
        let (Outage::Expired { name, expires }, Some(login)) = (&outage, self.held.login()) else { return outage };
        let name = name.clone();
        match login.trouble() {
            None => outage,
            Some(Trouble::Later { said }) => Outage::Stale { name, expires: *expires, said },
            Some(Trouble::Broken { said }) => {
                Outage::Broken { name, said, command: login.command(), file: login.path().to_owned() }
            }
        }
    }

    fn read(&self) -> Result<Option<Arc<Credential>>, SourceFault> {
        self.held.read(&self.config.whose)
    }

    /// How its credential authenticates, where the configuration or its text tells.
    fn kind(&self) -> Option<CredentialKind> {
        self.config.whose.role().map(|role| role.kind).or_else(|| self.read().ok()??.kind())
    }

    /// When the credential says itself that it ends.
    fn told_end(&self) -> Option<Timestamp> {
        self.read().ok()??.expires()
    }

    fn note(&self) -> Option<String> {
        let login = self.held.login()?;
        match login.trouble() {
            Some(Trouble::Broken { said }) => {
                Some(format!("the login's chain is broken ({said}): log in again on the host ({})", login.command()))
            }
            Some(Trouble::Later { said }) => Some(format!("could not be refreshed yet: {said}")),
            None if login.due(false).is_some() => Some("is refreshed with its next use".to_owned()),
            None => None,
        }
    }
}

impl SecretName {
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A request takes a while to arrive, and clocks differ.
const EXPIRY_SKEW: SignedDuration = SignedDuration::from_secs(60);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]
mod tests;
