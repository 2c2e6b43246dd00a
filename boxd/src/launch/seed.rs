//! Seed: write what the agent finds when it starts. Everything is written at every launch.

mod ask;
mod node;
mod catalog;

use std::path::{Path, PathBuf};

use box_spec::Agent;
use jiff::Timestamp;
use nix::unistd::{AccessFlags, access, geteuid};
use serde_json::{Map, Value};
use thiserror::Error;

use super::claim::Claimed;
use crate::agent::{self, Content, Place, Plan, PlanFault, PlannedFile, Standing, Task};
use crate::environment::WGETRC_FILE;
use crate::exit;
use crate::files::{FileFault, Folder, Held, Hold};
use crate::find::{self, FindFault, Found};
use crate::inputs::Wanted;
use crate::program::{Program, Streams};
use crate::sys::Inherited;
use crate::{say, trust};

/// All that is ready before the agent starts, but the shim.
#[derive(Debug)]
pub(super) struct Seeded {
    pub(super) program: Program,
    /// Of the agent's package, where it is known; also of an agent that a command runs in place of.
    pub(super) agent_version: Option<String>,
    /// What the agent is told by its environment, beside what every agent is.
    pub(super) variables: Vec<(&'static str, String)>,
    pub(super) home: PathBuf,
    pub(super) ca: PathBuf,
    pub(super) bundle: PathBuf,
    pub(super) workspace: Option<PathBuf>,
    /// Where this run's transcript goes.
    pub(super) record: Folder,
    /// No other launch writes into the agent's home while the run lasts.
    _alone: Option<Hold>,
}

#[derive(Debug, Error)]
pub(super) enum SeedFault {
    #[error(transparent)]
    Find(#[from] FindFault),
    #[error(transparent)]
    Node(#[from] node::NodeFault),
    #[error(transparent)]
    Plan(#[from] PlanFault),
    #[error(transparent)]
    File(#[from] FileFault),
    #[error("no session can be made at {0}: mount a folder at /session, or name one by --session or BOXGATE_SESSION")]
    NoSession(String, #[source] FileFault),
    #[error(
        "another run of {agent} has the session {session}, and two would take each other's credentials: wait for its end, or give this one a --session of its own"
    )]
    Taken { agent: Agent, session: String },
}

impl SeedFault {
    pub(super) const fn code(&self) -> u8 {
        match self {
            Self::Find(fault) => fault.code(),
            Self::Node(fault) => fault.code(),
            Self::Plan(fault) => fault.code(),
            Self::File(_) | Self::NoSession(..) => exit::CANNOT_CREATE,
            Self::Taken { .. } => exit::TAKEN,
        }
    }
}

/// Finds the agent and writes its files.
pub(super) fn seed(wanted: &Wanted, claimed: &Claimed, inherited: &Inherited) -> Result<Seeded, SeedFault> {
    let spec = &claimed.spec;
    let found = found(spec.agent, wanted, inherited)?;
    let session = Folder::open_or_make(&wanted.session)
        .map_err(|fault| SeedFault::NoSession(wanted.session.display().to_string(), fault))?;
    let agent_home = session.inner(spec.agent.as_str())?;
    let alone = alone(spec.agent, &session, &agent_home)?;
    let home = home_of(wanted, &session)?;
    let standing = standing(spec.agent, &agent_home)?;
    let record = session.inner("runs")?.inner(spec.run.as_str())?;
    let catalog = match &found {
        Some(found) => catalog::catalog(spec.agent, found, &agent_home, record.path(), wanted, inherited)?,
        None => None,
    };
    let plan = agent::plan(
        spec.agent,
        &Task {
            prompt: &wanted.prompt,
            system: wanted.system.as_deref(),
            arguments: &wanted.agent_arguments,
            sentinels: &spec.sentinels,
            home: agent_home.path(),
            uid: geteuid().as_raw(),
            sandbox_is_set: wanted.variables.get("IS_SANDBOX").is_some() || wanted.extra.get("IS_SANDBOX").is_some(),
            standing: &standing,
            catalog: catalog.as_deref(),
            now: &Timestamp::now().to_string(),
        },
    )?;
    for file in &plan.files {
        let folder = match file.place {
            Place::AgentHome => &agent_home,
            Place::UserHome => &home,
        };
        put(folder, file)?;
    }
    let (ca, bundle) = write_trust(&session, &spec.ca_pem)?;
    let home = home.path().to_owned();
    let workspace = wanted.workspace.clone();
    let Plan { files: _, arguments, stdin, variables } = plan;
    let agent_version = found.as_ref().and_then(|found| found.version.clone());
    let program = match (&wanted.command, found) {
        (None, Some(found)) => agents_own(found, arguments, stdin),
        (command, _) => Program::of_command(command.as_deref().unwrap_or_default()),
    };
    Ok(Seeded { program, agent_version, variables, home, ca, bundle, workspace, record, _alone: alone })
}

/// The agent; a command in its place can do without.
fn found(agent: Agent, wanted: &Wanted, inherited: &Inherited) -> Result<Option<Found>, SeedFault> {
    let found = find::find(agent, &wanted.agent_path, wanted.variables.get("PATH"));
    if wanted.command.is_some() {
        return Ok(found.ok());
    }
    let found = found?;
    node::check(agent, &found, wanted, inherited)?;
    Ok(Some(found))
}

fn agents_own(found: Found, arguments: Vec<String>, stdin: Option<String>) -> Program {
    let script = found.script.map(PathBuf::into_os_string);
    let arguments = script.into_iter().chain(arguments.into_iter().map(Into::into)).collect();
    Program { path: found.program.into_os_string(), arguments, streams: Streams::Boxds { stdin } }
}

/// Sees to it that no other run of the agent has the session: each would read the credentials of the other. A file
/// system without locks is no reason to run nothing.
fn alone(agent: Agent, session: &Folder, home: &Folder) -> Result<Option<Hold>, SeedFault> {
    match home.hold()? {
        Held::Here(hold) => Ok(Some(hold)),
        Held::Elsewhere => Err(SeedFault::Taken { agent, session: session.path().display().to_string() }),
        Held::Never => {
            say::line(&format!(
                "WARNING: see to it that no second run of {agent} uses this session: its file system has no locks"
            ));
            Ok(None)
        }
    }
}

/// What is in the agent's home from before and must be seen by the plan.
fn standing(agent: Agent, home: &Folder) -> Result<Standing, SeedFault> {
    let mut standing = Standing::new();
    for name in agent::standing_files(agent) {
        match home.read(name, STANDING_LIMIT + 1)? {
            // A part of it might be sound, and mean something else.
            Some(bytes) if bytes.len() as u64 > STANDING_LIMIT => {
                let what = format!("is longer than {STANDING_LIMIT} bytes");
                return Err(PlanFault::standing(home.path(), name, what).into());
            }
            Some(bytes) => drop(standing.insert(name, bytes)),
            None => {}
        }
    }
    Ok(standing)
}

/// The user's `HOME` where it can be written to, else one in the session.
fn home_of(wanted: &Wanted, session: &Folder) -> Result<Folder, FileFault> {
    let given = wanted.variables.get("HOME").map(Path::new);
    let may_write = AccessFlags::W_OK | AccessFlags::X_OK;
    let usable = given.filter(|home| home.is_absolute() && home.is_dir() && access(*home, may_write).is_ok());
    usable.map_or_else(|| session.inner("home"), Folder::open)
}

fn put(folder: &Folder, file: &PlannedFile) -> Result<(), FileFault> {
    match &file.content {
        Content::Whole(text) => folder.write(file.name, text.as_bytes()).map(drop),
        Content::Absent => folder.remove(file.name),
        Content::Merged { key, value } => merge(folder, file.name, key, *value),
    }
}

/// Sets one key of a JSON object and leaves the rest. A file that is no JSON object is the user's affair: it stays.
fn merge(folder: &Folder, name: &str, key: &str, value: bool) -> Result<(), FileFault> {
    let found = folder.read(name, MERGE_LIMIT)?.filter(|bytes| !bytes.is_empty());
    let mut object = match found.as_deref().map(serde_json::from_slice::<Map<String, Value>>) {
        None => Map::new(),
        Some(Ok(object)) => object,
        Some(Err(_)) => {
            say::line(&format!("{} is no JSON object: left as it is", folder.path().join(name).display()));
            return Ok(());
        }
    };
    if object.get(key) == Some(&Value::Bool(value)) {
        return Ok(());
    }
    object.insert(key.to_owned(), Value::Bool(value));
    folder.write(name, Value::Object(object).to_string().as_bytes()).map(drop)
}

/// The house's certificate alone, and the bundle.
fn write_trust(session: &Folder, ca_pem: &str) -> Result<(PathBuf, PathBuf), FileFault> {
    let folder = session.inner("trust")?;
    let ca = folder.write("ca.pem", ca_pem.as_bytes())?;
    let bundle = trust::bundle(ca_pem).unwrap_or_else(|| {
        say::line(&"WARNING: this image has no roots of its own: clients trust the house's certificate alone");
        ca_pem.to_owned()
    });
    let bundle = folder.write("bundle.pem", bundle.as_bytes())?;
    folder.write(WGETRC_FILE, &trust::wgetrc(&bundle))?;
    Ok((ca, bundle))
}

/// For a file of the user's that is read before the plan.
const STANDING_LIMIT: u64 = 1024 * 1024;
/// A file that is cut here does not parse, and so it stays.
const MERGE_LIMIT: u64 = 16 * 1024 * 1024;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
mod tests {
    use super::merge;
    use crate::files::Folder;

    #[test]
    fn a_users_file_keeps_all_that_it_says() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(place.path()).expect("open");
        let path = place.path().join(".claude.json");
        for (before, after) in [
            (r#"{"a":1}"#, r#"{"a":1,"done":true}"#),
            (r#"{ "done": true, "a": 1 }"#, r#"{ "done": true, "a": 1 }"#),
            (r#"{"done":false}"#, r#"{"done":true}"#),
            ("{\"cut", "{\"cut"),
            ("[]", "[]"),
            ("", r#"{"done":true}"#),
        ] {
            std::fs::write(&path, before).expect("written");
            merge(&folder, ".claude.json", "done", true).expect("merged");
            assert_eq!(std::fs::read_to_string(&path).expect("read"), after, "{before:?}");
        }
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("a folder");
        assert!(merge(&folder, ".claude.json", "done", true).is_err());
    }
}
