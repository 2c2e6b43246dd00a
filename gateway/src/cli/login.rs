//! `gateway login`: gives the house a login of its own, where no agent of the host has one.

pub mod recorded;

use std::fmt::Display;
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use box_spec::{Agent, CredentialKind, Provider};
use tokio::signal::unix::{SignalKind, signal};

use crate::ca::{Ca, CaError};
use crate::config::{self, Config, ConfigFaults};
use crate::dial::Dialer;
use crate::files::{self, FileError};
use crate::sign_in::{self, Given, SignInFault};
use crate::tls;
use crate::vault::{LoginConfig, Role, SecretConfig, SecretName, Source, SourceFault, login};

use super::Exit;

/// Why there is no new login.
#[derive(Debug, thiserror::Error)]
pub enum LoginFault {
    #[error("{0}")]
    Config(ConfigFaults),
    #[error("{0} of the logins in this configuration are at {1}: say with --secret which one is meant ({2})")]
    Several(usize, Provider, String),
    #[error("no [[secret]] named {0} is a login at {1} with a `folder`")]
    NoSecret(String, Provider),
    #[error("{0} gives keys and no logins: put the key into a file, for `file` in its [[secret]]")]
    NoLogins(Provider),
    #[error("prepare the house's own folder")]
    State(#[from] FileError),
    #[error(transparent)]
    Ca(#[from] CaError),
    #[error("{0}")]
    SignIn(#[from] SignInFault),
    #[error(
        "nothing was pasted; nothing was written: run this in a terminal (`docker compose run` without -T), or give the code on standard input"
    )]
    NoInput,
    #[error("nothing was pasted within {} minutes; nothing was written: begin again", PATIENCE.as_secs() / 60)]
    TooSlow,
    #[error("ended by a signal; nothing was written")]
    Interrupted,
    #[error("another gateway has been refreshing this login for too long; nothing was written: begin again")]
    Locked,
    #[error("a login could not be kept: {0}; nothing was asked of the provider: put that right and begin again")]
    NoPlace(SourceFault),
    #[error("the login was made and cannot be kept: {0}; put that right and begin again")]
    Keep(SourceFault),
    #[error(
        "the login was made and is in no ledger, so it was not kept: {0}; put that right (`gateway status` says how the ledger is) and begin again"
    )]
    Unrecorded(#[from] recorded::RecordFault),
    #[error("set up the command")]
    Runtime(#[source] std::io::Error),
}

impl LoginFault {
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Several(..) | Self::NoSecret(..) | Self::NoLogins(_) | Self::NoInput => Exit::Usage,
            Self::SignIn(_) | Self::TooSlow | Self::Locked | Self::Unrecorded(_) => Exit::Unavailable,
            Self::State(_) | Self::Ca(_) | Self::NoPlace(_) | Self::Keep(_) => Exit::CannotCreate,
            Self::Interrupted => Exit::Interrupted,
            Self::Runtime(_) => Exit::Internal,
        }
    }
}

/// Which login of the house it will be.
struct Wanted {
    /// `None` where the configuration has no place for it yet.
    name: Option<SecretName>,
    config: LoginConfig,
    role: Role,
    /// Used in its place while it is there.
    file: Option<PathBuf>,
}

/// Signs in at the provider with the person at the terminal, and writes the login where the house looks for it.
///
/// # Errors
/// There is no login, or it cannot be kept.
pub fn run(file: &Path, provider: Provider, secret: Option<&str>, out: &mut impl Write) -> Result<(), LoginFault> {
    let config = config::load(file).map_err(LoginFault::Config)?;
    let wanted = wanted(&config, provider, secret)?;
    files::create_private_dir(&config.state)?;
    let ca = Ca::open_or_make(&config.state.join("ca"))?;
    login::prepare(&wanted.config, &wanted.role).map_err(LoginFault::NoPlace)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LoginFault::Runtime)?;
    let path = runtime.block_on(async {
        super::outlive_file_limits().map_err(LoginFault::Runtime)?;
        let (dialer, tls) = (Dialer::new(&config.dial), tls::Upstreams::new(&ca));
        let at = sign_in::Provider::of(provider, &dialer, &tls, &wanted.config);
        let at = at.ok_or(LoginFault::NoLogins(provider))?;
        let given = tokio::select! {
            given = with_a_person(provider, &at, out) => given?,
            end = ended() => return Err(end),
        };
        // Written down first: nobody is to use a login that nobody can find in the ledger.
        recorded::recorded(&config, &wanted).await?;
        keep(&wanted, &given).await
    })?;
    say(out, format_args!("The login is in {}, and the house keeps it fresh.", path.display()));
    if wanted.name.is_none() {
        say(out, format_args!("{}", how_to_use(file, provider, &wanted.config)));
    }
    if let Some(before) = wanted.file.filter(|file| file.exists()) {
        say(out, format_args!("The house uses {} in its place: remove that file to use the login.", before.display()));
    }
    Ok(())
}

async fn with_a_person(
    provider: Provider,
    at: &sign_in::Provider<'_>,
    out: &mut impl Write,
) -> Result<Given, LoginFault> {
    if provider == Provider::Anthropic {
        let begun = sign_in::browser::Begun::new(at)?;
        say(out, format_args!("Open this in a browser, on any machine, and allow it:\n\n    {}\n", begun.address()));
        say(out, format_args!("Then paste here what the page shows (CODE#STATE), and press Enter:"));
        let pasted = pasted().await?;
        return Ok(begun.finish(at, &pasted).await?);
    }
    let begun = sign_in::device::Begun::new(at).await?;
    say(out, format_args!("Open this in a browser, on any machine:\n\n    {}\n", begun.address()));
    say(out, format_args!("and type this code there, which nobody else should see:\n\n    {}\n", begun.code()));
    say(out, format_args!("Waiting until it is allowed (15 minutes at most; Ctrl-C gives up) …"));
    Ok(begun.finish(at).await?)
}

/// The line that a person pastes. The thread that waits for it ends with the process.
async fn pasted() -> Result<String, LoginFault> {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lock().take(LONGEST_INPUT).lines();
        let line = lines.by_ref().find_map(|line| line.ok().filter(|line| !line.trim().is_empty()));
        let _ = tell.send(line);
    });
    match tokio::time::timeout(PATIENCE, told).await {
        Ok(line) => line.ok().flatten().ok_or(LoginFault::NoInput),
        Err(_) => Err(LoginFault::TooSlow),
    }
}

/// As the first process of a container it would not be ended by a signal otherwise.
async fn ended() -> LoginFault {
    let watch = |kind| signal(kind).map_err(LoginFault::Runtime);
    let (mut interrupt, mut terminate) = match (watch(SignalKind::interrupt()), watch(SignalKind::terminate())) {
        (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
        (Err(fault), _) | (_, Err(fault)) => return fault,
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    LoginFault::Interrupted
}

async fn keep(wanted: &Wanted, given: &Given) -> Result<PathBuf, LoginFault> {
    let end = tokio::time::Instant::now() + LOCK_WAIT;
    let _lock = loop {
        match login::lock(&wanted.config)? {
            Some(lock) => break lock,
            None if tokio::time::Instant::now() > end => return Err(LoginFault::Locked),
            None => tokio::time::sleep(LOCK_STEP).await,
        }
    };
    login::put(&wanted.config, &wanted.role, &given.tokens, given.scopes.as_deref()).map_err(LoginFault::Keep)
}

/// A login in the configuration.
struct Found<'c> {
    name: &'c SecretName,
    login: &'c LoginConfig,
    role: Role,
    file: Option<&'c PathBuf>,
}

/// The configured login, or one in the house's own folder where none is.
fn wanted<'c>(config: &'c Config, provider: Provider, secret: Option<&str>) -> Result<Wanted, LoginFault> {
    let login_of = |one: &'c SecretConfig| {
        let (login, file) = match &one.source {
            Source::Login(login) => (login, None),
            Source::FileOrLogin(file, login) => (login, Some(file)),
            Source::Env(_) | Source::File(_) => return None,
        };
        let role = one.whose.as_login().filter(|role| role.provider == provider)?;
        Some(Found { name: &one.name, login, role, file })
    };
    let is_meant = |one: &Found<'_>| secret.is_none_or(|name| one.name.as_str() == name);
    let found: Vec<Found<'_>> = config.secrets.iter().filter_map(login_of).filter(is_meant).collect();
    match (found.as_slice(), secret) {
        ([one], _) => Ok(Wanted {
            name: Some(one.name.clone()),
            config: one.login.clone(),
            role: one.role.clone(),
            file: one.file.cloned(),
        }),
        ([], Some(name)) => Err(LoginFault::NoSecret(name.to_owned(), provider)),
        ([], None) => {
            let agent = if provider == Provider::Anthropic { Agent::Claude } else { Agent::Codex };
            let folder = config.state.join("logins").join(agent.as_str());
            let config = LoginConfig { agent, folder, unsafe_refresh_dial: None, refresh_ca: None };
            let role = Role { provider, kind: CredentialKind::Login, account: None };
            Ok(Wanted { name: None, config, role, file: None })
        }
        (several, _) => {
            let names: Vec<&str> = several.iter().map(|one| one.name.as_str()).collect();
            Err(LoginFault::Several(names.len(), provider, names.join(", ")))
        }
    }
}

fn how_to_use(file: &Path, provider: Provider, config: &LoginConfig) -> String {
    format!(
        "\nThe house does not use it yet. In {}, let the [[secret]] of {provider} have these lines\n\
         in place of its `kind`, and of its `file` or `env`, and restart the gateway:\n\n    \
         kind = \"login\"\n    login_of = \"{}\"\n    folder = \"{}\"",
        file.display(),
        config.agent,
        config.folder.display()
    )
}

/// Who does not see it any more cannot be helped.
fn say(out: &mut impl Write, text: impl Display) {
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// As long as the providers' codes live.
const PATIENCE: Duration = Duration::from_mins(15);
const LONGEST_INPUT: u64 = 64 * 1024;
const LOCK_WAIT: Duration = Duration::from_secs(25);
const LOCK_STEP: Duration = Duration::from_millis(50);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]
mod tests {
    use box_spec::Provider;

    use super::{LoginFault, how_to_use, wanted};
    use crate::config::load;

    const TWO: &str = "[[secret]]\nname = \"a\"\nprovider = \"anthropic\"\nkind = \"login\"\nlogin_of = \"claude\"\nfolder = \"a\"\n\
        [[secret]]\nname = \"b\"\nprovider = \"anthropic\"\nkind = \"login\"\nlogin_of = \"pi\"\nfolder = \"b\"\n";

    #[test]
    fn the_login_that_is_meant_is_the_configured_one_or_the_houses_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("house.toml");
        std::fs::write(&file, format!("state = \"s\"\n{TWO}")).expect("written");
        let config = load(&file).unwrap_or_else(|faults| panic!("{faults}"));
        let several = wanted(&config, Provider::Anthropic, None).err().map(|fault| fault.to_string());
        assert!(several.is_some_and(|said| said.contains("--secret") && said.contains("a, b")));
        let one = wanted(&config, Provider::Anthropic, Some("b")).expect("one");
        assert_eq!((one.config.folder, one.name.is_none()), (folder.path().join("b"), false));
        let none = wanted(&config, Provider::OpenaiCodex, Some("b")).err();
        assert!(matches!(none, Some(LoginFault::NoSecret(name, _)) if name == "b"));
        let own = wanted(&config, Provider::OpenaiCodex, None).expect("its own");
        assert_eq!((&own.config.folder, own.name.is_none()), (&folder.path().join("s/logins/codex"), true));
        // What is printed is a configuration: with it the login is found.
        let said = how_to_use(&file, Provider::OpenaiCodex, &own.config);
        let lines: String =
            said.lines().filter_map(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect();
        let with = format!("state = \"s\"\n[[secret]]\nname = \"c\"\nprovider = \"openai-codex\"\n{lines}");
        std::fs::write(&file, with).expect("written");
        let config = load(&file).unwrap_or_else(|faults| panic!("{faults}"));
        assert!(wanted(&config, Provider::OpenaiCodex, None).expect("configured").name.is_some());
    }
}
