//! Where a box's session is kept on the host, when nobody says it.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::fault::IsolateFault;
use super::identity::Owner;
use super::plan::{IsolateOptions, Tree};

/// The folder that was named, or the workspace's own; made where it is missing.
pub(crate) fn folder(options: &IsolateOptions, caller: Owner, workspace: &Tree) -> Result<PathBuf, IsolateFault> {
    let folder = match &options.session {
        Some(folder) => folder.clone(),
        None => at_home(options, caller, &workspace.source)?,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|error| IsolateFault::option("--session", &folder, error.to_string()))?;
    Ok(folder)
}

/// In a state folder that is the caller's own: in another's, root could be led anywhere by a link.
fn at_home(options: &IsolateOptions, caller: Owner, workspace: &Path) -> Result<PathBuf, IsolateFault> {
    let own = |path: &PathBuf| path.metadata().is_ok_and(|found| found.uid() == caller.uid);
    let home = absolute(&options.home).filter(own);
    let local = || home.map(|home| home.join(".local/state"));
    let state = absolute(&options.state_home).filter(own).or_else(local);
    let state = state.ok_or_else(|| {
        let what = "HOME names no folder of yours to keep the session in; set it, or name one with --session";
        IsolateFault::option("HOME", options.home.as_deref().unwrap_or_else(|| Path::new("(unset)")), what)
    })?;
    Ok(state.join("boxgate/sessions").join(name(workspace)))
}

/// Relative paths in variables count as none.
pub(crate) fn absolute(path: &Option<PathBuf>) -> Option<PathBuf> {
    path.clone().filter(|path| path.is_absolute())
}

/// Readable, and one of its own for each workspace.
fn name(workspace: &Path) -> String {
    let digest = Sha256::digest(workspace.as_os_str().as_encoded_bytes());
    let name = workspace.file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!("{name}-");
    for byte in &digest[..6] {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{IsolateOptions, Owner, at_home, name};
    use std::path::Path;

    #[test]
    fn each_workspace_has_a_session_of_its_own() {
        let one = name(Path::new("/a/project"));
        assert!(one.starts_with("project-"));
        assert_ne!(one, name(Path::new("/b/project")));
    }

    #[test]
    fn without_a_home_the_session_must_be_named() {
        let options = IsolateOptions {
            door: "/d".into(),
            workspace: None,
            session: None,
            agent_dirs: Vec::new(),
            read_only: Vec::new(),
            uid: None,
            home: None,
            state_home: None,
        };
        let fault = at_home(&options, Owner { uid: 1, gid: 1 }, Path::new("/w")).expect_err("no place");
        assert_eq!(
            fault.to_string(),
            "HOME (unset): HOME names no folder of yours to keep the session in; set it, or name one with --session"
        );
    }
}
