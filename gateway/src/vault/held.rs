//! Held: what the vault has of one secret, read again whenever its source changed.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::credential::{Credential, Whose};
use super::login::Login;
use super::source::{self, FileStamp, Reading, SourceFault};
use super::{SecretName, Source};

/// Where a secret is read, and what was read there last.
#[derive(Debug)]
pub(super) enum Held {
    /// Read once; `None` where the variable is not set.
    Env {
        variable: String,
        credential: Option<Arc<Credential>>,
    },
    File(SecretFile),
    Login(Arc<Login>),
    /// The file while it is there, else the login.
    FileOrLogin {
        file: SecretFile,
        login: Arc<Login>,
    },
}

/// A file with one line, and the credential that it held.
#[derive(Debug)]
pub(super) struct SecretFile {
    path: PathBuf,
    last: Mutex<Option<(FileStamp, Arc<Credential>)>>,
}

impl Held {
    /// # Errors
    /// What is there can be no secret. What is missing is no fault.
    pub(super) fn open(
        name: &SecretName,
        whose: &Whose,
        source: &Source,
        env: &impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, SourceFault> {
        let login = |config: &super::LoginConfig| Login::open(name.clone(), whose, config.clone()).map(Arc::new);
        Ok(match source {
            Source::Env(variable) => {
                let text = source::from_env(variable, env(variable))?;
                let credential = |text| Credential::new(whose, text).map(Arc::new);
                let credential = text
                    .map(credential)
                    .transpose()
                    .map_err(|malformed| SourceFault::Env(variable.clone(), malformed))?;
                Self::Env { credential, variable: variable.clone() }
            }
            Source::File(path) => Self::File(SecretFile::open(path, whose)?),
            Source::Login(config) => Self::Login(login(config)?),
            Source::FileOrLogin(path, config) => {
                Self::FileOrLogin { file: SecretFile::open(path, whose)?, login: login(config)? }
            }
        })
    }

    /// What its source holds now; `None` where that is a variable that is not set.
    ///
    /// # Errors
    /// It is missing, or can be no secret.
    pub(super) fn read(&self, whose: &Whose) -> Result<Option<Arc<Credential>>, SourceFault> {
        match self {
            Self::Env { variable: _, credential } => Ok(credential.clone()),
            Self::File(file) => file.read(whose).map(Some),
            Self::Login(login) => login.credential().map(Some),
            Self::FileOrLogin { file, login } => match file.read(whose) {
                Err(SourceFault::Missing(path)) => login.credential().map(Some).map_err(|fault| match fault {
                    SourceFault::Missing(login) => SourceFault::BothMissing(path, login),
                    fault => fault,
                }),
                read => read.map(Some),
            },
        }
    }

    /// The login that is used now, if that is what is.
    pub(super) fn login(&self) -> Option<&Arc<Login>> {
        match self {
            Self::Login(login) => Some(login),
            Self::FileOrLogin { file, login } => {
                matches!(source::stamp(&file.path), Err(SourceFault::Missing(_))).then_some(login)
            }
            Self::Env { .. } | Self::File(_) => None,
        }
    }

    /// Every value that it has at this moment, used or not.
    pub(super) fn each_value(&self, whose: &Whose, take: &mut impl FnMut(&str)) {
        let (file, login) = match self {
            Self::Env { variable: _, credential } => {
                if let Some(credential) = credential {
                    take(credential.expose());
                }
                (None, None)
            }
            Self::File(file) => (Some(file), None),
            Self::Login(login) => (None, Some(login)),
            Self::FileOrLogin { file, login } => (Some(file), Some(login)),
        };
        if let Some(Ok(credential)) = file.map(|file| file.read(whose)) {
            take(credential.expose());
        }
        if let Some(login) = login {
            login.each_token(take);
        }
    }
}

impl SecretFile {
    fn open(path: &Path, whose: &Whose) -> Result<Self, SourceFault> {
        let file = Self { path: path.to_owned(), last: Mutex::default() };
        match file.read(whose) {
            Ok(_) | Err(SourceFault::Missing(_)) => Ok(file),
            Err(fault) => Err(fault),
        }
    }

    /// What was read last, while the file is the same; else what is in it now. A file that has become bad gives nothing.
    fn read(&self, whose: &Whose) -> Result<Arc<Credential>, SourceFault> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = source::stamp(&self.path)?;
        if let Some((seen, credential)) = &*last
            && seen.is_same(&stamp)
        {
            return Ok(Arc::clone(credential));
        }
        let before = last.take();
        let Reading { text, stamp } = source::read(&self.path)?;
        let credential = match before {
            // A file that has just been written is read again and again: what it is looked for by is not made anew.
            Some((_, credential)) if credential.expose() == text.expose() => credential,
            _ => Credential::new(whose, text)
                .map(Arc::new)
                .map_err(|malformed| SourceFault::File(self.path.clone(), malformed))?,
        };
        *last = Some((stamp, Arc::clone(&credential)));
        Ok(credential)
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_login = |login: &Login| format!("login of {} in {}", login.config().agent, login.path().display());
        match self {
            Self::Env { variable, credential: _ } => write!(f, "env {variable}"),
            Self::File(file) => write!(f, "file {}", file.path.display()),
            Self::Login(login) => f.write_str(&of_login(login)),
            Self::FileOrLogin { file, login } if self.login().is_some() => {
                write!(f, "{}, since there is no {}", of_login(login), file.path.display())
            }
            Self::FileOrLogin { file, login: _ } => write!(f, "file {}", file.path.display()),
        }
    }
}
