//! Files of the session: private, written whole or not at all, and never through a symbolic link.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{AccessFlags, UnlinkatFlags, access, geteuid, mkdir, unlinkat};
use thiserror::Error;

/// An open folder; names in it are resolved from the descriptor, so that nobody can swap it for another.
#[derive(Debug)]
pub(crate) struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// A folder that is this process's alone until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    _lock: Flock<OwnedFd>,
}

/// What came of asking for a folder.
#[derive(Debug)]
pub(crate) enum Held {
    Here(Hold),
    /// Another process has it.
    Elsewhere,
    /// Its file system has no locks.
    Never,
}

/// What could not be done with which path. Never says what a file holds.
#[derive(Debug, Error)]
pub(crate) enum FileFault {
    #[error("{deed} {path}")]
    System { deed: &'static str, path: String, source: Errno },
    #[error(
        "{deed} {path}: {folder} is closed to user {user} and belongs to user {owner}: come as that user (with docker: --user {owner}; with compose: BOXGATE_UID and BOXGATE_GID in .env), or give the folder, with all in it, to user {user}"
    )]
    Barred { deed: &'static str, path: String, folder: String, owner: u32, user: u32 },
    #[error("write {path}")]
    Write { path: String, source: std::io::Error },
    #[error("read {path}")]
    Read { path: String, source: std::io::Error },
    #[error("{path} is a symbolic link or no regular file: remove it")]
    NotAFile { path: String },
    #[error(
        "{path} belongs to user {owner}, with mode {mode:o}: only a file that is this user's or root's, and that nobody else can write, is taken"
    )]
    NotOurs { path: String, owner: u32, mode: u32 },
    #[error("{path} is longer than {limit} bytes: remove it")]
    Long { path: String, limit: u64 },
    #[error("{path} is a symbolic link or no folder: remove it")]
    NotAFolder { path: String },
}

impl Folder {
    /// Opens the folder that the user named, making its last part if it is missing.
    pub(crate) fn open_or_make(path: &Path) -> Result<Self, FileFault> {
        match mkdir(path, PRIVATE_FOLDER) {
            Ok(()) | Err(Errno::EEXIST) => Self::open(path),
            Err(source) => Err(fault("make folder", path, source)),
        }
    }

    pub(crate) fn open(path: &Path) -> Result<Self, FileFault> {
        let descriptor = open(path, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty());
        let descriptor = descriptor.map_err(|source| fault("open folder", path, source))?;
        Ok(Self { descriptor, path: path.to_owned() })
    }

    /// Opens a folder in this one, making it if it is missing, and closes it to others.
    pub(crate) fn inner(&self, name: &str) -> Result<Self, FileFault> {
        let path = self.path.join(name);
        match mkdirat(&self.descriptor, name, PRIVATE_FOLDER) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(source) => return Err(fault("make folder", &path, source)),
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let descriptor = match openat(&self.descriptor, name, flags, Mode::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                return Err(FileFault::NotAFolder { path: path.display().to_string() });
            }
            Err(source) => return Err(fault("open folder", &path, source)),
        };
        let found = fstat(&descriptor).map_err(|source| fault("look at folder", &path, source))?;
        if found.st_uid == geteuid().as_raw() && found.st_mode & 0o077 != 0 {
            fchmod(&descriptor, PRIVATE_FOLDER).map_err(|source| fault("close folder to others", &path, source))?;
        }
        Ok(Self { descriptor, path })
    }

    /// Keeps other processes that ask for the same from the folder.
    pub(crate) fn hold(&self) -> Result<Held, FileFault> {
        let told = |source| fault("hold folder", &self.path, source);
        let copied = self.descriptor.try_clone();
        let descriptor = copied.map_err(|error| told(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)))?;
        match Flock::lock(descriptor, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Held::Here(Hold { _lock: lock })),
            Err((_, Errno::EWOULDBLOCK)) => Ok(Held::Elsewhere),
            Err((_, Errno::ENOLCK | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL)) => Ok(Held::Never),
            Err((_, source)) => Err(told(source)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a file of these bytes in place of the one that may be there.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, FileFault> {
        let path = self.path.join(name);
        self.look(name)?;
        // Two boxes may share the folder, and in each boxd is process 1.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let temporary = format!(".{name}.boxd-{}-{now:x}", std::process::id());
        let written = self.create(&temporary).and_then(|mut file| {
            let told = |source| FileFault::Write { path: path.display().to_string(), source };
            file.write_all(bytes).map_err(told)
        });
        let placed = written.and_then(|()| {
            renameat(&self.descriptor, temporary.as_str(), &self.descriptor, name)
                .map_err(|source| fault("put in place", &path, source))
        });
        if placed.is_err() {
            let _ = unlinkat(&self.descriptor, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        placed.map(|()| path)
    }

    /// Lets everybody read the file that was written.
    pub(crate) fn open_to_readers(&self, name: &str) -> Result<(), FileFault> {
        let told = |source| fault("open to readers", &self.path.join(name), source);
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&self.descriptor, name, flags, Mode::empty()).map_err(told)?;
        fchmod(&file, PRIVATE_FILE | Mode::S_IRGRP | Mode::S_IROTH).map_err(told)
    }

    /// A new file; there must be none of the name.
    pub(crate) fn create(&self, name: &str) -> Result<File, FileFault> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let made = openat(&self.descriptor, name, flags, PRIVATE_FILE);
        made.map(File::from).map_err(|source| fault("make", &self.path.join(name), source))
    }

    /// What a regular file holds, up to `limit` bytes; `None` where there is none.
    pub(crate) fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, FileFault> {
        let Some(found) = self.look(name)? else {
            return Ok(None);
        };
        let path = self.path.join(name);
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&self.descriptor, name, flags, Mode::empty());
        let file = File::from(file.map_err(|source| fault("open", &path, source))?);
        // As much as there is, at once: a buffer that grows leaves its halves in the heap of a process that stays small.
        let size = u64::try_from(found.st_size).unwrap_or(0).min(limit);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let told = |source| FileFault::Read { path: path.display().to_string(), source };
        file.take(limit).read_to_end(&mut bytes).map_err(told)?;
        Ok(Some(bytes))
    }

    /// Removes a file, or finds that there is none.
    pub(crate) fn remove(&self, name: &str) -> Result<(), FileFault> {
        match unlinkat(&self.descriptor, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(source) => Err(fault("remove", &self.path.join(name), source)),
        }
    }

    /// Sees to it that a name is free or a regular file.
    fn look(&self, name: &str) -> Result<Option<FileStat>, FileFault> {
        let path = self.path.join(name);
        match fstatat(&self.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFREG => {
                Ok(Some(found))
            }
            Ok(_) => Err(FileFault::NotAFile { path: path.display().to_string() }),
            Err(Errno::ENOENT) => Ok(None),
            Err(source) => Err(fault("look at", &path, source)),
        }
    }
}

/// What a regular file that the user or root owns holds, up to `limit` bytes, though anybody may have put something in its
/// place; `None` where there is none.
pub(crate) fn read_own(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FileFault> {
    let shown = || path.display().to_string();
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::ELOOP | Errno::ENXIO) => return Err(FileFault::NotAFile { path: shown() }),
        Err(source) => return Err(fault("open", path, source)),
    };
    let found = fstat(&file).map_err(|source| fault("look at", path, source))?;
    if SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFREG {
        return Err(FileFault::NotAFile { path: shown() });
    }
    if ![0, geteuid().as_raw()].contains(&found.st_uid) || found.st_mode & 0o022 != 0 {
        return Err(FileFault::NotOurs { path: shown(), owner: found.st_uid, mode: found.st_mode & 0o777 });
    }
    if u64::try_from(found.st_size).unwrap_or(u64::MAX) > limit {
        return Err(FileFault::Long { path: shown(), limit });
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(|source| FileFault::Read { path: shown(), source })?;
    Ok(Some(bytes))
}

fn fault(deed: &'static str, path: &Path, source: Errno) -> FileFault {
    let barred = (source == Errno::EACCES).then(|| barred(path)).flatten();
    let path = path.display().to_string();
    match barred {
        Some((folder, owner)) => FileFault::Barred { deed, path, folder, owner, user: geteuid().as_raw() },
        None => FileFault::System { deed, path, source },
    }
}

/// What on the way to a path is another user's and not for this one, and whose it is.
fn barred(path: &Path) -> Option<(String, u32)> {
    let way: Vec<&Path> = path.ancestors().collect();
    let closed = |folder: &Path, mode| access(folder, mode) == Err(Errno::EACCES);
    let shut = way.into_iter().rev().find(|folder| closed(folder, AccessFlags::R_OK | AccessFlags::X_OK));
    let folder = shut.or_else(|| path.parent().filter(|folder| closed(folder, AccessFlags::W_OK)))?;
    let owner = folder.metadata().ok()?.uid();
    (owner != geteuid().as_raw()).then(|| (folder.display().to_string(), owner))
}

const PRIVATE_FOLDER: Mode = Mode::S_IRWXU;
const PRIVATE_FILE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::{FileFault, Folder, Held};

    #[test]
    fn a_file_is_private_and_replaced_as_a_whole() {
        let place = tempfile::tempdir().expect("a folder");
        let inner = Folder::open(place.path()).expect("open").inner("claude").expect("made");
        for text in ["first", "second, longer"] {
            let path = inner.write("f.json", text.as_bytes()).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
            assert_eq!(path.metadata().expect("there").mode() & 0o7777, 0o600);
        }
        assert_eq!(inner.path().metadata().expect("there").mode() & 0o7777, 0o700);
        assert_eq!(std::fs::read_dir(inner.path()).expect("listed").count(), 1, "no leftover");
    }

    #[test]
    fn a_folder_is_held_by_one_at_a_time() {
        let place = tempfile::tempdir().expect("a folder");
        let [first, second] = [(); 2].map(|()| Folder::open(place.path()).expect("open"));
        let hold = first.hold().expect("asked");
        assert!(matches!(hold, Held::Here(_)) && matches!(second.hold().expect("asked"), Held::Elsewhere));
        drop(hold);
        assert!(matches!(second.hold().expect("asked"), Held::Here(_)));
    }

    #[test]
    fn links_and_folders_in_the_place_of_a_file_are_refused() {
        let place = tempfile::tempdir().expect("a folder");
        let victim = place.path().join("victim");
        std::fs::write(&victim, "mine").expect("written");
        symlink(&victim, place.path().join("link")).expect("a link");
        std::fs::create_dir(place.path().join("folder")).expect("a folder");
        symlink(place.path(), place.path().join("linked-folder")).expect("a link");
        let folder = Folder::open(place.path()).expect("open");
        for name in ["link", "folder"] {
            let refused = folder.write(name, b"x").expect_err("refused");
            assert!(matches!(refused, FileFault::NotAFile { .. }), "{refused}");
            assert!(folder.read(name, 10).is_err());
        }
        assert!(matches!(folder.inner("linked-folder"), Err(FileFault::NotAFolder { .. })));
        assert_eq!(std::fs::read_to_string(&victim).expect("read"), "mine");
    }
}
