//! The list of models that is built into the agent, written to a file: with it the agent asks nobody for one.

use std::path::{Path, PathBuf};
use std::process::Command;

use box_spec::Agent;
use serde::Deserialize;

use super::ask::ask;
use crate::agent;
use crate::files::{FileFault, Folder};
use crate::find::Found;
use crate::inputs::Wanted;
use crate::say;
use crate::sys::Inherited;

/// The file, where the agent has such a list; one that was written for the same version is used again.
///
/// `empty` is a folder that nobody wrote into yet. An agent that does not give its list starts without one, with a warning: it then asks the house for the list.
pub(super) fn catalog(
    agent: Agent,
    found: &Found,
    home: &Folder,
    empty: &Path,
    wanted: &Wanted,
    inherited: &Inherited,
) -> Result<Option<PathBuf>, FileFault> {
    let Some(arguments) = agent::catalog_arguments(agent) else {
        return Ok(None);
    };
    let version = found.version.as_deref().filter(|version| is_plain(version));
    let name = format!("models-{}.json", version.unwrap_or("unknown"));
    let standing = home.read(&name, LIMIT + 1)?;
    if version.is_some() && standing.is_some_and(|bytes| is_catalog(&bytes)) {
        return Ok(Some(home.path().join(name)));
    }
    let mut command = Command::new(&found.program);
    command.args(&found.script).args(arguments).env_clear().envs(wanted.variables.iter());
    // Not its own home: what an earlier run left there would be read.
    command.env("CODEX_HOME", empty);
    let why = match ask(command, LIMIT, inherited) {
        Ok(bytes) if is_catalog(&bytes) => return home.write(&name, &bytes).map(Some),
        Ok(_) => "what it printed is no list of models".to_owned(),
        Err(fault) => say::chain(&fault),
    };
    say::line(&format!("WARNING: {agent} does not give its list of models: {why}"));
    Ok(None)
}

/// What codex must find in the list, or it does not start.
#[derive(Deserialize)]
struct Catalog {
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    slug: String,
}

/// Whether this is a list of models, and of one at least.
fn is_catalog(bytes: &[u8]) -> bool {
    let named =
        |catalog: Catalog| !catalog.models.is_empty() && catalog.models.iter().all(|Model { slug }| !slug.is_empty());
    serde_json::from_slice(bytes).is_ok_and(named)
}

/// Whether a version can be part of a file's name.
fn is_plain(version: &str) -> bool {
    !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte))
}

/// 17 times what codex 0.171.0 prints.
const LIMIT: u64 = 16 * 1024 * 1024;
