//! Where a secret's text comes from, and what it must look like to be one. No error holds the text.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use box_spec::{CredentialKind, Provider};
use zeroize::Zeroizing;

use super::credential::SecretText;
use super::login::LoginFault;

/// Why a source gives no secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SourceFault {
    #[error("{} is missing", .0.display())]
    Missing(PathBuf),
    #[error("{} is missing, and so is {}", .0.display(), .1.display())]
    BothMissing(PathBuf, PathBuf),
    #[error("{} cannot be read ({}){}", .0.display(), .1, whose(*.1))]
    Unreadable(PathBuf, ErrorKind),
    #[error("{} {}", .0.display(), .1)]
    File(PathBuf, Malformed),
    #[error("the environment variable {0} {1}")]
    Env(String, Malformed),
    #[error("{} {}", .0.display(), .1)]
    Login(PathBuf, LoginFault),
    #[error("{} cannot be replaced ({}): a refreshed login could not be kept", .0.display(), .1)]
    Unwritable(PathBuf, ErrorKind),
}

/// What is wrong with a text that should be a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    #[error("is not a regular file")]
    NotAFile,
    #[error("is longer than {LONGEST_SECRET} bytes")]
    TooLong,
    #[error("is empty")]
    Empty,
    #[error("begins with a byte order mark")]
    ByteOrderMark,
    #[error("holds a control character or a space inside the value")]
    Inner,
    #[error("holds a byte that is no ASCII")]
    NotAscii,
    #[error("is no UTF-8")]
    NotUtf8,
    #[error("holds a credential in quotes, or behind a `NAME=`: leave nothing but the credential itself in it")]
    Dressed,
    #[error("is nothing that the answers can be looked through for")]
    Unsearchable,
    #[error("holds a token that names no ChatGPT account: give this [[secret]] its `account_id`")]
    NoAccount,
    #[error("holds a credential of provider \"{}\", which must not be sent to another: correct this [[secret]]", .0.as_str())]
    Foreign(Provider),
    #[error("holds neither of what {} gives: a login's token (`claude setup-token`, sk-ant-oat…) or an API key (sk-ant-api…); or say its `kind` in this [[secret]]", .0.as_str())]
    NoShape(Provider),
    #[error("holds what is of kind \"{}\": correct this [[secret]]", match .0 { CredentialKind::Login => "login", CredentialKind::ApiKey => "api-key" })]
    OtherKind(CredentialKind),
}

/// What a file looked like when it was read.
#[derive(Clone, Debug)]
pub(super) struct FileStamp {
    identity: (u64, u64, u64, i64, i64, i64, i64),
    /// Changed so lately that another change could bear the same time: such a stamp is the same as none.
    fresh: bool,
}

pub(super) struct Reading {
    pub(super) text: SecretText,
    pub(super) stamp: FileStamp,
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(i64::MAX, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        Self {
            identity: (
                metadata.dev(),
                metadata.ino(),
                metadata.len(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ),
            // What lies in the future is from before the clock was set back: nothing that is written now bears such a time.
            fresh: (now.saturating_sub(1)..=now.saturating_add(1)).contains(&metadata.ctime()),
        }
    }

    pub(super) fn is_same(&self, now: &Self) -> bool {
        !self.fresh && self.identity == now.identity
    }
}

/// The text of a variable. One that is not set, or set to nothing, holds no secret.
pub(super) fn from_env(variable: &str, value: Option<OsString>) -> Result<Option<SecretText>, SourceFault> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let bytes = Zeroizing::new(value.into_vec());
    parse(&bytes).map(Some).map_err(|malformed| SourceFault::Env(variable.to_owned(), malformed))
}

/// What the file looks like now, without reading it.
pub(super) fn stamp(path: &Path) -> Result<FileStamp, SourceFault> {
    path.metadata().map(|metadata| FileStamp::of(&metadata)).map_err(|error| io_fault(path, error.kind()))
}

/// Reads a file through one descriptor, so that stamp and text belong together.
pub(super) fn read(path: &Path) -> Result<Reading, SourceFault> {
    let (bytes, stamp) = bytes(path)?;
    let text = parse(&bytes).map_err(|malformed| SourceFault::File(path.to_owned(), malformed))?;
    Ok(Reading { text, stamp })
}

/// Reads a file as text of any form.
pub(super) fn read_text(path: &Path) -> Result<Zeroizing<String>, SourceFault> {
    let (bytes, _) = bytes(path)?;
    let fails = |malformed| SourceFault::File(path.to_owned(), malformed);
    if bytes.len() > LONGEST_SECRET {
        return Err(fails(Malformed::TooLong));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| fails(Malformed::NotUtf8))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// One byte more than a secret may have tells that it is too long.
fn bytes(path: &Path) -> Result<(Zeroizing<Vec<u8>>, FileStamp), SourceFault> {
    let fails = |malformed| SourceFault::File(path.to_owned(), malformed);
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let before = path.metadata().map_err(|error| io_fault(path, error.kind()))?;
    if !before.is_file() {
        return Err(fails(Malformed::NotAFile));
    }
    let file = File::open(path).map_err(|error| io_fault(path, error.kind()))?;
    let metadata = file.metadata().map_err(|error| io_fault(path, error.kind()))?;
    if metadata.mode() & 0o077 != 0 {
        tracing::warn!(file = %path.display(), "a secret file can be read by others: chmod 600 would keep it private");
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST_SECRET + 1));
    file.take(LONGEST_SECRET as u64 + 1).read_to_end(&mut bytes).map_err(|error| io_fault(path, error.kind()))?;
    Ok((bytes, FileStamp::of(&metadata)))
}

/// One line of visible ASCII. One newline at the end and blanks around are an editor's and do not belong to it.
pub(super) fn parse(bytes: &[u8]) -> Result<SecretText, Malformed> {
    if bytes.len() > LONGEST_SECRET {
        return Err(Malformed::TooLong);
    }
    if bytes.starts_with("\u{feff}".as_bytes()) {
        return Err(Malformed::ByteOrderMark);
    }
    let line = bytes.strip_suffix(b"\n").map_or(bytes, |line| line.strip_suffix(b"\r").unwrap_or(line));
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !blank(byte)).ok_or(Malformed::Empty)?;
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    let value = &line[start..end];
    if let Some(bad) = value.iter().find(|byte| !byte.is_ascii_graphic()) {
        return Err(if bad.is_ascii() { Malformed::Inner } else { Malformed::NotAscii });
    }
    String::from_utf8(value.to_vec()).map(|text| SecretText::new(Zeroizing::new(text))).map_err(|_| Malformed::NotAscii)
}

pub(super) fn io_fault(path: &Path, kind: ErrorKind) -> SourceFault {
    match kind {
        ErrorKind::NotFound => SourceFault::Missing(path.to_owned()),
        kind => SourceFault::Unreadable(path.to_owned(), kind),
    }
}

/// The fix, where there is one that is always the same.
fn whose(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::PermissionDenied => format!(
            ": the gateway is user {}; give file and folder to that user (chown), or let the gateway be theirs (with compose: BOXGATE_UID in .env)",
            nix::unistd::geteuid()
        ),
        _ => String::new(),
    }
}

/// Far above any key, far below what a mistaken path would load.
pub(super) const LONGEST_SECRET: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{LONGEST_SECRET, Malformed, SourceFault, parse, read};

    #[test]
    fn an_editors_newline_and_blanks_are_cut_and_anything_else_is_refused() {
        for good in ["sk-real", "sk-real\n", "sk-real\r\n", " sk-real ", "\tsk-real \n"] {
            assert_eq!(parse(good.as_bytes()).expect("a secret").expose(), "sk-real", "{good:?}");
        }
        let long = "a".repeat(LONGEST_SECRET + 1);
        for (bad, malformed) in [
            (&b""[..], Malformed::Empty),
            (b"\n", Malformed::Empty),
            (b" \t", Malformed::Empty),
            ("\u{feff}sk-real".as_bytes(), Malformed::ByteOrderMark),
            (b"sk-\nreal", Malformed::Inner),
            (b"sk-real\n\n", Malformed::Inner),
            (b"sk-real\r", Malformed::Inner),
            (b"sk real", Malformed::Inner),
            (b"sk-\0real", Malformed::Inner),
            (b"sk-\x7freal", Malformed::Inner),
            ("sk-réal".as_bytes(), Malformed::NotAscii),
            (b"sk-\xff", Malformed::NotAscii),
            (long.as_bytes(), Malformed::TooLong),
        ] {
            assert_eq!(parse(bad).err(), Some(malformed), "{:?}", String::from_utf8_lossy(&bad[..bad.len().min(20)]));
        }
    }

    #[test]
    fn a_folder_is_no_secret_and_neither_is_what_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read(folder.path()).err(), Some(SourceFault::File(folder.path().to_owned(), Malformed::NotAFile)));
        let missing = folder.path().join("missing");
        assert_eq!(read(&missing).err(), Some(SourceFault::Missing(missing)));
    }
}
