//! From options to a plan: every path checked and every owner known before anything is touched.

use std::fs::Metadata;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::fault::{IsolateFault, at};
use super::identity::{Identity, Owner};
use super::{session, system};
use crate::network_door;

/// What `boxd --isolate` was told.
#[derive(Debug, Clone, Default)]
pub(crate) struct IsolateOptions {
    /// The door's socket on the host.
    pub(crate) door: PathBuf,
    /// Shown writable at /workspace. Default: the current folder.
    pub(crate) workspace: Option<PathBuf>,
    /// Shown writable at /session. Default: a folder of the workspace's own in the state folder of the caller.
    pub(crate) session: Option<PathBuf>,
    /// Shown read-only at /opt/boxgate/agents, the second one at /opt/boxgate/agents-2, and so on.
    pub(crate) agent_dirs: Vec<PathBuf>,
    /// Shown read-only at the same place.
    pub(crate) read_only: Vec<PathBuf>,
    /// The box's uid, where root makes it.
    pub(crate) uid: Option<u32>,
    /// The caller's HOME, which the workspace must not hold.
    pub(crate) home: Option<PathBuf>,
    /// The caller's XDG_STATE_HOME.
    pub(crate) state_home: Option<PathBuf>,
}

/// All that the box will have, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) who: Identity,
    pub(crate) door: DoorPlace,
    /// In the order in which they are put in place.
    pub(crate) items: Vec<Item>,
}

/// Where the outer boxd finds the door.
#[derive(Debug)]
pub(crate) enum DoorPlace {
    Socket { folder: PathBuf, name: PathBuf },
    Network(SocketAddr),
}

impl DoorPlace {
    /// What messages call it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Socket { folder, name } => folder.join(name).display().to_string(),
            Self::Network(address) => network_door::name(*address),
        }
    }
}

/// One thing of the host that the box shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Link { at: PathBuf, to: PathBuf },
    Tree(Tree),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) source: PathBuf,
    pub(crate) at: PathBuf,
    pub(crate) folder: bool,
    pub(crate) access: Access,
    pub(crate) owner: Owner,
    /// What was found there when the plan was drawn.
    pub(crate) inode: Inode,
}

/// A file or folder, whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    device: u64,
    number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadOnly,
    Writable,
    Device,
}

impl Inode {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), number: found.ino() }
    }
}

pub(crate) const WORKSPACE: &str = "/workspace";
pub(crate) const SESSION: &str = "/session";

/// Checks the options; makes the session folder, and nothing else.
pub(crate) fn draw(options: &IsolateOptions) -> Result<Plan, IsolateFault> {
    let caller = Owner { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() };
    let here = || std::env::current_dir().map_err(at("read", "the current folder"));
    let workspace = options.workspace.clone().map_or_else(here, Ok)?;
    let workspace = user_tree("--workspace", &workspace, WORKSPACE, Access::Writable)?;
    refuse_home(options, &workspace)?;
    let who = Identity::choose(caller, workspace.owner, options.uid)?;
    let session = session::folder(options, caller, &workspace)?;
    let session = user_tree("--session", &session, SESSION, Access::Writable)?;
    let mut shown = vec![workspace, session];
    shown.extend(agent_trees(options)?);
    shown.extend(read_only_trees(options)?);
    let door = door(options, &shown)?;
    let mut items = system::items()?;
    // A place inside another one must come after it.
    shown.sort_by_key(|tree| tree.at.components().count());
    items.extend(shown.into_iter().map(Item::Tree));
    Ok(Plan { who, door, items })
}

/// A folder or file that the caller named, with symlinks resolved.
fn user_tree(
    option: &'static str,
    path: &Path,
    place: impl Into<PathBuf>,
    access: Access,
) -> Result<Tree, IsolateFault> {
    let said = |error: std::io::Error| IsolateFault::option(option, path, error.to_string());
    let source = path.canonicalize().map_err(said)?;
    let found = source.metadata().map_err(said)?;
    let folder = found.is_dir();
    if access == Access::Writable && !folder {
        return Err(IsolateFault::option(option, path, "is no folder"));
    }
    if source == Path::new("/") {
        return Err(IsolateFault::option(option, path, "is the whole host"));
    }
    if !folder && !found.is_file() {
        return Err(IsolateFault::option(option, path, "is neither folder nor file"));
    }
    Ok(Tree { source, at: place.into(), folder, access, owner: Owner::of(&found), inode: Inode::of(&found) })
}

/// A workspace that holds the caller's home would show every secret in it.
fn refuse_home(options: &IsolateOptions, workspace: &Tree) -> Result<(), IsolateFault> {
    let home = session::absolute(&options.home).and_then(|home| home.canonicalize().ok());
    match home {
        Some(home) if home.starts_with(&workspace.source) && home != Path::new("/") => Err(IsolateFault::option(
            "--workspace",
            &workspace.source,
            "holds your home folder; name a project's folder",
        )),
        _ => Ok(()),
    }
}

fn agent_trees(options: &IsolateOptions) -> Result<Vec<Tree>, IsolateFault> {
    let place = |index: usize| match index {
        0 => AGENTS.to_owned(),
        more => format!("{AGENTS}-{}", more + 1),
    };
    options
        .agent_dirs
        .iter()
        .enumerate()
        .map(|(index, path)| user_tree("--agent-dir", path, place(index), Access::ReadOnly))
        .collect()
}

fn read_only_trees(options: &IsolateOptions) -> Result<Vec<Tree>, IsolateFault> {
    options
        .read_only
        .iter()
        .map(|path| {
            check_place(path)?;
            user_tree("--ro", path, path, Access::ReadOnly)
        })
        .collect()
}

/// A path shown at its own place must not cover what the box makes itself.
fn check_place(path: &Path) -> Result<(), IsolateFault> {
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(plain) {
        return Err(IsolateFault::option("--ro", path, "must be absolute, without `..`"));
    }
    let own = OWN.iter().find(|own| path.starts_with(own) || Path::new(own).starts_with(path));
    match own {
        Some(own) => Err(IsolateFault::option("--ro", path, format!("would cover the box's own {own}"))),
        None => Ok(()),
    }
}

/// The address of the door, or its folder and the socket's name in it; refused where the box would see that.
fn door(options: &IsolateOptions, shown: &[Tree]) -> Result<DoorPlace, IsolateFault> {
    let door = &options.door;
    match network_door::address_of(door) {
        Ok(Some(address)) => return Ok(DoorPlace::Network(address)),
        Ok(None) => {}
        Err(fault) => return Err(IsolateFault::option("--door", door, fault.to_string())),
    }
    let (Some(folder), Some(name)) = (door.parent(), door.file_name()) else {
        return Err(IsolateFault::option("--door", door, "is no path of a socket"));
    };
    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
    let folder = folder.canonicalize().map_err(|source| IsolateFault::Door { path: door.clone(), source })?;
    match shown.iter().find(|tree| folder.starts_with(&tree.source)) {
        Some(tree) => Err(IsolateFault::option(
            "--door",
            door,
            format!("lies in {}, which the box can see", tree.source.display()),
        )),
        None => Ok(DoorPlace::Socket { folder, name: PathBuf::from(name) }),
    }
}

const AGENTS: &str = "/opt/boxgate/agents";

const OWN: [&str; 9] =
    ["/dev", "/etc", "/proc", "/run", "/session", "/sys", "/tmp", "/workspace", "/opt/boxgate/agents"];

#[cfg(test)]
mod tests {
    use super::{IsolateOptions, check_place, draw};
    use std::path::Path;

    #[test]
    fn a_path_shown_at_its_place_covers_nothing_of_the_box() {
        let table = [
            ("/home/me/.nvm/versions/node", true),
            ("/opt/node", true),
            ("/opt", false),
            ("/", false),
            ("/tmp/x", false),
            ("/etc", false),
            ("/etc/ssl", false),
            ("relative", false),
            ("/opt/../etc", false),
        ];
        for (path, fine) in table {
            assert_eq!(check_place(Path::new(path)).is_ok(), fine, "{path}");
        }
    }

    #[test]
    fn a_plan_is_refused_by_name() {
        let base = tempfile::tempdir().expect("temporary folder");
        let make = |name: &str| {
            let path = base.path().join(name);
            std::fs::create_dir_all(&path).expect("make folder");
            path
        };
        let good = IsolateOptions {
            door: make("door").join("door.sock"),
            workspace: Some(make("work")),
            session: Some(base.path().join("session")),
            ..IsolateOptions::default()
        };
        assert!(draw(&good).is_ok());
        let missing = Some(base.path().join("missing"));
        let table = [
            ("--workspace", 64, IsolateOptions { workspace: missing, ..good.clone() }),
            ("whole host", 64, IsolateOptions { workspace: Some("/".into()), ..good.clone() }),
            ("which the box can see", 64, IsolateOptions { door: make("work/door").join("s"), ..good.clone() }),
            ("name its door", 69, IsolateOptions { door: base.path().join("no/door.sock"), ..good.clone() }),
            (
                "neither folder nor file",
                64,
                IsolateOptions { read_only: vec!["/usr/../dev/null".into()], ..good.clone() },
            ),
            ("--agent-dir", 64, IsolateOptions { agent_dirs: vec!["/no/such".into()], ..good }),
        ];
        for (said, code, options) in table {
            let fault = draw(&options).expect_err(said);
            let ro = said.starts_with("neither");
            assert!(ro || fault.to_string().contains(said), "{said}: {fault}");
            assert_eq!(fault.exit_code(), code, "{said}");
        }
    }
}
