//! Where two folders of a box lie on the host, as far as the kernel's table of mounts tells (proc(5), `mountinfo`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The folder of the house as seen from the workspace, where the session lies in it as `runs/BOX` and the workspace is a
/// mount of something that it lies in.
pub(super) fn house_folder(mounts: &str, workspace: &Path, session: &Path) -> Option<PathBuf> {
    let (workspace, session) = (origin(mounts, workspace)?, origin(mounts, session)?);
    let same_disk = workspace.device == session.device && workspace.mount != session.mount;
    let within = session.path.strip_prefix(&workspace.path).ok().filter(|_| same_disk)?;
    within.parent()?.parent().map(Path::to_owned)
}

/// Where a folder lies on its file system.
struct Origin<'a> {
    mount: &'a str,
    device: &'a str,
    path: PathBuf,
}

/// Of mounts one over the other the last one is seen.
fn origin<'a>(mounts: &'a str, folder: &Path) -> Option<Origin<'a>> {
    let mut found: Option<(PathBuf, Origin<'a>)> = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(mount), Some(device), Some(root), Some(point)) =
            (fields.next(), fields.nth(1), fields.next(), fields.next())
        else {
            continue;
        };
        let point = unescaped(point);
        let Ok(rest) = folder.strip_prefix(&point) else { continue };
        if found.as_ref().is_none_or(|(deepest, _)| point.starts_with(deepest)) {
            let path = unescaped(root).join(rest);
            found = Some((point, Origin { mount, device, path }));
        }
    }
    found.map(|(_, origin)| origin)
}

/// Blank, tab, line feed and backslash stand there in octal.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let (byte, next) = match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => (byte, &after[3..]),
            None => (*first, after),
        };
        bytes.push(byte);
        rest = next;
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::house_folder;

    fn found(workspace: &str, session: &str) -> Option<String> {
        let table = format!(
            "600 500 0:50 / / ro,relatime - overlay overlay rw\n\
             601 600 0:51 / /tmp rw - tmpfs tmpfs rw\n\
             602 600 254:0 {session} /session rw master:1 - ext4 /dev/vda rw\n\
             603 600 254:0 {workspace} /workspace rw master:1 - ext4 /dev/vda rw\n"
        );
        house_folder(&table, Path::new("/workspace"), Path::new("/session")).map(|path| path.display().to_string())
    }

    #[test]
    fn a_workspace_that_the_session_lies_in_is_known_by_the_mounts() {
        let session = "/home/a\\040b/house/box/runs/claude";
        for (workspace, folder) in [
            ("/home/a\\040b/house", Some("box")),
            ("/home/a\\040b/house/box", Some("")),
            ("/home/a\\040b", Some("house/box")),
            ("/", Some("home/a b/house/box")),
            ("/home/a\\040b/house/box/workspace", None),
            ("/home/a", None),
            ("/home/a\\040b/hous", None),
        ] {
            assert_eq!(found(workspace, session).as_deref(), folder, "{workspace}");
        }
        assert_eq!(found("/home/me", "/home/me/.boxgate"), None);
    }

    #[test]
    fn another_disk_and_a_session_that_is_no_mount_of_its_own_tell_nothing() {
        let table = "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 254:1 /runs/claude /session rw - ext4 /dev/vdb rw\n";
        assert_eq!(house_folder(table, Path::new("/"), Path::new("/session")), None);
        assert_eq!(house_folder(table, Path::new("/home"), Path::new("/home/box/runs/claude")), None);
    }
}
