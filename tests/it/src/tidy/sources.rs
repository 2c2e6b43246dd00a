//! The committed texts, read once per rule.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::Tools;

/// A file: its path from the top of the workspace, with `/`, and what it says.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The text without comment lines, and without the tests at its end.
    pub(crate) fn code(&self) -> String {
        if self.path.ends_with("/tests.rs") || self.path.contains("/tests/") && !self.path.starts_with("tests/") {
            return String::new();
        }
        let lines: Vec<&str> = self.text.lines().collect();
        let end = (0..lines.len()).find(|at| begins_tests(&lines[*at..])).unwrap_or(lines.len());
        lines[..end].iter().copied().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    }

    /// Whether the path is this file, or in the folder of the same name.
    pub(crate) fn is_in(&self, place: &str) -> bool {
        self.path == format!("{place}.rs") || self.path.starts_with(&format!("{place}/"))
    }
}

/// All Rust sources. Fails when there are so few that the walk must have gone wrong.
pub(crate) fn rust() -> Result<Vec<Source>> {
    let sources = all(&["rs"])?;
    ensure!(sources.len() >= 60, "saw only {} sources", sources.len());
    for must in
        ["gateway/src/flow.rs", "boxd/src/main.rs", "shim/src/lib.rs", "box/spec/src/lib.rs", "tests/it/src/main.rs"]
    {
        ensure!(sources.iter().any(|source| source.path == must), "did not see {must}");
    }
    Ok(sources)
}

/// The names of all cases of the integration tests but those that are made from tables.
pub(crate) fn cases(sources: &[Source]) -> Result<BTreeSet<&str>> {
    let cases: BTreeSet<&str> = sources
        .iter()
        .filter(|source| source.is_in("tests/it/src"))
        .flat_map(|source| source.text.split("case(").skip(1))
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .collect();
    ensure!(cases.len() >= 100, "saw only {} cases", cases.len());
    Ok(cases)
}

/// All texts whose names end so.
pub(crate) fn all(extensions: &[&str]) -> Result<Vec<Source>> {
    let top = Tools::workspace();
    let mut sources = Vec::new();
    let mut folders = vec![top.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let path = entry.context("read a folder")?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !SKIPPED.contains(&name) {
                    folders.push(path);
                }
            } else if extensions.iter().any(|extension| name.ends_with(&format!(".{extension}")) || name == *extension)
            {
                sources.push(read(&top, path)?);
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// `#[cfg(test)]`, further attributes, and a module with a body.
fn begins_tests(lines: &[&str]) -> bool {
    let module = lines.iter().find(|line| !line.starts_with("#["));
    lines[0] == "#[cfg(test)]" && module.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
}

fn read(top: &Path, path: PathBuf) -> Result<Source> {
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let path = path.strip_prefix(top).context("shorten a path")?.to_string_lossy().into_owned();
    Ok(Source { path, text })
}

/// Fails with all findings, when there are any.
pub(crate) fn none_of(findings: &[String]) -> Result<()> {
    ensure!(findings.is_empty(), "{}", findings.join("\n"));
    Ok(())
}

const SKIPPED: [&str; 3] = ["target", "node_modules", ".git"];
