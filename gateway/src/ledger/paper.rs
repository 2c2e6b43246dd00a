//! Paper: the file under the ledger, behind a trait so that a test can let it fail.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::fault::LedgerError;

/// What the writer needs of a file.
pub(super) trait Paper: Send + 'static {
    /// One write at the end; may be short.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
    /// The same for another thread.
    fn syncing(&mut self) -> io::Result<impl FnMut() -> io::Result<()> + Send + 'static>;
    /// The length, or nothing if the file has no name any more.
    fn length(&mut self) -> io::Result<Option<u64>>;
    /// Whether the path still leads here.
    fn is_in_place(&mut self) -> io::Result<bool>;
    /// Writes the same bytes again where they already stand, durably.
    fn rewrite(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

/// The real file: appended to, locked against a second gateway, mode 0600.
#[derive(Debug)]
pub(super) struct Sheet {
    file: File,
    path: PathBuf,
    identity: (u64, u64),
}

impl Sheet {
    pub(super) fn open(path: &Path) -> Result<Self, LedgerError> {
        let at = |source| LedgerError::Open { path: path.to_owned(), source };
        let is_new = !path.try_exists().map_err(at)?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(MODE).custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits());
        let file = options.open(path).map_err(at)?;
        let metadata = file.metadata().map_err(at)?;
        if !metadata.is_file() {
            return Err(at(io::Error::other("not a regular file")));
        }
        file.try_lock().map_err(|fault| match fault {
            std::fs::TryLockError::WouldBlock => LedgerError::Locked { path: path.to_owned() },
            std::fs::TryLockError::Error(source) => at(source),
        })?;
        if metadata.permissions().mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(MODE)).map_err(at)?;
        }
        file.sync_all().map_err(at)?;
        if is_new {
            sync_folder(path).map_err(at)?;
        }
        Ok(Self { file, path: path.to_owned(), identity: identity(&metadata) })
    }

    /// A reader of what the file holds now.
    pub(super) fn reader(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

impl Paper for Sheet {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn syncing(&mut self) -> io::Result<impl FnMut() -> io::Result<()> + Send + 'static> {
        let file = self.file.try_clone()?;
        Ok(move || file.sync_data())
    }

    fn length(&mut self) -> io::Result<Option<u64>> {
        let metadata = self.file.metadata()?;
        Ok((metadata.nlink() > 0).then_some(metadata.len()))
    }

    fn is_in_place(&mut self) -> io::Result<bool> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(metadata) => Ok(identity(&metadata) == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Through a descriptor of its own: the one that appends would append.
    fn rewrite(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let file =
            OpenOptions::new().write(true).custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits()).open(&self.path)?;
        if identity(&file.metadata()?) != self.identity {
            return Err(io::Error::other("the file was replaced"));
        }
        file.write_all_at(bytes, offset)?;
        file.sync_data()
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(folder)?.sync_all()
}

const MODE: u32 = 0o600;
