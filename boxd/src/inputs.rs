//! What the caller wants, from arguments and environment: read once, checked, and not looked at again.

mod door;
mod doctor;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use box_spec::{Agent, Fingerprint};
use shim::Door;
use thiserror::Error;

pub(crate) use self::doctor::WantedDoctor;
use self::door::{DoorInputs, pinned};
use crate::cli::{ExecArguments, LaunchArguments, Output, RunArguments};
use crate::environment::{self, TakenAway, Variables};
use crate::harden::{LeftOut, LeftOutFault};
use crate::isolate::Inside;
use crate::network_door::{NetworkDoor, NetworkDoorFault};
use crate::{agent, sys};

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Inputs {
    Run(Box<Wanted>),
    /// `boxd run --agent A -- --version`: no claim, no token, no file.
    AgentVersion(WantedVersion),
}

/// One run, as the caller asked for it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) agent: Option<Agent>,
    /// What runs in the agent's place, if something does: a program and its arguments. There is no prompt then.
    pub(crate) command: Option<Vec<OsString>>,
    pub(crate) prompt: String,
    /// What is added to the agent's own system text.
    pub(crate) system: Option<String>,
    pub(crate) agent_arguments: Vec<String>,
    pub(crate) output: Output,
    pub(crate) door: Door,
    /// What a TCP door takes besides; `None` at a unix door.
    pub(crate) network_door: Option<NetworkDoor>,
    /// The box has an interface, and this is the one address that it may reach.
    pub(crate) over_network: Option<SocketAddr>,
    pub(crate) session: PathBuf,
    /// Where the agent works; `None` where that is not known.
    pub(crate) workspace: Option<PathBuf>,
    /// The house that this box belongs to, where it is pinned.
    pub(crate) house: Option<Fingerprint>,
    pub(crate) agent_path: Vec<PathBuf>,
    /// The caller's environment, scrubbed.
    pub(crate) variables: Variables,
    /// What was scrubbed away.
    pub(crate) taken_away: TakenAway,
    /// What `--env` adds.
    pub(crate) extra: Variables,
    pub(crate) unsafe_open_network: bool,
    /// The hardening that `--unsafe-without` leaves out.
    pub(crate) left_out: LeftOut,
}

#[derive(Debug)]
pub(crate) struct WantedVersion {
    pub(crate) agent: Agent,
    pub(crate) agent_path: Vec<PathBuf>,
    pub(crate) variables: Variables,
}

/// What is wrong with the arguments or the environment: exit code 64.
#[derive(Debug, Error)]
pub(crate) enum InputFault {
    #[error(transparent)]
    Agent(#[from] box_spec::agent::UnknownAgent),
    #[error(
        "boxd is called as run-{called_for}, with --agent {asked}: leave the option out, or call boxd by its own name"
    )]
    TwoAgents { called_for: Agent, asked: Agent },
    #[error("BOXGATE_AGENT: {0}")]
    AgentVariable(box_spec::agent::UnknownAgent),
    #[error("--version needs --agent: pi, claude or codex")]
    VersionOfWhat,
    #[error("no prompt: give it as an argument, by --prompt=TEXT or by --prompt-file FILE")]
    NoPrompt,
    #[error("more than one prompt: give it as an argument, by --prompt or by --prompt-file")]
    ManyPrompts,
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("the prompt has a NUL character or is not UTF-8")]
    PromptText,
    #[error("the prompt is longer than 16 MiB")]
    PromptLength,
    #[error("the system text has a NUL character, is not UTF-8 or is longer than 100 KiB")]
    SystemText,
    #[error("read prompt {path}")]
    PromptFile { path: String, source: std::io::Error },
    #[error(
        "the variable {0} is not known: boxd reads BOXGATE_AGENT, BOXGATE_AGENT_PATH, BOXGATE_DOOR, BOXGATE_HOUSE, BOXGATE_HOUSE_FILE, BOXGATE_KEY_FILE, BOXGATE_SESSION and BOXGATE_SYSTEM"
    )]
    UnknownVariable(String),
    #[error("the variable {0} is reserved: the launch sets it")]
    Reserved(String),
    #[error("the variables {0} and {1} each name another provider: give none, the house serves the agent")]
    TwoProviders(String, String),
    #[error("--reach takes ADDRESS:PORT or an absolute path, and not {0}")]
    Reach(String),
    #[error("--env takes NAME=VALUE")]
    NotAVariable,
    #[error("BOXGATE_HOUSE: {0}")]
    House(box_spec::NameFault),
    #[error(transparent)]
    NetworkDoor(#[from] NetworkDoorFault),
    #[error("{what} must be an absolute path")]
    Relative { what: &'static str },
    #[error("the path of the session must be UTF-8: it is written into the agents' own files")]
    SessionPath,
    #[error("no folder for the session: there is no /session and no HOME; give --session DIR")]
    NoSession,
    #[error(transparent)]
    LeftOut(#[from] LeftOutFault),
    #[error(transparent)]
    AgentArgument(#[from] agent::ArgumentRefused),
}

/// Takes a copy of the environment and wipes the original, which other processes may be able to read.
pub(crate) fn take_environment() -> BTreeMap<OsString, OsString> {
    let taken = std::env::vars_os().collect();
    sys::wipe_environment();
    taken
}

impl Inputs {
    pub(crate) fn new(arguments: Box<RunArguments>, given: BTreeMap<OsString, OsString>) -> Result<Self, InputFault> {
        let taken = Taken::new(given)?;
        let agent = agent_of(&arguments)?.or(taken.own.agent);
        if asks_for_version(&arguments) {
            let agent = agent.ok_or(InputFault::VersionOfWhat)?;
            let agent_path = taken.own.agent_path;
            return Ok(Self::AgentVersion(WantedVersion { agent, agent_path, variables: taken.variables }));
        }
        let system = system_text(arguments.system.clone().or_else(|| taken.own.system.clone()))?;
        if let Some(agent) = agent {
            agent::check_arguments(agent, &arguments.agent_arguments, system.is_some())?;
        }
        let deed = Deed {
            command: None,
            prompt: prompt_of(&arguments)?,
            system,
            output: arguments.output.unwrap_or_else(default_output),
            agent_arguments: arguments.agent_arguments,
        };
        Ok(Self::Run(Box::new(Wanted::new(agent, deed, arguments.launch, taken)?)))
    }
}

/// What runs: an agent with a prompt, or a command in its place.
struct Deed {
    command: Option<Vec<OsString>>,
    prompt: String,
    system: Option<String>,
    output: Output,
    agent_arguments: Vec<String>,
}

/// The caller's environment, taken apart.
struct Taken {
    own: OwnVariables,
    variables: Variables,
    taken_away: TakenAway,
}

impl Taken {
    fn new(mut given: BTreeMap<OsString, OsString>) -> Result<Self, InputFault> {
        let own = OwnVariables::take(&mut given)?;
        let (variables, taken_away) = environment::scrub(given);
        Ok(Self { own, variables, taken_away })
    }
}

impl Wanted {
    /// A command in the agent's place: `boxd exec`.
    pub(crate) fn of_command(
        arguments: ExecArguments,
        given: BTreeMap<OsString, OsString>,
    ) -> Result<Self, InputFault> {
        let ExecArguments { launch, command } = arguments;
        let taken = Taken::new(given)?;
        let agent = launch.agent.as_deref().map(str::parse::<Agent>).transpose()?.or(taken.own.agent);
        let deed = Deed {
            command: Some(command),
            prompt: String::new(),
            system: None,
            // What the command prints goes to the caller, and not through boxd.
            output: Output::Native,
            agent_arguments: Vec::new(),
        };
        Self::new(agent, deed, launch, taken)
    }

    fn new(agent: Option<Agent>, deed: Deed, launch: LaunchArguments, taken: Taken) -> Result<Self, InputFault> {
        let Deed { command, prompt, system, output, agent_arguments } = deed;
        let LaunchArguments { agent: _, door, session, env, unsafe_open_network, unsafe_without } = launch;
        let Taken { own, variables, taken_away } = taken;
        let at = DoorInputs::new(door.or(own.door), own.key_file.as_deref(), own.house.as_ref())?;
        let session = session_of(session.or(own.session), &variables)?;
        Ok(Self {
            agent,
            command,
            prompt,
            system,
            agent_arguments,
            output,
            door: at.door,
            over_network: at.network_door.as_ref().map(|door| door.address),
            network_door: at.network_door,
            session: absolute(session, "--session")?,
            workspace: std::env::current_dir().ok(),
            house: own.house,
            agent_path: own.agent_path,
            variables,
            taken_away,
            extra: extra_variables(&env)?,
            unsafe_open_network,
            left_out: LeftOut::read(&unsafe_without)?,
        })
    }

    /// Into the box that boxd has made: its places, and its way to the door.
    pub(crate) fn move_in(&mut self, inside: Inside) {
        let Inside { door, session, workspace } = inside;
        self.variables.keep_for_isolation();
        self.variables.set("PWD", &workspace);
        self.variables.set("TMPDIR", "/tmp");
        self.door = door;
        // The box has no interface of its own, whatever the outer boxd has.
        self.over_network = None;
        self.session = session;
        self.workspace = Some(workspace);
    }
}

/// The variables that boxd itself reads.
#[derive(Default)]
struct OwnVariables {
    agent: Option<Agent>,
    system: Option<OsString>,
    door: Option<PathBuf>,
    session: Option<PathBuf>,
    house: Option<Fingerprint>,
    key_file: Option<PathBuf>,
    agent_path: Vec<PathBuf>,
}

impl OwnVariables {
    /// Takes them out of `given`. One that is set but empty counts as not set, as compose files write it.
    fn take(given: &mut BTreeMap<OsString, OsString>) -> Result<Self, InputFault> {
        let mut own = Self::default();
        let mut house_file = None;
        let names: Vec<OsString> = given.keys().filter(|name| environment::is_own(name)).cloned().collect();
        for name in names {
            let value = given.remove(&name).filter(|value| !value.is_empty());
            let shown = name.to_string_lossy().into_owned();
            match (shown.as_str(), value) {
                ("BOXGATE_AGENT", Some(value)) => {
                    own.agent = Some(value.to_string_lossy().parse().map_err(InputFault::AgentVariable)?);
                }
                ("BOXGATE_SYSTEM", value) => own.system = value,
                ("BOXGATE_DOOR", value) => own.door = value.map(PathBuf::from),
                ("BOXGATE_SESSION", value) => own.session = value.map(PathBuf::from),
                ("BOXGATE_HOUSE", Some(value)) => {
                    own.house = Some(value.to_string_lossy().parse().map_err(InputFault::House)?);
                }
                ("BOXGATE_HOUSE_FILE", value) => house_file = value.map(PathBuf::from),
                ("BOXGATE_KEY_FILE", value) => own.key_file = value.map(PathBuf::from),
                ("BOXGATE_AGENT_PATH", Some(value)) => own.agent_path = std::env::split_paths(&value).collect(),
                ("BOXGATE_AGENT" | "BOXGATE_HOUSE" | "BOXGATE_AGENT_PATH", None) => {}
                // Of the run that this process is part of.
                (name, _) if RUNS_OWN.contains(&name) => {}
                _ => return Err(InputFault::UnknownVariable(shown)),
            }
        }
        own.house = pinned(own.house, house_file)?;
        match own.agent_path.iter().all(|path| path.is_absolute()) {
            true => Ok(own),
            false => Err(InputFault::Relative { what: "BOXGATE_AGENT_PATH" }),
        }
    }
}

/// The agent of the command line: boxd's own name, or the option.
fn agent_of(arguments: &RunArguments) -> Result<Option<Agent>, InputFault> {
    let asked = arguments.launch.agent.as_deref().map(str::parse::<Agent>).transpose()?;
    match (arguments.called_for, asked) {
        (Some(called_for), Some(asked)) if called_for != asked => Err(InputFault::TwoAgents { called_for, asked }),
        (called_for, asked) => Ok(called_for.or(asked)),
    }
}

fn asks_for_version(arguments: &RunArguments) -> bool {
    let no_prompt = arguments.prompt.is_none() && arguments.prompt_option.is_none() && arguments.prompt_file.is_none();
    no_prompt && arguments.agent_arguments == ["--version"]
}

fn default_output() -> Output {
    if std::io::stdout().is_terminal() { Output::Text } else { Output::Native }
}

fn absolute(path: PathBuf, what: &'static str) -> Result<PathBuf, InputFault> {
    if path.is_absolute() { Ok(path) } else { Err(InputFault::Relative { what }) }
}

fn session_of(given: Option<PathBuf>, variables: &Variables) -> Result<PathBuf, InputFault> {
    let standing = || Some(PathBuf::from(SESSION)).filter(|path| path.is_dir());
    let at_home = || variables.get("HOME").filter(|home| !home.is_empty()).map(|home| Path::new(home).join(".boxgate"));
    let session = given.or_else(standing).or_else(at_home).ok_or(InputFault::NoSession)?;
    if session.to_str().is_some() { Ok(session) } else { Err(InputFault::SessionPath) }
}

/// Empty text is none.
fn system_text(given: Option<OsString>) -> Result<Option<String>, InputFault> {
    let text = given.map(OsString::into_string).transpose().map_err(|_| InputFault::SystemText)?;
    let text = text.filter(|text| !text.trim().is_empty());
    match text.as_deref().is_some_and(|text| text.contains('\0') || text.len() > SYSTEM_LIMIT) {
        true => Err(InputFault::SystemText),
        false => Ok(text),
    }
}

fn extra_variables(given: &[String]) -> Result<Variables, InputFault> {
    let mut extra = Variables::default();
    let mut providers =
        given.iter().filter_map(|entry| entry.split('=').next()).filter(|name| environment::names_provider(name));
    if let (Some(first), Some(second)) = (providers.next(), providers.next()) {
        return Err(InputFault::TwoProviders(first.to_owned(), second.to_owned()));
    }
    for entry in given {
        let (name, value) =
            entry.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or(InputFault::NotAVariable)?;
        if environment::is_reserved(name) {
            return Err(InputFault::Reserved(name.to_owned()));
        }
        extra.set(name, value);
    }
    Ok(extra)
}

fn prompt_of(arguments: &RunArguments) -> Result<String, InputFault> {
    let prompt = match (&arguments.prompt, &arguments.prompt_option, &arguments.prompt_file) {
        (Some(text), None, None) | (None, Some(text), None) => text.clone(),
        (None, None, Some(file)) => prompt_file(file)?,
        (None, None, None) => return Err(InputFault::NoPrompt),
        _ => return Err(InputFault::ManyPrompts),
    };
    if prompt.trim().is_empty() {
        return Err(InputFault::EmptyPrompt);
    }
    if prompt.contains('\0') { Err(InputFault::PromptText) } else { Ok(prompt) }
}

fn prompt_file(path: &Path) -> Result<String, InputFault> {
    let fault = |source| InputFault::PromptFile { path: path.display().to_string(), source };
    let mut bytes = Vec::new();
    let count = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(PROMPT_LIMIT + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).map_err(fault)?.take(PROMPT_LIMIT + 1).read_to_end(&mut bytes)
    };
    if count.map_err(fault)? as u64 > PROMPT_LIMIT {
        return Err(InputFault::PromptLength);
    }
    OsString::from_vec(bytes).into_string().map_err(|_| InputFault::PromptText)
}

/// What a run, and its file for `boxd exec`, tell of it.
const RUNS_OWN: [&str; 7] = [
    "BOXGATE_RUN",
    "BOXGATE_CEILING_MINUTES",
    "BOXGATE_WORKSPACE",
    "BOXGATE_SESSION_DIR",
    "BOXGATE_BOX",
    "BOXGATE_NETWORK",
    "BOXGATE_SHIM",
];
pub(crate) const DOOR: &str = "/run/boxgate/door/door.sock";
const SESSION: &str = "/session";
const PROMPT_LIMIT: u64 = 16 * 1024 * 1024;
/// The kernel takes no single argument of 128 KiB, and to claude it is one.
const SYSTEM_LIMIT: usize = 100 * 1024;
