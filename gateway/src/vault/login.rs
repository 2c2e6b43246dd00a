//! Login: what an agent of the host keeps in a folder of its own, used as it is and kept fresh for both.
//!
//! A refresh token is good for one refresh, and who sends an old one loses the login. So: one refresh at a time among all
//! gateways ([`Login::lock`]), the file read again under that lock ([`Login::begin`]), and what the provider gave on disk
//! before it is used ([`Login::keep`]). `crate::refresh` does the asking.

mod fault;
mod form;
mod put;
mod splice;
mod tokens;

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use box_spec::{Agent, Provider};
use jiff::{SignedDuration, Timestamp};
use nix::unistd::{AccessFlags, access, getegid, geteuid, getgroups};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::credential::{Credential, Role, SecretText, Whose};
use super::source::{self, FileStamp, SourceFault};
use super::{EXPIRY_SKEW, SecretName};
use crate::files::{self, FileError};
use crate::tls::UpstreamCa;

pub use fault::LoginFault;
pub use form::Rotated;
pub use put::{lock, prepare, put};

use form::{Form, Tokens};

/// `login_of`, `folder` and what goes with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoginConfig {
    pub agent: Agent,
    /// A folder, since the file in it is replaced by renaming.
    pub folder: PathBuf,
    /// Dialled instead of what the provider's token host resolves to, unscreened.
    pub unsafe_refresh_dial: Option<SocketAddr>,
    /// The only roots for the provider's token host.
    pub refresh_ca: Option<UpstreamCa>,
}

/// One login of the host.
#[derive(Debug)]
pub struct Login {
    name: SecretName,
    role: Role,
    config: LoginConfig,
    form: Form,
    path: PathBuf,
    state: Mutex<State>,
    /// One refresh at a time in this process; whoever waits finds it done.
    pub turn: Arc<tokio::sync::Mutex<()>>,
}

/// A refresh token that is about to be sent, and what else the provider is told.
pub struct Attempt {
    pub refresh: SecretText,
    pub scopes: Option<String>,
}

/// How the refreshing of a login stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The provider refused the refresh token; its word for it.
    Broken { said: String },
    /// It did not work out; tried again later.
    Later { said: String },
}

#[derive(Debug, Default)]
struct State {
    read: Option<(FileStamp, Arc<Known>)>,
    /// The provider refused the refresh token of this hash.
    refused: Option<(Hash, String)>,
    later: Option<Later>,
    /// Given by the provider for the token of this hash, and not yet on disk: not used.
    unkept: Option<(Hash, Rotated)>,
}

#[derive(Debug)]
struct Later {
    failures: u32,
    until: Instant,
    said: String,
}

/// What the file held when it was read last.
#[derive(Debug)]
struct Known {
    credential: Arc<Credential>,
    refresh: Option<Hash>,
}

type Hash = [u8; 32];

impl Login {
    /// # Errors
    /// What is there and can be no login. A file that is missing is no fault.
    pub(super) fn open(name: SecretName, whose: &Whose, config: LoginConfig) -> Result<Self, SourceFault> {
        let form = |role: Role| Some((Form::of(config.agent, role.provider)?, role));
        let Some((form, role)) = whose.as_login().and_then(form) else {
            return Err(SourceFault::Missing(config.folder));
        };
        let path = config.folder.join(form.file);
        let login = Self { name, role, config, form, path, state: Mutex::default(), turn: Arc::default() };
        let known = login.known(&mut login.state());
        match known {
            Ok(known) => {
                if known.refresh.is_some() {
                    login.can_be_kept()?;
                }
                Ok(login)
            }
            Err(SourceFault::Missing(_)) => Ok(login),
            Err(fault) => Err(fault),
        }
    }

    #[must_use]
    pub const fn name(&self) -> &SecretName {
        &self.name
    }

    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.role.provider
    }

    #[must_use]
    pub const fn config(&self) -> &LoginConfig {
        &self.config
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a person types to log in again.
    #[must_use]
    pub const fn command(&self) -> &'static str {
        self.form.command
    }

    /// The access token that the file holds now, however old.
    pub(super) fn credential(&self) -> Result<Arc<Credential>, SourceFault> {
        self.known(&mut self.state()).map(|known| Arc::clone(&known.credential))
    }

    /// Why it is not refreshed, as far as something stands in the way.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        let mut state = self.state();
        let refresh = self.known(&mut state).ok()?.refresh;
        match (&state.refused, &state.later) {
            (Some((refused, said)), _) if refresh == Some(*refused) => Some(Trouble::Broken { said: said.clone() }),
            (_, Some(later)) => Some(Trouble::Later { said: later.said.clone() }),
            _ => None,
        }
    }

    /// Whether a refresh could make it usable: there is a refresh token that nobody refused.
    #[must_use]
    pub fn can_be_refreshed(&self) -> bool {
        let mut state = self.state();
        self.known(&mut state).is_ok_and(|known| {
            known.refresh.is_some_and(|refresh| state.refused.as_ref().is_none_or(|(refused, _)| *refused != refresh))
        })
    }

    /// How long a request may wait for a refresh, where one is due and may be tried now. `anew`: also before the time
    /// that a failure put it off to.
    #[must_use]
    pub fn due(&self, anew: bool) -> Option<Duration> {
        let mut state = self.state();
        let known = self.known(&mut state).ok()?;
        let left = known.credential.expires()?.duration_since(Timestamp::now());
        let refresh = known.refresh?;
        let refused = state.refused.as_ref().is_some_and(|(refused, _)| *refused == refresh);
        let put_off = !anew && state.later.as_ref().is_some_and(|later| Instant::now() < later.until);
        if left > EARLY || refused || put_off {
            return None;
        }
        Some(if left > EXPIRY_SKEW { PATIENCE_WHILE_VALID } else { PATIENCE })
    }

    /// Takes the lock that all gateways with this folder share; `None` while another has it. The agents themselves lock
    /// nothing while they refresh: a race with one is told by the file ([`Self::keep`], [`Self::refused`]).
    ///
    /// # Errors
    /// The folder does not take it.
    pub fn lock(&self) -> Result<Option<File>, FileError> {
        files::lock_file(&self.config.folder.join(LOCK))
    }

    /// Reads the file again, under the lock. `None`: somebody refreshed it meanwhile, or what the provider gave before
    /// could be kept now.
    ///
    /// # Errors
    /// There is no login by now; or a refreshed one could not be kept, so that the old one must not be spent.
    pub fn begin(&self, anew: bool) -> Result<Option<Attempt>, SourceFault> {
        self.can_be_kept()?;
        self.state().read = None;
        if self.due(anew).is_none() {
            return Ok(None);
        }
        let Tokens { refresh, scopes, access: _, expires: _, account: _ } = self.form_read()?.1;
        let Some(refresh) = refresh else { return Ok(None) };
        let unkept = self.state().unkept.take_if(|(spent, _)| *spent == hash(&refresh));
        match unkept {
            // Sent once, and answered: never again.
            Some((_, rotated)) => self.keep(&refresh, rotated).map(|()| None),
            None => try_room(&self.path, &self.config.folder).map(|()| Some(Attempt { refresh, scopes })),
        }
    }

    /// Puts what the provider gave for `spent` into the file; only then it is used. Where the host's own agent has put
    /// another login there meanwhile, that one stays.
    ///
    /// # Errors
    /// It could not be kept: it is held for another try, and not used.
    pub fn keep(&self, spent: &SecretText, rotated: Rotated) -> Result<(), SourceFault> {
        let kept = self.form_read().and_then(|(text, tokens)| {
            if tokens.refresh.as_ref().map(hash) != Some(hash(spent)) {
                return Ok(());
            }
            let fresh =
                self.form.write(&text, &rotated, Timestamp::now()).ok_or_else(|| self.fault(LoginFault::NotJson))?;
            files::replace_alike(&self.path, fresh.as_bytes())
                .map_err(|error| SourceFault::Unwritable(self.path.clone(), error.kind()))
        });
        let mut state = self.state();
        state.read = None;
        match kept {
            Ok(()) => {
                state.later = None;
                Ok(())
            }
            Err(fault) => {
                state.unkept = Some((hash(spent), rotated));
                Err(fault)
            }
        }
    }

    /// The provider refused the refresh token. Tells whether that breaks the chain: where the host's own agent was faster,
    /// the file has another by now.
    pub fn refused(&self, spent: &SecretText, said: &str) -> bool {
        let mut state = self.state();
        state.read = None;
        let is_there = self.known(&mut state).is_ok_and(|known| known.refresh == Some(hash(spent)));
        state.refused = Some((hash(spent), said.to_owned()));
        is_there
    }

    /// It did not work out: the next try waits, longer each time.
    pub fn failed(&self, said: &str) {
        let mut state = self.state();
        let failures = state.later.as_ref().map_or(0, |later| later.failures);
        let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
        let until = Instant::now() + pause;
        state.later = Some(Later { failures: failures.saturating_add(1), until, said: said.to_owned() });
    }

    /// What was read last, while the file is the same; else what is in it now.
    fn known(&self, state: &mut State) -> Result<Arc<Known>, SourceFault> {
        let stamp = source::stamp(&self.path)?;
        if let Some((seen, known)) = &state.read
            && seen.is_same(&stamp)
        {
            return Ok(Arc::clone(known));
        }
        let before = state.read.take();
        match self.form_read() {
            Ok((_, tokens)) => {
                let known = Arc::new(self.known_of(tokens)?);
                if before.is_some_and(|(_, before)| before.refresh != known.refresh) {
                    tracing::info!(secret = %self.name, "the login was renewed in its file, and is used as it is now");
                    state.later = None;
                }
                state.read = Some((stamp, Arc::clone(&known)));
                Ok(known)
            }
            // codex writes its file in place: what is read in that moment is half a file.
            Err(SourceFault::Login(_, LoginFault::NotJson)) if before.is_some() && self.was_just_written() => {
                let known = before.map(|(_, known)| known);
                known.ok_or_else(|| self.fault(LoginFault::NotJson)).inspect(|known| {
                    state.read = Some((stamp, Arc::clone(known)));
                })
            }
            Err(fault) => Err(fault),
        }
    }

    fn known_of(&self, tokens: Tokens) -> Result<Known, SourceFault> {
        let Tokens { access, refresh, expires, account, scopes: _ } = tokens;
        let mut role = self.role.clone();
        role.account = role.account.or(account);
        let credential = Credential::new(&Whose::Provider(role), access)
            .map_err(|malformed| SourceFault::File(self.path.clone(), malformed))?
            .ending(expires);
        Ok(Known { credential: Arc::new(credential), refresh: refresh.as_ref().map(hash) })
    }

    fn form_read(&self) -> Result<(Zeroizing<String>, Tokens), SourceFault> {
        if self.path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            return Err(self.fault(LoginFault::Linked));
        }
        let text = source::read_text(&self.path)?;
        let tokens = self.form.read(&text).map_err(|fault| self.fault(fault))?;
        Ok((text, tokens))
    }

    fn can_be_kept(&self) -> Result<(), SourceFault> {
        can_be_kept(&self.path, &self.config.folder)
    }

    fn was_just_written(&self) -> bool {
        let written = self.path.metadata().and_then(|metadata| metadata.modified());
        written.is_ok_and(|time| SystemTime::now().duration_since(time).unwrap_or_default() < HALF_WRITTEN)
    }

    fn fault(&self, fault: LoginFault) -> SourceFault {
        SourceFault::Login(self.path.clone(), fault)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoginConfig {
    /// Whether this agent keeps a login at this provider.
    #[must_use]
    pub const fn fits(agent: Agent, provider: Provider) -> bool {
        Form::of(agent, provider).is_some()
    }
}

impl std::fmt::Debug for Rotated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rotated").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// Whether a refreshed login would get into the file and stay its owner's.
fn can_be_kept(path: &Path, folder: &Path) -> Result<(), SourceFault> {
    let found = path.metadata().map_err(|error| source::io_fault(path, error.kind()))?;
    let fault = |fault| Err(SourceFault::Login(path.to_owned(), fault));
    let (owner, group, own) = (found.uid(), found.gid(), geteuid());
    if access(folder, AccessFlags::W_OK | AccessFlags::X_OK).is_err() {
        return fault(LoginFault::ReadOnly);
    }
    if !own.is_root() && owner != own.as_raw() {
        return fault(LoginFault::Owner { owner, own: own.as_raw() });
    }
    let is_ours = |group: u32| {
        getegid().as_raw() == group || getgroups().is_ok_and(|ours| ours.iter().any(|one| one.as_raw() == group))
    };
    if !own.is_root() && found.mode() & GROUP != 0 && !is_ours(group) {
        return fault(LoginFault::Group(group));
    }
    Ok(())
}

/// Whether the disk would take it.
fn try_room(path: &Path, folder: &Path) -> Result<(), SourceFault> {
    files::try_room(folder, source::LONGEST_SECRET)
        .map_err(|error| SourceFault::Unwritable(path.to_owned(), error.kind()))
}

fn hash(secret: &SecretText) -> Hash {
    Sha256::digest(secret.expose()).into()
}

/// Beside the login, never removed: a lock that is removed is two locks.
const LOCK: &str = ".boxgate-refresh.lock";
const GROUP: u32 = 0o070;
/// So long before its end a login is refreshed.
const EARLY: SignedDuration = SignedDuration::from_mins(5);
/// What a request waits for a refresh while the old access token would still do, and where it would not.
const PATIENCE_WHILE_VALID: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(30);
/// From a failure to the next try; doubled with each.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
const HALF_WRITTEN: Duration = Duration::from_secs(2);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]
mod tests;
