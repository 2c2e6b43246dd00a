//! Files that a test makes.

use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;

use anyhow::{Context, Result};

/// Writes a file with this mode; the folder must be there.
///
/// # Errors
///
/// When it cannot be written.
#[expect(clippy::disallowed_methods, reason = "a test's own file, in a test's own folder")]
pub fn put(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .with_context(|| format!("set the mode of {}", path.display()))
}

/// The same, and the folders above it.
///
/// # Errors
///
/// When it cannot be written.
pub fn put_deep(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let folder = path.parent().context("find a file's folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    put(path, bytes, mode)
}

/// Gives a folder and all that is in it to this user and the group of the same number.
///
/// # Errors
///
/// When one of them cannot be given, or the folder cannot be read.
pub fn give(folder: &Path, uid: u32) -> Result<()> {
    let given = |path: &Path| lchown(path, Some(uid), Some(uid)).with_context(|| format!("give {}", path.display()));
    given(folder)?;
    for entry in std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry.context("read a folder")?;
        if entry.file_type().context("look at a file")?.is_dir() {
            give(&entry.path(), uid)?;
        } else {
            given(&entry.path())?;
        }
    }
    Ok(())
}
