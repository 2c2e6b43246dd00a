//! The one-way rule: `box-spec ← gateway | boxd | shim ← tests`, boxd may use shim, gateway and boxd never name each other.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Tools, process};
use serde_json::Value;

use super::sources;

pub(super) fn depend_one_way() -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(Tools::workspace());
    let ran = process::run(cargo, None, Duration::from_secs(60))?.expect_code(0)?;
    let metadata: Value = serde_json::from_slice(&ran.stdout).context("parse cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("find the packages")?;
    ensure!(packages.len() >= 10, "saw only {} crates", packages.len());
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
            findings.push(format!("{name} is a crate without a place in the rule"));
            continue;
        };
        let inner = package["dependencies"].as_array().into_iter().flatten().filter(|one| one["path"].is_string());
        for used in inner.filter_map(|one| one["name"].as_str()).filter(|used| !allowed.contains(used)) {
            findings.push(format!("{name} must not use {used}"));
        }
    }
    sources::none_of(&findings)
}

pub(super) fn never_name_each_other() -> Result<()> {
    let mut findings = Vec::new();
    for source in sources::rust()? {
        for (home, word) in [
            ("gateway/", "boxd::"),
            ("gateway/", "shim::"),
            ("boxd/", "gateway::"),
            ("shim/", "gateway::"),
            ("shim/", "boxd::"),
        ] {
            let code = source.code();
            let names = code.match_indices(word).any(|(at, _)| {
                !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == ':')
            });
            if source.path.starts_with(home) && names && !(word == "shim::" && code.contains("mod shim;")) {
                findings.push(format!("{} names {word}", source.path));
            }
        }
    }
    sources::none_of(&findings)
}

/// Each crate, and the crates of the workspace that it may use.
const ALLOWED: [(&str, &[&str]); 10] = [
    ("box-spec", &[]),
    ("gateway", &["box-spec"]),
    ("shim", &["box-spec"]),
    ("boxd", &["box-spec", "shim"]),
    ("standin", &[]),
    ("harness", &["box-spec", "standin"]),
    ("bench", &["box-spec", "gateway", "harness", "shim", "standin"]),
    ("fuzz", &["box-spec", "gateway", "shim"]),
    ("it", &["bench", "box-spec", "harness", "standin", "gateway"]),
    ("xtask", &["harness", "standin"]),
];
