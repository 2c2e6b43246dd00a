//! Files of the house: private from their first byte, and whole or absent. The one place that creates them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A deed on a file that failed: which, and on what.
#[derive(Debug, thiserror::Error)]
#[error("{deed} {}", path.display())]
pub struct FileError {
    deed: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Writes a file of mode 0600 so that a reader sees the old bytes or the new ones, also after a power cut.
/// A symbolic link in its place is replaced, not followed.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let folder = folder_of(path);
    let temporary = folder.join(temporary_name(path));
    let written = write_new(&temporary, bytes).and_then(|()| rename(&temporary, path));
    if written.is_err() {
        // The error that matters is the first; what is left of the temporary file is private.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    sync_folder(folder)
}

/// Writes a file that everybody may read, of mode 0644, whole or not at all.
pub fn write_shown(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let folder = folder_of(path);
    let temporary = folder.join(temporary_name(path));
    let shown = || deed("show", &temporary, fs::set_permissions(&temporary, fs::Permissions::from_mode(SHOWN_FILE)));
    let written = write_new(&temporary, bytes).and_then(|()| shown()).and_then(|()| rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    sync_folder(folder)
}

/// Replaces a file that somebody else uses too: like [`write_private`], but mode and owner stay. Where they cannot,
/// nothing is changed.
pub fn replace_alike(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let old = deed("look at", path, fs::symlink_metadata(path))?;
    let folder = folder_of(path);
    let temporary = folder.join(temporary_name(path));
    let written = write_new(&temporary, bytes)
        .and_then(|()| deed("give its owner", &temporary, keep_owner(&temporary, &old)))
        .and_then(|()| rename(&temporary, path));
    if written.is_err() {
        // As above: what is left is private.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    sync_folder(folder)
}

/// Finds out whether a file of so many bytes could be put into a folder now: a disk that is full, a quota and a read-only
/// folder are told before what was to be kept there exists nowhere else.
pub fn try_room(folder: &Path, bytes: usize) -> Result<(), FileError> {
    let trial = folder.join(temporary_name(Path::new("room")));
    let tried = write_new(&trial, &vec![0; bytes]);
    // One that was not made is not there; one that was says nothing.
    let _ = fs::remove_file(&trial);
    tried
}

fn keep_owner(path: &Path, old: &fs::Metadata) -> io::Result<()> {
    let new = fs::symlink_metadata(path)?;
    if new.uid() != old.uid() {
        lchown(path, Some(old.uid()), None)?;
    }
    let group = if new.gid() == old.gid() { Ok(()) } else { lchown(path, None, Some(old.gid())) };
    // A group that may do nothing with the file anyway is no reason to lose what was to be written.
    if old.mode() & GROUP != 0 {
        group?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(old.mode() & ALL_MODES))
}

/// Takes the lock of a file of mode 0600, made if need be, for as long as the value lives. `None`: another has it.
pub fn lock_file(path: &Path) -> Result<Option<File>, FileError> {
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_FILE)
        .custom_flags(NO_LINKS)
        .open(path);
    try_lock(path, deed("open", path, opened)?)
}

/// Writes a new file of mode 0600 to the disk. Fails where something of that name is.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).custom_flags(NO_LINKS).open(path);
    let mut file = deed("create", path, opened)?;
    deed("write", path, file.write_all(bytes))?;
    deed("sync", path, file.sync_all())
}

/// Opens a file of mode 0600 for reading and appending, and makes it if need be. A symbolic link is refused.
pub fn append_private(path: &Path) -> Result<File, FileError> {
    let opened =
        OpenOptions::new().read(true).append(true).create(true).mode(PRIVATE_FILE).custom_flags(NO_LINKS).open(path);
    deed("open for appending", path, opened)
}

/// Gives a socket its mode. Where something else stands at the path by now, a link above all, nothing is changed: a box
/// that can write to its door's folder must not lead the house to another file.
pub fn set_socket_mode(path: &Path, mode: u32) -> Result<(), FileError> {
    let found = deed("look at", path, OpenOptions::new().read(true).custom_flags(NO_LINKS | PATH_ONLY).open(path))?;
    if !deed("look at", path, found.metadata())?.file_type().is_socket() {
        return deed("find a socket at", path, Err(io::ErrorKind::InvalidInput.into()));
    }
    let itself = format!("/proc/self/fd/{}", found.as_raw_fd());
    deed("set the mode of", path, fs::set_permissions(itself, fs::Permissions::from_mode(mode)))
}

/// Makes a folder of mode 0700, and its missing parents likewise. One that is there stays as it is.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    deed("create folder", path, DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(path))
}

/// Locks a folder against other processes for as long as the value lives. `None`: another has it.
pub fn lock_folder(path: &Path) -> Result<Option<File>, FileError> {
    try_lock(path, deed("open", path, File::open(path))?)
}

fn try_lock(path: &Path, file: File) -> Result<Option<File>, FileError> {
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(source)) => deed("lock", path, Err(source)),
    }
}

/// Reads a whole file, or fails where it is longer than `limit` bytes.
pub fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let file = deed("open", path, File::open(path))?;
    let mut bytes = Vec::new();
    deed("read", path, file.take(limit.saturating_add(1)).read_to_end(&mut bytes))?;
    if bytes.len() as u64 > limit {
        return Err(FileError {
            deed: "read",
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {limit} bytes")),
        });
    }
    Ok(bytes)
}

/// Moves a file or a folder to another name in the same file system.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    deed("rename into", to, fs::rename(from, to))
}

/// Makes what was created or renamed in a folder last.
pub fn sync_folder(path: &Path) -> Result<(), FileError> {
    deed("sync folder", path, File::open(path).and_then(|folder| folder.sync_all()))
}

impl FileError {
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// The folder of a path; `.` for a bare name.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

fn temporary_name(path: &Path) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.{}-{}.new", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn deed<T>(deed: &'static str, path: &Path, done: io::Result<T>) -> Result<T, FileError> {
    done.map_err(|source| FileError { deed, path: path.to_owned(), source })
}

const PRIVATE_FILE: u32 = 0o600;
const SHOWN_FILE: u32 = 0o644;
const PRIVATE_FOLDER: u32 = 0o700;
const GROUP: u32 = 0o070;
const ALL_MODES: u32 = 0o7777;
const NO_LINKS: i32 = nix::fcntl::OFlag::O_NOFOLLOW.bits();
const PATH_ONLY: i32 = nix::fcntl::OFlag::O_PATH.bits();

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]

    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

    use super::{
        append_private, create_private_dir, lock_file, read_limited, replace_alike, set_socket_mode, try_room,
        write_new, write_private,
    };

    fn mode(path: &std::path::Path) -> u32 {
        fs::metadata(path).expect("a file").permissions().mode() & 0o7777
    }

    #[test]
    fn a_private_file_is_private_and_replaces_a_link_without_following_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let elsewhere = folder.path().join("elsewhere");
        let path = folder.path().join("file");
        fs::write(&elsewhere, "untouched").expect("written");
        symlink(&elsewhere, &path).expect("a link");
        write_private(&path, b"one").expect("written");
        write_private(&path, b"two").expect("written again");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(fs::read(&elsewhere).expect("read"), b"untouched");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a listing").count(), 2, "no temporary file is left");
        assert!(write_new(&path, b"three").is_err(), "a new file is new");
    }

    #[test]
    fn a_file_of_anothers_is_replaced_with_its_mode_and_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        let own = nix::unistd::geteuid();
        let owner = if own.is_root() { 12_345 } else { own.as_raw() };
        lchown(&path, Some(owner), None).expect("given away");
        replace_alike(&path, b"new").expect("replaced");
        assert_eq!(fs::read(&path).expect("read"), b"new");
        assert_eq!((mode(&path), fs::metadata(&path).expect("a file").uid()), (0o640, owner));
        assert_eq!(fs::read_dir(folder.path()).expect("a listing").count(), 1, "no temporary file is left");
        assert!(replace_alike(&folder.path().join("missing"), b"x").is_err(), "there is nothing to be like");
    }

    #[test]
    fn room_is_tried_without_a_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        try_room(folder.path(), 100_000).expect("there is room");
        assert_eq!(fs::read_dir(folder.path()).expect("a listing").count(), 0);
        assert!(try_room(&folder.path().join("missing"), 1).is_err());
    }

    #[test]
    fn a_file_is_locked_for_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let held = lock_file(&path).expect("a lock");
        assert!(held.is_some() && lock_file(&path).expect("asked").is_none());
        assert_eq!(mode(&path), 0o600);
        drop(held);
        assert!(lock_file(&path).expect("asked").is_some());
    }

    #[test]
    fn appending_keeps_what_is_there_and_refuses_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/b/file");
        create_private_dir(path.parent().expect("a parent")).expect("made");
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        for word in ["one ", "two"] {
            append_private(&path).expect("opened").write_all(word.as_bytes()).expect("written");
        }
        assert_eq!(fs::read(&path).expect("read"), b"one two");
        let link = folder.path().join("link");
        symlink(&path, &link).expect("a link");
        assert!(append_private(&link).is_err());
    }

    #[test]
    fn the_mode_of_a_socket_is_set_and_that_of_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
        write_private(&at("secret"), b"mine").expect("written");
        symlink(at("secret"), at("link")).expect("a link");
        symlink(at("socket"), at("link-to-socket")).expect("a link");
        set_socket_mode(&at("socket"), 0o666).expect("set");
        assert_eq!(mode(&at("socket")), 0o666);
        for other in ["secret", "link", "link-to-socket", "missing"] {
            assert!(set_socket_mode(&at(other), 0o601).is_err(), "{other}");
        }
        assert_eq!((mode(&at("secret")), mode(&at("socket"))), (0o600, 0o666));
        drop(socket);
    }

    #[test]
    fn reading_stops_at_the_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        write_private(&path, b"12345").expect("written");
        assert_eq!(read_limited(&path, 5).expect("read"), b"12345");
        let said = read_limited(&path, 4).expect_err("too long");
        assert_eq!(said.kind(), std::io::ErrorKind::FileTooLarge);
        assert_eq!(said.to_string(), format!("read {}", path.display()));
    }
}
