//! The live run of a box, as boxd tells of it for a later `boxd exec`: a file of variables that a shell can read too, and
//! no secret in it.
//!
//! The agent may share boxd's uid, so anything may lie in the file's place. What is read is taken only where it is to the
//! letter what boxd would have written: it names no proxy but one on this box's loopback.

mod text;

use std::path::{Path, PathBuf};

use box_spec::wire::SENTINEL_MARK;
use box_spec::{Agent, BoxId, RunId, VariableName};
use nix::unistd::{AccessFlags, access};
use shim::Loopback;
use thiserror::Error;

use crate::environment::{self, Surroundings, Variables, is_told};
use crate::files::{self, FileFault, Folder, Held};

/// A run that told of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Live {
    pub(crate) run: RunId,
    pub(crate) box_id: BoxId,
    pub(crate) agent: Agent,
    /// The network namespace that its shim listens in.
    pub(crate) network: String,
    pub(crate) shim: Loopback,
    pub(crate) ca: PathBuf,
    pub(crate) bundle: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) session: PathBuf,
    pub(crate) workspace: Option<PathBuf>,
    /// In minutes, as it is told.
    pub(crate) ceiling: Option<String>,
    /// What the launch sets for this agent, sentinels among it.
    pub(crate) more: Vec<(String, String)>,
}

/// What is wrong with a file that lies where a run would tell of itself.
#[derive(Debug, Error)]
pub(crate) enum LiveFault {
    #[error(transparent)]
    File(#[from] FileFault),
    #[error("{path} is nothing that boxd wrote ({what}): remove it")]
    Foreign { path: String, what: String },
}

/// A file that tells of a run; it goes when this is dropped, unless another one is there by then.
#[derive(Debug)]
pub(crate) struct Notice {
    folder: Folder,
    name: String,
    text: String,
}

impl Live {
    /// The environment of a command that joins: that of the agent, on top of what its own caller has `given`.
    pub(crate) fn environment(&self, given: &Variables, extra: &Variables) -> Variables {
        let mut built = environment::build(
            given,
            extra,
            &Surroundings {
                port: self.shim.number(),
                ca: &self.ca,
                bundle: &self.bundle,
                home: &self.home,
                session: &self.session,
                workspace: self.workspace.as_deref(),
                run: self.run.as_str(),
                ceiling_seconds: None,
                // Among what is told of the agent.
                exposed: &[],
            },
        );
        if let Some(minutes) = &self.ceiling {
            built.set("BOXGATE_CEILING_MINUTES", minutes);
        }
        for (name, value) in &self.more {
            built.set(name, value);
        }
        built
    }

    /// Writes it down: in [`FOLDER`] where that is there and can be written to, else in the session.
    pub(crate) fn tell(&self, session: &Path) -> Result<Notice, LiveFault> {
        let (path, name) = match access(FOLDER, AccessFlags::W_OK | AccessFlags::X_OK) {
            Ok(()) => (Path::new(FOLDER), NAME.to_owned()),
            Err(_) => (session, in_session(self.agent)),
        };
        let text = text::written(self).ok_or_else(|| LiveFault::Foreign {
            path: path.join(&name).display().to_string(),
            what: "a path with a line feed, or that is no UTF-8, cannot be told".to_owned(),
        })?;
        let folder = Folder::open(path)?;
        folder.write(&name, text.as_bytes())?;
        folder.open_to_readers(&name)?;
        Ok(Notice { folder, name, text })
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        let there = self.folder.read(&self.name, LIMIT);
        if there.is_ok_and(|bytes| bytes.as_deref() == Some(self.text.as_bytes())) {
            // Left behind, it is seen to be of a run that is over.
            let _ = self.folder.remove(&self.name);
        }
    }
}

/// The runs that have told of themselves to this box and this session, and where.
pub(crate) fn told(session: &Path) -> Result<Vec<Live>, LiveFault> {
    let mut found = Vec::new();
    let places = Agent::ALL.map(|agent| session.join(in_session(agent)));
    for path in std::iter::once(Path::new(FOLDER).join(NAME)).chain(places) {
        let Some(bytes) = files::read_own(&path, LIMIT)? else {
            continue;
        };
        let foreign = |what| LiveFault::Foreign { path: path.display().to_string(), what };
        found.push(text::read(&bytes).map_err(foreign)?);
    }
    Ok(found)
}

/// Whether the run's boxd holds its agent's home still, as a lock on it tells. `session` is where this process sees it.
pub(crate) fn is_held(live: &Live, session: &Path) -> bool {
    is_at_home(live.agent, session)
}

/// Whether some boxd holds the home of this agent in this session.
pub(crate) fn is_at_home(agent: Agent, session: &Path) -> bool {
    let home = Folder::open(&session.join(agent.as_str()));
    home.and_then(|home| home.hold()).is_ok_and(|held| matches!(held, Held::Elsewhere))
}

/// The network namespace of this process, as the kernel names it; empty where it does not.
pub(crate) fn own_network() -> String {
    std::fs::read_link("/proc/self/ns/net").map_or_else(|_| String::new(), |name| name.display().to_string())
}

/// Of a variable that is the agent's own, whether it is told: settings and places that the launch sets, and sentinels.
pub(crate) fn may_be_told(name: &str, value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let may_hold_one = environment::is_credential(name) || name.parse::<VariableName>().is_ok();
    is_told(name) || may_hold_one && value.contains(SENTINEL_MARK) && value.bytes().all(plain)
}

fn in_session(agent: Agent) -> String {
    format!("{agent}.{NAME}")
}

/// Where a box has its door.
const FOLDER: &str = "/run/boxgate";
const NAME: &str = "env";
/// In bytes; some thousand are usual.
const LIMIT: u64 = 64 * 1024;
