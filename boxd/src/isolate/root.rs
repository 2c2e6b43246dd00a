//! Builds the box's own root on a file system in memory, and lets go of the host's.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{chdir, pivot_root};

use super::etc;
use super::fault::{IsolateFault, at};
use super::identity::Identity;
use super::plan::{Item, Plan, Tree, WORKSPACE};
use super::trees::Trees;
use crate::sys::isolate::{make_all_private, move_tree, seal_mount};

/// After this the box's root is all there is, and nothing in it but the writable places can be written.
pub(crate) fn build(plan: &Plan, trees: Trees) -> Result<(), IsolateFault> {
    let before = umask(Mode::from_bits_truncate(0o022));
    make_all_private().map_err(at("part from", "the host's mounts"))?;
    leave_host()?;
    furnish(&plan.who)?;
    place(plan, trees)?;
    seal_mount(Path::new("/")).map_err(at("seal", "the box's root"))?;
    umask(before);
    step("enter", WORKSPACE, chdir(WORKSPACE))
}

/// The new root goes over /tmp, takes /proc while the host's is still to be seen (the kernel asks for that),
/// changes place with the old root, and the old one is let go.
fn leave_host() -> Result<(), IsolateFault> {
    let locked = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    memory(BASE, "mode=0755,size=4m,nr_inodes=4k", locked | MsFlags::MS_NOEXEC)?;
    step("enter", BASE, chdir(BASE))?;
    folder(Path::new("proc"))?;
    let flags = locked | MsFlags::MS_NOEXEC;
    step("mount", "/proc", mount(Some("proc"), "proc", Some("proc"), flags, NONE))?;
    step("change", "the root", pivot_root(".", "."))?;
    step("let go of", "the host's root", umount2(".", MntFlags::MNT_DETACH))?;
    step("enter", "/", chdir("/"))
}

/// What every box has, whatever the host has.
fn furnish(who: &Identity) -> Result<(), IsolateFault> {
    for path in FOLDERS {
        folder(Path::new(path))?;
    }
    let locked = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    memory("/tmp", "mode=1777,size=2g,nr_inodes=1m", locked)?;
    memory("/run", "mode=0755,size=64m,nr_inodes=64k", locked | MsFlags::MS_NOEXEC)?;
    memory("/dev/shm", "mode=1777,size=1g,nr_inodes=64k", locked | MsFlags::MS_NOEXEC)?;
    let options = Some("newinstance,ptmxmode=0666,mode=0620");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    step("mount", "/dev/pts", mount(Some("devpts"), "/dev/pts", Some("devpts"), flags, options))?;
    for (path, to) in LINKS {
        link(Path::new(path), Path::new(to))?;
    }
    for file in etc::written(who) {
        write(Path::new(file.path), file.text.as_bytes())?;
    }
    Ok(())
}

/// Puts the host's trees in their places.
fn place(plan: &Plan, trees: Trees) -> Result<(), IsolateFault> {
    let mut trees = trees.0.into_iter();
    for item in &plan.items {
        match item {
            Item::Link { at, to } => {
                parent(at)?;
                link(at, to)?;
            }
            Item::Tree(tree) => {
                let opened = trees.next().ok_or(IsolateFault::Orphaned)?;
                target(tree)?;
                move_tree(&opened, &tree.at).map_err(at("place", shown(&tree.at)))?;
            }
        }
    }
    Ok(())
}

/// A folder or an empty file for a tree to stand on.
fn target(tree: &Tree) -> Result<(), IsolateFault> {
    if tree.folder {
        return folder(&tree.at);
    }
    parent(&tree.at)?;
    if tree.at.exists() {
        return Ok(());
    }
    write(&tree.at, b"")
}

fn parent(path: &Path) -> Result<(), IsolateFault> {
    path.parent().map_or(Ok(()), folder)
}

fn folder(path: &Path) -> Result<(), IsolateFault> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o755).create(path);
    made.map_err(at("make", shown(path)))
}

fn link(path: &Path, to: &Path) -> Result<(), IsolateFault> {
    symlink(to, path).map_err(at("link", shown(path)))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), IsolateFault> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o644).open(path);
    opened.and_then(|mut file| file.write_all(bytes)).map_err(at("write", shown(path)))
}

fn memory(path: &str, options: &str, flags: MsFlags) -> Result<(), IsolateFault> {
    let mounted = mount(Some("box"), path, Some("tmpfs"), flags, Some(options));
    step("mount memory at", path, mounted)
}

fn step(deed: &'static str, object: &str, done: Result<(), Errno>) -> Result<(), IsolateFault> {
    done.map_err(|errno| at(deed, object)(errno.into()))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A folder that every Linux has; the new root covers it only in the box's own mount namespace.
const BASE: &str = "/tmp";

const NONE: Option<&str> = None;

const FOLDERS: [&str; 8] = ["/dev/pts", "/dev/shm", "/etc", "/run", "/sys", "/tmp", "/var", "/opt"];

const LINKS: [(&str, &str); 8] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
    ("/etc/mtab", "/proc/self/mounts"),
    ("/var/run", "/run"),
    ("/var/tmp", "/tmp"),
];
