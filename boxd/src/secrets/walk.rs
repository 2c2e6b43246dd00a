//! The walk through the folders of a box: files of a likely size, no link followed, to a limit of all.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{DirEntry, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::{Looked, Place};

/// Looks at the files that are named, and then at all in the folders, what lies deeper later. `own` is left alone.
pub(super) fn files(
    named: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    own: &[PathBuf],
    holds: &mut impl FnMut(&[u8]) -> Option<bool>,
    looked: &mut Looked,
) {
    let mut walk = Walk { began: Instant::now(), names: 0, seen: BTreeSet::new(), buffer: Vec::new(), looked };
    walk.seen.extend(own.iter().filter_map(|folder| folder.metadata().ok()).map(|found| (found.dev(), found.ino())));
    for path in named.into_iter().filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_file())) {
        walk.file(path, holds);
    }
    let mut waiting: VecDeque<PathBuf> = folders.into();
    while let Some(folder) = waiting.pop_front() {
        walk.folder(&folder, &mut waiting, holds);
    }
}

struct Walk<'a> {
    began: Instant,
    names: usize,
    /// Files and folders by device and number.
    seen: BTreeSet<(u64, u64)>,
    buffer: Vec<u8>,
    looked: &'a mut Looked,
}

impl Walk<'_> {
    fn folder(
        &mut self,
        folder: &Path,
        waiting: &mut VecDeque<PathBuf>,
        holds: &mut impl FnMut(&[u8]) -> Option<bool>,
    ) {
        // A home that is all of the image is none.
        if folder == Path::new("/") || self.is_over() {
            return self.looked.leave_out();
        }
        match folder.symlink_metadata() {
            Ok(found) if found.is_dir() && self.seen.insert((found.dev(), found.ino())) => {}
            _ => return,
        }
        let Ok(entries) = std::fs::read_dir(folder) else {
            return self.looked.leave_out();
        };
        for entry in entries {
            self.names += 1;
            match entry {
                Ok(_) | Err(_) if self.is_over() => return self.looked.leave_out(),
                Ok(entry) => self.entry(&entry, waiting, holds),
                Err(_) => self.looked.leave_out(),
            }
        }
    }

    fn entry(
        &mut self,
        entry: &DirEntry,
        waiting: &mut VecDeque<PathBuf>,
        holds: &mut impl FnMut(&[u8]) -> Option<bool>,
    ) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => waiting.push_back(entry.path()),
            Ok(kind) if kind.is_file() => self.file(entry.path(), holds),
            Ok(_) => {}
            Err(_) => self.looked.leave_out(),
        }
    }

    fn file(&mut self, path: PathBuf, holds: &mut impl FnMut(&[u8]) -> Option<bool>) {
        match self.read(&path) {
            Outcome::Seen => {}
            Outcome::Not => self.looked.leave_out(),
            Outcome::Whole => match holds(&self.buffer) {
                Some(found) => {
                    let searched = &mut self.looked.searched;
                    searched.files = searched.files.saturating_add(1);
                    searched.bytes = searched.bytes.saturating_add(self.buffer.len() as u64);
                    self.looked.found.extend(found.then_some(Place::File(path)));
                }
                None => self.looked.leave_out(),
            },
        }
    }

    fn read(&mut self, path: &Path) -> Outcome {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let opened = open(path, flags, Mode::empty()).map(File::from);
        let Ok((file, found)) = opened.map_err(Into::into).and_then(|file| file.metadata().map(|found| (file, found)))
        else {
            return Outcome::Not;
        };
        if !found.is_file() || !self.seen.insert((found.dev(), found.ino())) {
            return Outcome::Seen;
        }
        let left = LARGEST_OF_ALL.saturating_sub(self.looked.searched.bytes);
        if found.len() > LARGEST || found.len() > left || self.is_over() {
            return Outcome::Not;
        }
        self.buffer.clear();
        match file.take(LARGEST + 1).read_to_end(&mut self.buffer) {
            Ok(length) if length as u64 <= LARGEST => Outcome::Whole,
            Ok(_) | Err(_) => Outcome::Not,
        }
    }

    fn is_over(&self) -> bool {
        self.names > MOST_NAMES || self.looked.searched.files >= MOST_FILES || self.began.elapsed() > PATIENCE
    }
}

/// What came of reading a file.
enum Outcome {
    Whole,
    /// Before, or it is no file.
    Seen,
    Not,
}

const LARGEST: u64 = 1024 * 1024;
const LARGEST_OF_ALL: u64 = 2 * 1024 * 1024;
const MOST_FILES: u32 = 512;
const MOST_NAMES: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(1);
