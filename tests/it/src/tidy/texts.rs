//! What texts must have, and what must not stand in them.

use anyhow::{Context, Result, ensure};
use harness::Tools;

use super::sources;

pub(super) fn opening_and_length() -> Result<()> {
    let mut findings = Vec::new();
    for source in sources::rust()? {
        if !source.text.starts_with("//! ") {
            findings.push(format!("{} does not open with a `//!` sentence", source.path));
        }
        let lines = source.text.lines().count();
        if lines > 400 {
            findings.push(format!("{} has {lines} lines", source.path));
        }
    }
    sources::none_of(&findings)
}

pub(super) fn nothing_to_do() -> Result<()> {
    let mut findings = Vec::new();
    for source in sources::rust()? {
        for word in [
            concat!("to", "do!("),
            concat!("unimple", "mented!("),
            concat!("(to be ", "written)"),
            concat!("FIX", "ME"),
            concat!("TO", "DO"),
        ] {
            if source.text.contains(word) {
                findings.push(format!("{} has {word}", source.path));
            }
        }
    }
    sources::none_of(&findings)
}

pub(super) fn no_machine_paths() -> Result<()> {
    let sources =
        sources::all(&["rs", "toml", "md", "json", "yaml", "yml", "run", "sh", "Dockerfile", ".npmrc", ".gitignore"])?;
    ensure!(sources.len() >= 70, "saw only {} texts", sources.len());
    let mut findings = Vec::new();
    for source in sources {
        for word in [
            concat!("/wo", "rk/"),
            concat!("/tmp/", "wt"),
            concat!("/tmp/", "tgt"),
            concat!("/tmp/", "brief"),
            concat!("../", "shared"),
        ] {
            if source.text.contains(word) {
                findings.push(format!("{} names {word}", source.path));
            }
        }
    }
    sources::none_of(&findings)
}

pub(super) fn lockfiles() -> Result<()> {
    let top = Tools::workspace();
    let read = |name: &str| std::fs::read_to_string(top.join(name)).with_context(|| format!("read {name}"));
    let npm = read("box/package-lock.json")?;
    ensure!(npm.contains("\"integrity\""), "box/package-lock.json has no integrity");
    ensure!(!npm.contains("\"resolved\""), "box/package-lock.json has resolved addresses");
    // npm copies the addresses at which authors ask for support, as `"url"`; nothing is fetched from there.
    let names_a_host = npm.lines().any(|line| line.contains("://") && !line.trim_start().starts_with("\"url\": "));
    ensure!(!names_a_host, "box/package-lock.json names a host");
    let cargo = read("Cargo.lock")?;
    let sources: Vec<&str> = cargo.lines().filter(|line| line.starts_with("source = ")).collect();
    ensure!(sources.len() >= 50, "saw only {} sources in Cargo.lock", sources.len());
    // All from one registry, and nothing from a repository of somebody's: which one, the lock file itself says first.
    let first = sources[0];
    ensure!(first.starts_with("source = \"registry+"), "the first source is no registry: {first}");
    let foreign: Vec<String> = sources.iter().filter(|line| **line != first).map(|line| (*line).to_owned()).collect();
    sources::none_of(&foreign)
}

pub(super) fn links() -> Result<()> {
    let top = Tools::workspace();
    let pages = sources::all(&["md"])?;
    ensure!(!pages.is_empty(), "saw no page");
    let mut findings = Vec::new();
    let mut seen = 0;
    for page in pages {
        let folder = top.join(&page.path);
        let folder = folder.parent().context("find a page's folder")?;
        for target in page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || target.contains("://") {
                continue;
            }
            seen += 1;
            if !folder.join(path).exists() {
                findings.push(format!("{} links to {target}", page.path));
            }
        }
    }
    ensure!(seen >= 5, "saw only {seen} links");
    sources::none_of(&findings)
}
