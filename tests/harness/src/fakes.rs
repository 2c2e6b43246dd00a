//! Fake agents: small scripts in a tree like the one that npm makes, so that boxd finds them as it finds the real ones.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use box_spec::Agent;
use tempfile::TempDir;

use crate::files::put_deep;

/// A tree with one fake agent.
pub struct FakeAgents {
    folder: TempDir,
}

impl FakeAgents {
    /// A fake claude that is this shell script.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn shell(script: &str) -> Result<Self> {
        Self::program(format!("#!/bin/sh\n{script}\n").as_bytes())
    }

    /// A fake claude that is this Python program.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn python(program: &str) -> Result<Self> {
        Self::program(format!("#!/usr/bin/env python3\n{program}\n").as_bytes())
    }

    /// A fake of any agent that is this shell script.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn shell_as(agent: Agent, script: &str) -> Result<Self> {
        Self::program_as(agent, format!("#!/bin/sh\n{script}\n").as_bytes())
    }

    /// A fake claude of these bytes.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn program(bytes: &[u8]) -> Result<Self> {
        Self::program_as(Agent::Claude, bytes)
    }

    /// A fake of any agent of these bytes.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn program_as(agent: Agent, bytes: &[u8]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("fakes-").tempdir().context("make the fakes' folder")?;
        open_to_all(folder.path())?;
        let modules = folder.path().join("node_modules");
        let Shape { package, entry, native } = shape(agent);
        let manifest = |name: &str| format!("{{\"name\":\"{name}\",\"version\":\"{VERSION}\"}}");
        put_deep(&modules.join(package).join("package.json"), manifest(package).as_bytes(), 0o644)?;
        match &native {
            Some((beside, file)) => {
                put_deep(&modules.join(beside).join("package.json"), manifest(beside).as_bytes(), 0o644)?;
                put_deep(&modules.join(beside).join(file), bytes, 0o755)?;
                put_deep(&modules.join(package).join(entry), b"not installed", 0o644)?;
            }
            None => put_deep(&modules.join(package).join(entry), bytes, 0o755)?,
        }
        let bin = modules.join(".bin");
        std::fs::create_dir(&bin).context("make .bin")?;
        symlink(format!("../{package}/{entry}"), bin.join(agent.as_str())).context("link the fake")?;
        Ok(Self { folder })
    }

    /// What [`crate::BoxRun::agents`] takes.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The fake claude itself.
    #[must_use]
    pub fn claude(&self) -> PathBuf {
        self.itself(Agent::Claude)
    }

    /// The fake itself.
    #[must_use]
    pub fn itself(&self, agent: Agent) -> PathBuf {
        let Shape { package, entry, native } = shape(agent);
        let place = native.map_or_else(|| format!("{package}/{entry}"), |(package, file)| format!("{package}/{file}"));
        self.folder().join("node_modules").join(place)
    }
}

/// How npm lays an agent out: the package with the entry that is linked, and the package with the native program.
struct Shape {
    package: &'static str,
    entry: &'static str,
    native: Option<(String, String)>,
}

fn shape(agent: Agent) -> Shape {
    let (arch, triple) = if cfg!(target_arch = "aarch64") { ("arm64", "aarch64") } else { ("x64", "x86_64") };
    match agent {
        Agent::Claude => Shape {
            package: "@anthropic-ai/claude-code",
            entry: "bin/claude.exe",
            native: Some((format!("@anthropic-ai/claude-code-linux-{arch}"), "claude".into())),
        },
        Agent::Codex => Shape {
            package: "@openai/codex",
            entry: "bin/codex.js",
            native: Some((
                format!("@openai/codex-linux-{arch}"),
                format!("vendor/{triple}-unknown-linux-musl/bin/codex"),
            )),
        },
        Agent::Pi => Shape { package: "@earendil-works/pi-coding-agent", entry: "dist/bundle/cli.js", native: None },
    }
}

/// claude's last event for an answer.
#[must_use]
pub fn result_event(text: &str) -> String {
    serde_json::json!({"type": "result", "subtype": "success", "is_error": false, "result": text}).to_string()
}

fn open_to_all(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).context("open the fakes to the box")
}

/// The version that a fake's `package.json` states.
pub const VERSION: &str = "0.0.7-fake";
