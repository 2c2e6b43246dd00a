//! Where the programs under test are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use box_spec::Agent;

/// Finds programs and never builds one. A variable of the environment wins over the usual place.
pub struct Tools;

impl Tools {
    /// The top folder of the workspace.
    #[must_use]
    pub fn workspace() -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors().nth(2).unwrap_or(here).to_path_buf()
    }

    /// # Errors
    ///
    /// When it was not built.
    pub fn gateway() -> Result<PathBuf> {
        let target = Self::target()?;
        let beside = Self::profile()?.join("gateway");
        pick("BOXGATE_TEST_GATEWAY", &[beside, target.join("debug/gateway"), target.join("release/gateway")])
    }

    /// The static boxd.
    ///
    /// # Errors
    ///
    /// When it was not built.
    pub fn boxd() -> Result<PathBuf> {
        pick("BOXGATE_TEST_BOXD", &[Self::target()?.join("boxd/boxd")])
    }

    /// A pinned agent as it is started: the native binary of claude and of codex, node and the script of pi.
    ///
    /// # Errors
    ///
    /// When it was not installed.
    pub fn agent(agent: Agent) -> Result<Vec<PathBuf>> {
        match agent {
            Agent::Claude => Ok(vec![Self::claude()?]),
            Agent::Codex => Ok(vec![Self::codex()?]),
            Agent::Pi => Self::pi(),
        }
    }

    /// The native binary of the pinned claude.
    ///
    /// # Errors
    ///
    /// When it was not installed.
    pub fn claude() -> Result<PathBuf> {
        pick("BOXGATE_TEST_CLAUDE", &[Self::module(&format!("@anthropic-ai/claude-code-linux-{ARCH}/claude"))])
    }

    /// The native binary of the pinned codex.
    ///
    /// # Errors
    ///
    /// When it was not installed.
    pub fn codex() -> Result<PathBuf> {
        let triple = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" };
        let place = format!("@openai/codex-linux-{ARCH}/vendor/{triple}-unknown-linux-musl/bin/codex");
        pick("BOXGATE_TEST_CODEX", &[Self::module(&place)])
    }

    /// The pinned node, and the script of the pinned pi.
    ///
    /// # Errors
    ///
    /// When one of them was not installed.
    pub fn pi() -> Result<Vec<PathBuf>> {
        let node = pick("BOXGATE_TEST_NODE", &[Self::module(&format!("node-linux-{ARCH}/bin/node"))])?;
        let script = pick("BOXGATE_TEST_PI", &[Self::module("@earendil-works/pi-coding-agent/dist/bundle/cli.js")])?;
        Ok(vec![node, script])
    }

    /// The MCP server for tests.
    ///
    /// # Errors
    ///
    /// When it was not built.
    pub fn mcp_echo() -> Result<PathBuf> {
        pick("BOXGATE_TEST_MCP_ECHO", &[Self::profile()?.join("mcp-echo"), Self::target()?.join("debug/mcp-echo")])
    }

    /// The stand-in as a program.
    ///
    /// # Errors
    ///
    /// When it was not built.
    pub fn standin() -> Result<PathBuf> {
        pick("BOXGATE_TEST_STANDIN", &[Self::profile()?.join("standin"), Self::target()?.join("debug/standin")])
    }

    /// A library of the workspace, as it was built beside this program.
    ///
    /// # Errors
    ///
    /// When it was not built.
    pub fn library(name: &str) -> Result<PathBuf> {
        pick("BOXGATE_TEST_LIBRARY", &[Self::profile()?.join(format!("lib{name}.rlib"))])
    }

    /// The folder with the agents under test: the pinned ones, unless others are asked for.
    #[must_use]
    pub fn agents() -> PathBuf {
        Self::other_agents().unwrap_or_else(|| Self::workspace().join("box"))
    }

    /// The folder that `BOXGATE_TEST_AGENTS` names: agents of other versions than the pinned ones.
    #[must_use]
    pub fn other_agents() -> Option<PathBuf> {
        std::env::var_os("BOXGATE_TEST_AGENTS").map(PathBuf::from)
    }

    fn module(path: &str) -> PathBuf {
        Self::agents().join("node_modules").join(path)
    }

    /// The target folder of the build that this program comes from.
    ///
    /// # Errors
    ///
    /// When this program runs from somewhere else.
    pub fn target() -> Result<PathBuf> {
        Ok(Self::profile()?.parent().context("find the target folder")?.to_path_buf())
    }

    /// `target/debug` or `target/release`; this program may lie below it, in `deps`.
    fn profile() -> Result<PathBuf> {
        let me = std::env::current_exe().context("find this program")?;
        let folder = me.parent().context("find this program's folder")?;
        let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
        Ok(folder.to_path_buf())
    }
}

fn pick(variable: &str, places: &[PathBuf]) -> Result<PathBuf> {
    if let Some(given) = std::env::var_os(variable) {
        let given = PathBuf::from(given);
        if given.is_file() {
            return Ok(given);
        }
        bail!("{variable} names no file: {}", given.display());
    }
    let found = places.iter().find(|place| place.is_file());
    found.cloned().with_context(|| {
        format!("not there: {}", places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "))
    })
}

/// The machine, as npm's packages name it.
const ARCH: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
