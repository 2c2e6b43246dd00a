//! Finding the agent's program: a documented order of folders, and within an npm tree the native program.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use box_spec::Agent;
use nix::unistd::{AccessFlags, access};
use serde::Deserialize;
use thiserror::Error;

use crate::agent;
use crate::exit;

/// A program that can be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) program: PathBuf,
    /// What the program is to run, where the agent is a script and `program` its interpreter.
    pub(crate) script: Option<PathBuf>,
    /// From the `package.json` that it belongs to.
    pub(crate) version: Option<String>,
    /// Which versions of node the package asks for, where the node on PATH is what runs it.
    pub(crate) node: Option<String>,
}

#[derive(Debug, Error)]
pub(crate) enum FindFault {
    #[error(
        "{agent} is not in this box; tried {tried}; install it, name its folder by BOXGATE_AGENT_PATH, or show its tree to an isolated box with --agent-dir"
    )]
    NotFound { agent: Agent, tried: String },
    #[error("{agent} at {path} is not executable")]
    NotExecutable { agent: Agent, path: String },
    #[error(
        "{agent} at {path} is a script that starts a program of the npm package {package}, which is not beside it: install that package too (npm leaves it out where optional packages are omitted)"
    )]
    NoProgram { agent: Agent, path: String, package: String },
}

impl FindFault {
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::NotFound { .. } | Self::NoProgram { .. } => exit::NOT_FOUND,
            Self::NotExecutable { .. } => exit::NOT_EXECUTABLE,
        }
    }
}

/// Looks in the folders of BOXGATE_AGENT_PATH, of PATH, and in the usual places, in this order.
pub(crate) fn find(agent: Agent, first: &[PathBuf], path: Option<&OsStr>) -> Result<Found, FindFault> {
    let on_path = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let usual = USUAL.iter().map(PathBuf::from);
    let folders = first.iter().cloned().chain(on_path).chain(usual).filter(|folder| folder.is_absolute());
    let mut tried: Vec<String> = Vec::new();
    let mut unfit = None;
    for folder in folders {
        let candidate = folder.join(agent.as_str());
        let shown = candidate.display().to_string();
        if tried.contains(&shown) {
            continue;
        }
        match program_at(agent, &candidate) {
            Candidate::Good(found) => return Ok(found),
            Candidate::Unfit(fault) => unfit = unfit.or(Some(fault)),
            Candidate::Missing => {}
        }
        tried.push(shown);
    }
    Err(unfit.unwrap_or_else(|| FindFault::NotFound { agent, tried: tried.join(", ") }))
}

enum Candidate {
    Good(Found),
    Unfit(FindFault),
    Missing,
}

/// The program behind a name in a folder. In an npm tree the package's own entry may be a stub that only an install
/// script would have replaced, so the native program beside it is taken where there is one.
fn program_at(agent: Agent, candidate: &Path) -> Candidate {
    let Ok(real) = candidate.canonicalize() else {
        return Candidate::Missing;
    };
    if !real.is_file() {
        return Candidate::Missing;
    }
    let package = real.ancestors().find(|folder| folder.ends_with(agent::package(agent)));
    let Manifest { version, engines } = package.and_then(manifest_of).unwrap_or_default();
    let beside = |programs| package.and_then(|package| program_beside(agent, package, programs));
    if let Some(program) = beside(agent::native_programs(agent)) {
        return Candidate::Good(Found { program, script: None, version, node: None });
    }
    let for_node = is_for_node(&real);
    let path = real.display().to_string();
    if package.is_some() && for_node && !agent::may_be_a_script(agent) {
        let package =
            agent::native_programs(agent).into_iter().map(|(package, _)| package).collect::<Vec<_>>().join(" or ");
        return Candidate::Unfit(FindFault::NoProgram { agent, path, package });
    }
    // The image's own node may be too old for the agent, or missing.
    let node = beside(agent::interpreters(agent)).filter(|_| for_node);
    if let Some(program) = node {
        return Candidate::Good(Found { program, script: Some(real), version, node: None });
    }
    match is_executable(&real) {
        // Started by the name it was found under, so that a program that looks at its own name sees the usual one.
        true => {
            let node = engines.node.filter(|_| for_node);
            Candidate::Good(Found { program: candidate.to_owned(), script: None, version, node })
        }
        false => Candidate::Unfit(FindFault::NotExecutable { agent, path }),
    }
}

/// Whether the file says by its first line that node runs it.
fn is_for_node(file: &Path) -> bool {
    let mut start = [0; 64];
    let read = std::fs::File::open(file).and_then(|mut file| file.read(&mut start)).unwrap_or(0);
    let line = start[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.starts_with(b"#!") && line.windows(4).any(|word| word == b"node")
}

/// A program of a package that was installed with the agent's, or within it.
fn program_beside(agent: Agent, package: &Path, programs: Vec<(String, &'static str)>) -> Option<PathBuf> {
    let depth = Path::new(agent::package(agent)).components().count();
    let hoisted = package.ancestors().nth(depth)?;
    let nested = package.join("node_modules");
    let programs = programs.into_iter();
    let places =
        programs.flat_map(|(name, file)| [hoisted, nested.as_path()].map(|modules| modules.join(&name).join(file)));
    places.into_iter().find(|program| program.is_file() && is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    access(program, AccessFlags::X_OK).is_ok()
}

/// What the launch reads of a `package.json`.
#[derive(Default, Deserialize)]
struct Manifest {
    version: Option<String>,
    #[serde(default)]
    engines: Engines,
}

#[derive(Default, Deserialize)]
struct Engines {
    node: Option<String>,
}

fn manifest_of(package: &Path) -> Option<Manifest> {
    let path = package.join("package.json");
    let size = path.metadata().ok().filter(|found| found.is_file())?.len();
    let text = if size <= MANIFEST_LIMIT {
        std::fs::read(path).ok()?
    } else {
        return None;
    };
    let manifest: Manifest = serde_json::from_slice(&text).ok()?;
    let is_short = manifest.version.as_ref().is_some_and(|version| version.len() <= 64);
    is_short.then_some(manifest)
}

const USUAL: [&str; 4] =
    ["/usr/local/bin", "/usr/bin", "/opt/boxgate/agents/node_modules/.bin", "/usr/local/lib/node_modules/.bin"];
const MANIFEST_LIMIT: u64 = 256 * 1024;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use box_spec::Agent;

    use super::{FindFault, find};

    fn put(path: &Path, mode: u32) {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::File::create(path).expect("a file");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }

    #[test]
    fn the_native_program_of_an_npm_tree_is_preferred_to_the_stub() {
        let tree = tempfile::tempdir().expect("a folder");
        let modules = tree.path().canonicalize().expect("real").join("node_modules");
        let stub = modules.join("@anthropic-ai/claude-code/bin/claude.exe");
        put(&stub, 0o755);
        let manifest = modules.join("@anthropic-ai/claude-code/package.json");
        std::fs::write(manifest, r#"{"name":"x","version":"2.1.332"}"#).expect("written");
        std::fs::create_dir_all(modules.join(".bin")).expect("folders");
        symlink(&stub, modules.join(".bin/claude")).expect("a link");
        let first = [modules.join(".bin")];
        let found = find(Agent::Claude, &first, None).expect("found");
        assert_eq!(found.program, modules.join(".bin/claude"));
        let name = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let native = modules.join(format!("@anthropic-ai/claude-code-linux-{name}/claude"));
        put(&native, 0o755);
        let found = find(Agent::Claude, &first, None).expect("found");
        assert_eq!((found.program, found.version.as_deref()), (native, Some("2.1.332")));
    }

    #[test]
    fn a_script_of_codex_without_its_program_is_refused_with_the_package_that_is_missing() {
        let tree = tempfile::tempdir().expect("a folder");
        let modules = tree.path().canonicalize().expect("real").join("node_modules");
        let script = modules.join("@openai/codex/bin/codex.js");
        put(&script, 0o755);
        std::fs::write(&script, "#!/usr/bin/env node\n").expect("written");
        std::fs::create_dir_all(modules.join(".bin")).expect("folders");
        symlink(&script, modules.join(".bin/codex")).expect("a link");
        let told = find(Agent::Codex, &[modules.join(".bin")], Some(OsStr::new("/nowhere"))).expect_err("none");
        let name = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        assert!(told.code() == 127 && told.to_string().contains(&format!("@openai/codex-linux-{name}")), "{told}");
        // A codex of the user's own, of no package, is whatever it is.
        let own = tree.path().join("codex");
        std::fs::copy(&script, &own).expect("copied");
        assert!(find(Agent::Codex, &[tree.path().to_owned()], None).is_ok());
    }

    #[test]
    fn what_is_missing_is_told_apart_from_what_cannot_be_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = [folder.path().to_owned()];
        let missing = find(Agent::Pi, &first, None).expect_err("none");
        assert!(
            missing.code() == 127 && missing.to_string().contains(&folder.path().display().to_string()),
            "{missing}"
        );
        put(&folder.path().join("pi"), 0o644);
        // Root may read and write everything, but runs only what has an x somewhere.
        let barred = find(Agent::Pi, &first, None).expect_err("none");
        assert!(matches!(barred, FindFault::NotExecutable { .. }), "{barred}");
    }
}
