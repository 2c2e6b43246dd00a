//! Who the box is on the host: one unprivileged uid and gid, and the maps that say so.

use std::fmt::Write as _;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use super::fault::IsolateFault;

/// The uid and gid of everything in the box, the same number inside and outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Whether host root makes the box, who can map ids and mounts at will.
    pub(crate) by_root: bool,
}

/// Owner and group of a file or process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Owner {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self { uid: found.uid(), gid: found.gid() }
    }
}

impl Identity {
    /// An ordinary user stays who he is; host root becomes the workspace's owner, or nobody's uid where that is root.
    pub(crate) fn choose(caller: Owner, workspace: Owner, asked: Option<u32>) -> Result<Self, IsolateFault> {
        if caller.uid != 0 {
            return Self::ordinary(caller, asked);
        }
        if let Some(uid) = asked.filter(|uid| !usable(*uid)) {
            return Err(IsolateFault::option(
                "--uid",
                uid.to_string(),
                "is root's or the kernel's own number; name another one",
            ));
        }
        let owner = usable(workspace.uid).then_some(workspace.uid);
        let uid = asked.or(owner).unwrap_or(DEFAULT_UID);
        let gid = if usable(workspace.gid) && owner == Some(uid) { workspace.gid } else { uid };
        Ok(Self { uid, gid, by_root: true })
    }

    fn ordinary(caller: Owner, asked: Option<u32>) -> Result<Self, IsolateFault> {
        match asked {
            Some(uid) if uid != caller.uid => Err(IsolateFault::option(
                "--uid",
                uid.to_string(),
                "only root can give the box another uid; leave the option out",
            )),
            _ => Ok(Self { uid: caller.uid, gid: caller.gid, by_root: false }),
        }
    }

    /// Whether a folder of this owner must be mapped for the box to own it.
    pub(crate) fn needs_map(&self, folder: Owner) -> bool {
        self.by_root && folder.uid != self.uid
    }
}

/// The map of the box: its own id and no other, so that host root has no number inside.
pub(crate) fn own_map(id: u32) -> String {
    format!("{id} {id} 1\n")
}

/// The map of a mount: what `from` owns appears as `to`'s, and all else but `to` stays as it is.
pub(crate) fn mount_map(from: u32, to: u32) -> String {
    if from == to {
        return format!("0 0 {LAST_ID}\n");
    }
    let mut map = format!("{from} {to} 1\n");
    let (low, high) = (from.min(to), from.max(to));
    for (first, end) in [(0, low), (low + 1, high), (high + 1, LAST_ID)] {
        if first < end {
            let _ = writeln!(map, "{first} {first} {}", end - first);
        }
    }
    map
}

fn usable(id: u32) -> bool {
    ![0, OVERFLOW_ID, 0xffff, LAST_ID].contains(&id)
}

/// In no range that distributions or systemd hand out; it never reaches a disk, since mounts map it back.
const DEFAULT_UID: u32 = 60_999;
/// What the kernel shows for an id without a number inside.
const OVERFLOW_ID: u32 = 65_534;
const LAST_ID: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::{Identity, Owner, mount_map};

    #[test]
    fn the_box_is_never_host_root() {
        let owner = |uid, gid| Owner { uid, gid };
        let table = [
            ("an ordinary user stays himself", owner(1000, 100), owner(0, 0), None, Some((1000, 100))),
            ("an ordinary user may name himself", owner(1000, 100), owner(0, 0), Some(1000), Some((1000, 100))),
            ("an ordinary user is nobody else", owner(1000, 100), owner(5, 5), Some(5), None),
            ("root becomes the workspace's owner", owner(0, 0), owner(1000, 100), None, Some((1000, 100))),
            ("a workspace of group root gives no group root", owner(0, 0), owner(1000, 0), None, Some((1000, 1000))),
            ("root's workspace gives an id of its own", owner(0, 0), owner(0, 0), None, Some((60_999, 60_999))),
            ("so does the overflow id", owner(0, 0), owner(65_534, 65_534), None, Some((60_999, 60_999))),
            ("root may choose", owner(0, 0), owner(1000, 100), Some(7000), Some((7000, 7000))),
            ("but not root", owner(0, 0), owner(1000, 100), Some(0), None),
            ("and not the last id", owner(0, 0), owner(1000, 100), Some(u32::MAX), None),
        ];
        for (sentence, caller, workspace, asked, expected) in table {
            let chosen = Identity::choose(caller, workspace, asked).ok();
            assert_eq!(chosen.map(|who| (who.uid, who.gid)), expected, "{sentence}");
        }
    }

    #[test]
    fn a_mount_map_has_each_id_once() {
        let table = [
            (0, 7, "0 7 1\n1 1 6\n8 8 4294967287\n"),
            (7, 0, "7 0 1\n1 1 6\n8 8 4294967287\n"),
            (0, 1, "0 1 1\n2 2 4294967293\n"),
            (5, 7, "5 7 1\n0 0 5\n6 6 1\n8 8 4294967287\n"),
            (5, 5, "0 0 4294967295\n"),
        ];
        for (from, to, expected) in table {
            assert_eq!(mount_map(from, to), expected, "{from} → {to}");
        }
    }
}
