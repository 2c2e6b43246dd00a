//! The vault: the real credentials, which exist in this process alone and are read when they are used.

pub mod credential;
pub mod source;
pub mod token;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use box_spec::{CredentialKind, Provider};
use jiff::{SignedDuration, Timestamp};

pub use credential::{Credential, Role, SecretText};
pub use source::{Malformed, SourceFault};
pub use token::AccountId;

use source::{FileStamp, Reading};

/// Names a secret of the configuration.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SecretName(Arc<str>);

/// One `[[secret]]`: whose it is, how it is used, where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretConfig {
    pub name: SecretName,
    pub role: Role,
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
}

/// All secrets of the house.
#[derive(Debug)]
pub struct Vault {
    entries: BTreeMap<SecretName, Entry>,
    /// The names in the order of the configuration: of several for one provider the first is its credential.
    order: Vec<SecretName>,
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
    pub provider: Provider,
    pub kind: CredentialKind,
    pub outage: Option<Outage>,
}

#[derive(Debug)]
struct Entry {
    role: Role,
    expires: Option<Timestamp>,
    held: Held,
}

#[derive(Debug)]
enum Held {
    Env { variable: String, credential: Option<Arc<Credential>> },
    File { path: PathBuf, last: Mutex<Option<(FileStamp, Arc<Credential>)>> },
}

/// Looks at a source as the vault will: what is in it must be a secret (of this role, where that is known),
/// or not be there yet.
pub fn check(source: &Source, role: Option<&Role>) -> Result<(), SourceFault> {
    let text = match source {
        Source::Env(variable) => source::from_env(variable, std::env::var_os(variable))?,
        Source::File(path) => match source::read(path) {
            Ok(reading) => Some(reading.text),
            Err(SourceFault::Missing(_)) => None,
            Err(fault) => return Err(fault),
        },
    };
    match (role, text) {
        (Some(role), Some(text)) => Credential::new(role, text).map(drop).map_err(|malformed| source.fault(malformed)),
        (None, _) | (_, None) => Ok(()),
    }
}

impl Vault {
    /// Reads every secret once. One that is missing is no fault here (its grants answer with an outage); one that is malformed is.
    pub fn open(secrets: Vec<SecretConfig>) -> Result<Self, Vec<VaultFault>> {
        Self::open_with(secrets, |variable| std::env::var_os(variable))
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
        in_time(entry.expires)?;
        let credential = match &entry.held {
            Held::Env { variable, credential } => {
                credential.clone().ok_or_else(|| Outage::EnvUnset { name: name.clone(), variable: variable.clone() })?
            }
            Held::File { path, last } => {
                entry.read_file(path, last).map_err(|fault| Outage::File { name: name.clone(), fault })?
            }
        };
        in_time(credential.expires())?;
        Ok(credential)
    }

    /// The kind of the first credential of a provider that can be used now.
    #[must_use]
    pub fn available(&self, provider: Provider) -> Option<CredentialKind> {
        let usable = |name: &&SecretName| {
            self.entries.get(*name).is_some_and(|entry| entry.role.provider == provider)
                && self.credential(name).is_ok()
        };
        self.order.iter().find(usable).and_then(|name| self.entries.get(name)).map(|entry| entry.role.kind)
    }

    /// Every secret and whether it can be used now. No value.
    #[must_use]
    pub fn status(&self) -> Vec<SecretStatus> {
        let one = |name: &SecretName| {
            let Entry { role, expires: _, held: _ } = self.entries.get(name)?;
            Some(SecretStatus {
                name: name.clone(),
                provider: role.provider,
                kind: role.kind,
                outage: self.credential(name).err(),
            })
        };
        self.order.iter().filter_map(one).collect()
    }

    fn open_with(secrets: Vec<SecretConfig>, env: impl Fn(&str) -> Option<OsString>) -> Result<Self, Vec<VaultFault>> {
        let mut vault = Self { entries: BTreeMap::new(), order: Vec::new() };
        let mut faults = Vec::new();
        for SecretConfig { name, role, source, expires } in secrets {
            match Entry::open(role, source, expires, &env) {
                Ok(entry) => {
                    vault.order.push(name.clone());
                    vault.entries.insert(name, entry);
                }
                Err(fault) => faults.push(VaultFault { name, fault }),
            }
        }
        if faults.is_empty() { Ok(vault) } else { Err(faults) }
    }
}

impl Source {
    fn fault(&self, malformed: Malformed) -> SourceFault {
        match self {
            Self::Env(variable) => SourceFault::Env(variable.clone(), malformed),
            Self::File(path) => SourceFault::File(path.clone(), malformed),
        }
    }
}

impl Entry {
    fn open(
        role: Role,
        source: Source,
        expires: Option<Timestamp>,
        env: &impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, SourceFault> {
        let credential = |text| Credential::new(&role, text).map(Arc::new).map_err(|malformed| source.fault(malformed));
        let held = match &source {
            Source::Env(variable) => {
                let text = source::from_env(variable, env(variable))?;
                Held::Env { credential: text.map(credential).transpose()?, variable: variable.clone() }
            }
            Source::File(path) => {
                let held = match source::read(path) {
                    Ok(Reading { text, stamp }) => Some((stamp, credential(text)?)),
                    Err(SourceFault::Missing(_)) => None,
                    Err(fault) => return Err(fault),
                };
                Held::File { path: path.clone(), last: Mutex::new(held) }
            }
        };
        Ok(Self { role, expires, held })
    }

    /// What was read last, while the file is the same; else what is in it now. A file that has become bad gives nothing.
    fn read_file(
        &self,
        path: &Path,
        last: &Mutex<Option<(FileStamp, Arc<Credential>)>>,
    ) -> Result<Arc<Credential>, SourceFault> {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = source::stamp(path)?;
        if let Some((seen, credential)) = &*last
            && seen.is_same(&stamp)
        {
            return Ok(Arc::clone(credential));
        }
        *last = None;
        let Reading { text, stamp } = source::read(path)?;
        let credential = Credential::new(&self.role, text)
            .map(Arc::new)
            .map_err(|malformed| SourceFault::File(path.to_owned(), malformed))?;
        *last = Some((stamp, Arc::clone(&credential)));
        Ok(credential)
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
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]

    use std::ffi::OsString;
    use std::fs;
    use std::path::Path;

    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use box_spec::{CredentialKind, Provider};
    use jiff::{SignedDuration, Timestamp};

    use super::{Malformed, Outage, Role, SecretConfig, SecretName, Source, SourceFault, Vault, VaultFault};

    fn secret(source: Source) -> Vec<SecretConfig> {
        vec![SecretConfig {
            name: SecretName::new("model"),
            role: Role { provider: Provider::Anthropic, kind: CredentialKind::Login, account: None },
            source,
            expires: None,
        }]
    }

    fn with_env(value: Option<&str>) -> Result<Vault, Vec<VaultFault>> {
        let value = value.map(OsString::from);
        Vault::open_with(secret(Source::Env("KEY".to_owned())), move |_| value.clone())
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
        let ends =
            [(3_600, true), (90, true), (30, false), (-1, false)].map(|(seconds, usable)| (after(seconds), usable));
        for (expires, usable) in ends.into_iter().chain([(Timestamp::MIN, false), (Timestamp::MAX, true)]) {
            let mut secrets = secret(Source::Env("KEY".to_owned()));
            secrets[0].expires = Some(expires);
            let vault = Vault::open_with(secrets, |_| Some("sk-real".into())).expect("opened");
            assert_eq!(value(&vault).is_ok(), usable, "{expires}");
            assert_eq!(vault.available(Provider::Anthropic).is_some(), usable, "{expires}");
        }
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
            role: Role { provider: Provider::Anthropic, kind: CredentialKind::ApiKey, account: None },
            ..secret(Source::Env("KEY".to_owned())).remove(0)
        };
        let mut both = secret(Source::Env("LOGIN".to_owned()));
        both.push(key);
        let vault =
            Vault::open_with(both, |variable| (variable == "KEY").then(|| OsString::from("sk"))).expect("opened");
        assert_eq!(vault.available(Provider::Anthropic), Some(CredentialKind::ApiKey));
        assert_eq!(vault.available(Provider::Openai), None);
    }

    #[test]
    fn a_chatgpt_login_that_has_ended_or_names_no_account_is_an_outage() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        let mut secrets = secret(Source::File(path.clone()));
        secrets[0].role.provider = Provider::OpenaiCodex;
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
}
