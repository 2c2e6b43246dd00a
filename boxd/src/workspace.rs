//! The workspace: whether the agent can write where it is to work, and whether it is a place where an agent may work.

mod mounts;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

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

/// Why the current folder is no place for an agent, with the fix: it is a mount that the folder of the house lies in, with its
/// secrets and rules. Known by this box's own session, which `compose.yaml` has in the same folder.
pub(crate) fn holds_the_house(session: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?;
    let mounts = std::fs::read_to_string(MOUNTS).ok()?;
    let within = mounts::house_folder(&mounts, &here, session)?;
    let folder = if within.as_os_str().is_empty() { here.clone() } else { here.join(within) };
    // What this user cannot look into, its agent cannot either.
    let ruled = HOUSES.iter().any(|house| folder.join(house).is_file());
    (ruled && folder.join("secrets").is_dir()).then(|| {
        format!(
            "{} holds the folder of the house, {}: the agent could read the house's secrets and change its rules. Give the box \
             another folder to work in (with compose: WORKSPACE), in which the house does not lie",
            here.display(),
            folder.display()
        )
    })
}

/// Where the rules of a house lie in its folder.
const HOUSES: [&str; 3] = ["house/house.toml", "network/house.toml", "house.toml"];
const MOUNTS: &str = "/proc/self/mountinfo";
