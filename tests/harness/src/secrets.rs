//! A search for secrets: in the files of a folder, and in environment, arguments and memory of processes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;

/// Files below a folder that hold one of the needles. Links are not followed.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn in_files(folder: &Path, needles: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && in_reader(File::open(entry.path()).context("open a file")?, needles)? {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// Where in a process one of the needles stands: `environ`, `cmdline`, or a mapping. A process that is gone has none.
#[must_use]
pub fn in_process(pid: i32, needles: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for name in ["environ", "cmdline"] {
        let file = File::open(format!("/proc/{pid}/{name}"));
        if file.is_ok_and(|file| in_reader(file, needles).unwrap_or(false)) {
            found.push(format!("{pid} {name}"));
        }
    }
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let (Ok(memory), Ok(pagemap)) =
        (File::open(format!("/proc/{pid}/mem")), File::open(format!("/proc/{pid}/pagemap")))
    else {
        return found;
    };
    for line in maps.lines().filter(|line| !line.contains("[v")) {
        let Some((from, to)) = range(line) else {
            continue;
        };
        if in_mapping(&memory, &pagemap, from, to, needles) {
            found.push(format!("{pid} {line}"));
        }
    }
    found
}

/// The same for a process and all its descendants; also says how many processes were looked at.
#[must_use]
pub fn in_tree(root: i32, needles: &[&str]) -> (usize, Vec<String>) {
    let mut pids = crate::process::descendants(root);
    pids.push(root);
    (pids.len(), pids.iter().flat_map(|pid| in_process(*pid, needles)).collect())
}

/// The forms in which a secret may lie about: as it is, in base64 wherever it begins within three bytes, and in hex.
#[must_use]
pub fn forms(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![secret.to_owned(), hex.to_ascii_uppercase(), hex];
    for offset in 0..3 {
        // The first and the last letters depend on what stands beside the secret.
        let padded = [&b"xxx"[..offset], secret.as_bytes()].concat();
        let whole = &padded[..padded.len() / 3 * 3];
        let letters = base64::engine::general_purpose::STANDARD.encode(whole);
        forms.push(letters[if offset == 0 { 0 } else { 4 }..].to_owned());
    }
    forms
}

/// Whether bytes hold one of the needles.
#[must_use]
pub fn in_bytes(bytes: &[u8], needles: &[&str]) -> bool {
    needles.iter().any(|needle| memchr::memmem::find(bytes, needle.as_bytes()).is_some())
}

fn in_reader(mut reader: impl Read, needles: &[&str]) -> Result<bool> {
    let mut window = Vec::with_capacity(PIECE + OVERLAP);
    loop {
        let keep = window.len().saturating_sub(OVERLAP);
        window.drain(..keep);
        let read = reader.by_ref().take(PIECE as u64).read_to_end(&mut window).context("read a file")?;
        if in_bytes(&window, needles) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
    }
}

/// Looks at the pages that are there; an engine reserves far more than it uses.
fn in_mapping(memory: &File, pagemap: &File, from: u64, to: u64, needles: &[&str]) -> bool {
    let mut window: Vec<u8> = Vec::new();
    let mut entries = vec![0_u8; 8 * PAGES];
    let mut at = from;
    while at < to {
        let pages = usize::try_from((to - at) / PAGE).unwrap_or(PAGES).clamp(1, PAGES);
        let Ok(read) = pagemap.read_at(&mut entries[..8 * pages], at / PAGE * 8) else {
            return false;
        };
        for entry in entries[..read].chunks_exact(8) {
            let there = entry[7] & 0b1100_0000 != 0;
            let mut page = [0_u8; PAGE as usize];
            if there && memory.read_exact_at(&mut page, at).is_ok() {
                let keep = window.len().saturating_sub(OVERLAP);
                window.drain(..keep);
                window.extend_from_slice(&page);
                if in_bytes(&window, needles) {
                    return true;
                }
            } else {
                window.clear();
            }
            at += PAGE;
        }
        if read < 8 {
            return false;
        }
    }
    false
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

const PIECE: usize = 1024 * 1024;
/// Longer than any secret that is looked for.
const OVERLAP: usize = 1024;
const PAGE: u64 = 4096;
const PAGES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::{forms, in_bytes, in_files, in_process};

    #[test]
    fn a_secret_is_known_again_in_base64_and_hex() {
        use base64::Engine;
        let forms = forms("sk-ant-oat01-REAL");
        let needles: Vec<&str> = forms.iter().map(String::as_str).collect();
        for beside in ["", "a", "ab", "token:", "x:y:z"] {
            let text = format!("{beside}sk-ant-oat01-REAL{beside}");
            let letters = base64::engine::general_purpose::STANDARD.encode(&text);
            assert!(in_bytes(letters.as_bytes(), &needles[3..]), "{letters}");
        }
        assert!(in_bytes(b"736b2d616e742d6f617430312d5245414c", &needles));
        assert!(!in_bytes(b"sk-ant-oat01-REA", &needles));
    }

    #[test]
    fn a_needle_is_found_across_pieces_of_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bytes = vec![b'x'; super::PIECE - 3];
        bytes.extend_from_slice(b"needle-in-file");
        crate::files::put_deep(&folder.path().join("a/b"), &bytes, 0o600).expect("a file");
        crate::files::put(&folder.path().join("c"), b"needle-in-fil", 0o600).expect("a file");
        let found = in_files(folder.path(), &["needle-in-file"]).expect("a search");
        assert_eq!(found, [folder.path().join("a/b")]);
    }

    #[test]
    fn a_needle_is_found_in_environment_and_memory_of_a_process() {
        let mut child =
            std::process::Command::new("sleep").arg("30").env("HELD", "needle-in-process").spawn().expect("a process");
        let pid = i32::try_from(child.id()).expect("a pid");
        let found = crate::until("the program to start", std::time::Duration::from_secs(5), || {
            let found = in_process(pid, &["needle-in-process"]);
            (found.len() >= 2).then_some(found)
        });
        let clean = in_process(pid, &["needle-that-is-nowhere"]);
        child.kill().and_then(|()| child.wait()).expect("an end");
        assert!(found.is_ok(), "environ and stack should both hold it");
        assert_eq!(clean, Vec::<String>::new());
    }
}
