//! Takes what the host shows to the box: detached copies of its mounts, already read-only or owned by the box.
//!
//! Opened by root before the box exists, since the box's own uid may not reach them; else by the box itself,
//! since an ordinary user may copy mounts only where he is master.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::libc;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::fault::{IsolateFault, at};
use super::identity::{Identity, Owner, mount_map};
use super::plan::{Access, Inode, Item, Plan, Tree};
use crate::sys::isolate::{TreeAttr, clone_into, end_now, open_tree, set_tree};

/// The trees of a plan, in its order.
pub(crate) struct Trees(pub(crate) Vec<OwnedFd>);

/// Opens every tree of the plan, ready to be put in place.
pub(crate) fn open(plan: &Plan) -> Result<Trees, IsolateFault> {
    let mut maps = Vec::new();
    let mut opened = Vec::new();
    for item in &plan.items {
        if let Item::Tree(tree) = item {
            opened.push(open_one(tree, &plan.who, &mut maps)?);
        }
    }
    Ok(Trees(opened))
}

fn open_one(tree: &Tree, who: &Identity, maps: &mut Vec<(Owner, File)>) -> Result<OwnedFd, IsolateFault> {
    let shown = || tree.source.display().to_string();
    let opened = open_tree(&tree.source).map_err(at("take the mounts of", shown()))?;
    let opened = same(tree, who, opened)?;
    let mapped = tree.access == Access::Writable && who.needs_map(tree.owner);
    let map = match mapped {
        true => Some(map_for(tree.owner, who, maps)?),
        false => None,
    };
    let attr = TreeAttr {
        read_only: tree.access == Access::ReadOnly,
        no_devices: tree.access != Access::Device,
        no_programs: tree.access == Access::Device,
        id_map: map.map(AsFd::as_fd),
    };
    set_tree(&opened, attr).map_err(|source| refused(tree, who, mapped, source))?;
    Ok(opened)
}

/// What was opened must be what the plan saw: who can rename a folder on the way could show the box another one.
fn same(tree: &Tree, who: &Identity, opened: OwnedFd) -> Result<OwnedFd, IsolateFault> {
    let fault = || at("look again at", tree.source.display().to_string());
    let opened = File::from(opened);
    let found = opened.metadata().map_err(fault())?;
    // In a box that is already born owners have other numbers, and none of them is mapped.
    let chowned = who.by_root && Owner::of(&found) != tree.owner;
    if chowned || Inode::of(&found) != tree.inode {
        let error = std::io::Error::other("it changed while the box was made");
        return Err(fault()(error));
    }
    Ok(opened.into())
}

/// A file system that knows no id maps is the one thing here that the caller can mend.
fn refused(tree: &Tree, who: &Identity, mapped: bool, source: std::io::Error) -> IsolateFault {
    let object = tree.source.display().to_string();
    if !mapped {
        return at("lock the mounts of", object)(source);
    }
    let Identity { uid, gid, by_root: _ } = who;
    IsolateFault::Forbidden {
        deed: "map the owner of",
        fix: format!("its file system knows no id maps: chown -R {uid}:{gid} {object}"),
        object,
        source,
    }
}

/// The user namespace that carries the map from this owner to the box.
fn map_for<'a>(owner: Owner, who: &Identity, maps: &'a mut Vec<(Owner, File)>) -> Result<&'a File, IsolateFault> {
    let index = match maps.iter().position(|(known, _)| *known == owner) {
        Some(index) => index,
        None => {
            maps.push((owner, make_map(owner, who)?));
            maps.len() - 1
        }
    };
    Ok(&maps[index].1)
}

/// Maps live in user namespaces, and those need a process to be born with; it ends at once.
fn make_map(owner: Owner, who: &Identity) -> Result<File, IsolateFault> {
    let fault = || at("make an id map", format!("{} → {}", owner.uid, who.uid));
    let (mut wait, hold) = std::io::pipe().map_err(fault())?;
    let Some(bearer) = clone_into(libc::CLONE_NEWUSER).map_err(fault())? else {
        drop(hold);
        let _ = wait.read(&mut [0]);
        end_now(0)
    };
    let made = write_map(bearer, "uid_map", &mount_map(owner.uid, who.uid))
        .and_then(|()| write_map(bearer, "gid_map", &mount_map(owner.gid, who.gid)))
        .and_then(|()| File::open(format!("/proc/{bearer}/ns/user")));
    drop(hold);
    let ended = waitpid(bearer, None);
    let map = made.map_err(fault())?;
    ended.map_err(|errno| fault()(errno.into()))?;
    Ok(map)
}

/// Writes one map of a process in one go, as the kernel wants it.
pub(crate) fn write_map(of: Pid, name: &str, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(format!("/proc/{of}/{name}"))?.write_all(text.as_bytes())
}
