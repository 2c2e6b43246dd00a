//! Fake agents: small scripts in a tree like the one that npm makes, so that boxd finds them as it finds the real ones.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::files::put_deep;

/// A tree with one fake claude.
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

    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn program(bytes: &[u8]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("fakes-").tempdir().context("make the fakes' folder")?;
        open_to_all(folder.path())?;
        let modules = folder.path().join("node_modules");
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        for name in ["claude-code".to_owned(), format!("claude-code-linux-{arch}")] {
            let package = format!("{{\"name\":\"@anthropic-ai/{name}\",\"version\":\"{VERSION}\"}}");
            put_deep(&modules.join("@anthropic-ai").join(&name).join("package.json"), package.as_bytes(), 0o644)?;
        }
        put_deep(&modules.join("@anthropic-ai").join(format!("claude-code-linux-{arch}/claude")), bytes, 0o755)?;
        put_deep(&modules.join("@anthropic-ai/claude-code/bin/claude.exe"), b"not installed", 0o644)?;
        std::fs::create_dir(modules.join(".bin")).context("make .bin")?;
        symlink("../@anthropic-ai/claude-code/bin/claude.exe", modules.join(".bin/claude")).context("link the fake")?;
        Ok(Self { folder })
    }

    /// What [`crate::BoxRun::agents`] takes.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The fake itself.
    #[must_use]
    pub fn claude(&self) -> PathBuf {
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        self.folder().join(format!("node_modules/@anthropic-ai/claude-code-linux-{arch}/claude"))
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
