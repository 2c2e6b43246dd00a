//! The workspace: whether the agent can write where it is to work.

use std::os::unix::fs::MetadataExt;

use nix::unistd::{AccessFlags, access, geteuid};

/// What a person should know of a current folder that this user cannot write to, with the fix; nothing of one that it can.
pub(crate) fn unwritable() -> Option<String> {
    let Ok(here) = std::env::current_dir() else {
        return Some("the current folder is gone: start the box in the folder to work in".to_owned());
    };
    let fault = access(&here, AccessFlags::W_OK | AccessFlags::X_OK).err()?;
    let owner = here.metadata().map_or_else(|_| "somebody else".to_owned(), |found| format!("user {}", found.uid()));
    Some(format!(
        "{} cannot be written by user {}: {}. It belongs to {owner}: run the box as that user (with compose: BOXGATE_UID and \
         BOXGATE_GID in .env), or give the folder to user {}",
        here.display(),
        geteuid(),
        fault.desc(),
        geteuid()
    ))
}
