//! Secrets: whether the box holds one of its house, which is told by marks alone, and what in it looks like somebody's.

mod needles;
mod walk;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use box_spec::{Agent, Marks, Searched};
use nix::unistd::getpid;

use self::needles::{Needles, Work, looks_real};
use crate::environment::{TakenAway, Variables};

/// What of a box is searched.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    /// What the agent would inherit, and what was taken away from it before.
    pub(crate) variables: &'a Variables,
    pub(crate) extra: &'a Variables,
    pub(crate) taken_away: &'a TakenAway,
    pub(crate) session: &'a Path,
    /// The one that the agent gets, and the one that the image or the caller names.
    pub(crate) homes: [Option<&'a Path>; 2],
}

/// Where something was found. Never what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Variable(String),
    /// Of the process that the box began with.
    FirstProcess(String),
    File(PathBuf),
}

/// What came of a search.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) found: Vec<Place>,
    pub(crate) searched: Searched,
}

impl Places<'_> {
    /// Searches for the house's secrets. `None` where its marks are none.
    pub(crate) fn marked(&self, marks: &Marks) -> Option<Looked> {
        let needles = Needles::of(marks)?;
        let mut work = Work::default();
        Some(self.look(|text| needles.are_in(text, &mut work)))
    }

    /// Searches for what begins as providers begin their credentials, and is no sentinel.
    pub(crate) fn real_looking(&self) -> Looked {
        self.look(|text| Some(looks_real(text)))
    }

    /// The same, in what came as the box's environment alone.
    pub(crate) fn real_looking_variables(&self) -> Vec<Place> {
        let mut looked = Looked::default();
        self.variables(&mut |text| Some(looks_real(text)), &mut looked);
        looked.found
    }

    fn look(&self, mut holds: impl FnMut(&[u8]) -> Option<bool>) -> Looked {
        let mut looked = Looked::default();
        self.variables(&mut holds, &mut looked);
        first_process(&mut holds, &mut looked);
        let agents = Agent::ALL.map(|agent| self.session.join(agent.as_str()));
        let [first, second] = self.homes;
        let homes =
            || first.into_iter().chain(second.filter(|home| first != Some(*home))).filter(|home| home.is_absolute());
        let known = homes().flat_map(|home| KNOWN.iter().map(|name| home.join(name)));
        // What an agent reads its credentials from comes first: a search that ends at its limits has seen that.
        let folders = agents.into_iter().chain([PathBuf::from(MOUNTED)]).chain(homes().map(Path::to_owned));
        let folders = folders.chain([self.session.to_owned()]);
        // What boxd writes itself: certificates, and what each run that ever was has printed, which grows without end.
        let own = ["trust", "runs"].map(|name| self.session.join(name));
        walk::files(known.collect(), folders.collect(), &own, &mut holds, &mut looked);
        looked
    }

    fn variables(&self, holds: &mut impl FnMut(&[u8]) -> Option<bool>, looked: &mut Looked) {
        let all = self.variables.iter().chain(self.extra.iter()).chain(self.taken_away.iter());
        for (name, value) in all {
            let place = || Place::Variable(shown(name));
            looked.add(holds(value.as_bytes()), place);
        }
    }
}

/// What an init in front of boxd still shows to all of its user.
fn first_process(holds: &mut impl FnMut(&[u8]) -> Option<bool>, looked: &mut Looked) {
    if getpid().as_raw() == 1 {
        return;
    }
    // As much as there may be, at once: a buffer that grows leaves copies.
    let mut text = Vec::with_capacity(usize::try_from(ENVIRONMENT).unwrap_or(0) + 1);
    // One that is closed to boxd is closed to the agent.
    let read = File::open("/proc/1/environ").and_then(|file| file.take(ENVIRONMENT).read_to_end(&mut text));
    if read.is_err() {
        return;
    }
    for one in text.split(|byte| *byte == 0).filter(|one| !one.is_empty()) {
        let (name, value) = one.split_at(one.iter().position(|byte| *byte == b'=').unwrap_or(one.len()));
        looked.add(holds(value), || Place::FirstProcess(shown(OsStr::from_bytes(name))));
    }
    text.fill(0);
}

impl Looked {
    fn add(&mut self, holds: Option<bool>, place: impl FnOnce() -> Place) {
        match holds {
            Some(found) => {
                self.searched.variables = self.searched.variables.saturating_add(1);
                let place = found.then(place);
                self.found.extend(place);
            }
            None => self.leave_out(),
        }
    }

    const fn leave_out(&mut self) {
        self.searched.left_out = self.searched.left_out.saturating_add(1);
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "the variable {name}"),
            Self::FirstProcess(name) => write!(f, "the variable {name} of process 1"),
            Self::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

/// All of them in one line; many are counted.
pub(crate) fn listed(places: &[Place]) -> String {
    let mut said: Vec<String> = places.iter().take(SHOWN).map(ToString::to_string).collect();
    if let Some(more) = places.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        said.push(format!("{more} more"));
    }
    said.join(", ")
}

fn shown(name: &OsStr) -> String {
    name.to_string_lossy().chars().take(100).collect()
}

/// Where people and programs keep credentials in a home.
const KNOWN: [&str; 14] = [
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".pi/agent/auth.json",
    ".env",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh/hosts.yml",
    ".npmrc",
    ".bashrc",
    ".profile",
    ".aws/credentials",
    ".docker/config.json",
];
/// Where engines put what they call secrets.
const MOUNTED: &str = "/run/secrets";
const SHOWN: usize = 5;
const ENVIRONMENT: u64 = 256 * 1024;
