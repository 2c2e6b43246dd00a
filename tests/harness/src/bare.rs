//! The same agents without boxgate, with the real credential, for comparison: a plain CONNECT proxy leads them to the stand-in.

mod proxy;
mod seeds;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use box_spec::{Agent, Provider};
use standin::{Real, StandIn};
use tempfile::TempDir;

use crate::files::{put, put_deep};
use crate::process::{self, Ran, Running};
use crate::tools::Tools;

pub use seeds::pi_model;

/// A bare agent, once. It is set up and called as boxd does it, but for the credential.
pub struct Bare {
    agent: Agent,
    provider: Provider,
    folders: Arc<TempDir>,
    env: Vec<(String, String)>,
    arguments: Vec<String>,
    prompt: String,
}

impl Bare {
    /// Leads claude to the stand-in, which must take `secret` for real.
    ///
    /// # Errors
    ///
    /// When the proxy cannot listen, or a file cannot be written.
    pub fn new(standin: &StandIn, secret: &Real, prompt: &str) -> Result<Self> {
        Self::of(Agent::Claude, Provider::Anthropic, standin, secret, prompt)
    }

    /// Leads any agent to the stand-in, which must take `secret` for real.
    ///
    /// # Errors
    ///
    /// When the proxy cannot listen, a file cannot be written, codex cannot be asked for its models, or the agent cannot
    /// use such a credential.
    pub fn of(agent: Agent, provider: Provider, standin: &StandIn, secret: &Real, prompt: &str) -> Result<Self> {
        let folders = tempfile::Builder::new().prefix("bare-").tempdir().context("make a folder")?;
        let ca = folders.path().join("ca.pem");
        put(&ca, standin.ca_pem().as_bytes(), 0o600)?;
        std::fs::create_dir(folders.path().join("workspace")).context("make a workspace")?;
        let proxy = format!("http://{}", proxy::start(standin.address())?);
        let (env, arguments, prompt) = (Vec::new(), Vec::new(), prompt.to_owned());
        let mut bare = Self { agent, provider, folders: Arc::new(folders), env, arguments, prompt };
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
            bare = bare.env(name, &proxy);
        }
        for name in ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CODEX_CA_CERTIFICATE"] {
            bare = bare.env(name, &ca.display().to_string());
        }
        let seed = seeds::seed(agent, provider, secret, &bare.home())?;
        for (name, bytes) in seed.files {
            put_deep(&bare.home().join(name), &bytes, 0o600)?;
        }
        for (name, value) in seed.variables {
            bare = bare.env(name, &value);
        }
        Ok(bare)
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// An argument of the user's for the agent.
    #[must_use]
    pub fn argument(mut self, text: &str) -> Self {
        self.arguments.push(text.to_owned());
        self
    }

    /// The user's own MCP server, named `lab`.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn mcp(mut self, program: &Path, log: &Path) -> Result<Self> {
        let (program, log) = (program.display().to_string(), log.display().to_string());
        let server = serde_json::json!({"command": program, "args": ["--log", log], "exposure": "direct"});
        let servers = serde_json::json!({"mcpServers": {"lab": server}}).to_string();
        match self.agent {
            Agent::Claude => {
                let file = self.folders.path().join("mcp.json");
                put(&file, servers.as_bytes(), 0o600)?;
                // Else the tool is announced by name only.
                self = self.env("ENABLE_TOOL_SEARCH", "false");
                Ok(self.argument("--strict-mcp-config").argument("--mcp-config").argument(&file.display().to_string()))
            }
            Agent::Codex => {
                let text = |text: &str| serde_json::Value::from(text).to_string();
                let command = format!("mcp_servers.lab.command={}", text(&program));
                let arguments = format!("mcp_servers.lab.args=[\"--log\", {}]", text(&log));
                Ok(self.argument("-c").argument(&command).argument("-c").argument(&arguments))
            }
            Agent::Pi => {
                put(&self.home().join("mcp.json"), servers.as_bytes(), 0o600)?;
                Ok(self)
            }
        }
    }

    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.folders.path().join("workspace")
    }

    /// # Errors
    ///
    /// When the agent is not installed.
    pub fn start(&self) -> Result<Running> {
        Ok(process::start(self.command()?, None)?.holding(&self.folders))
    }

    /// # Errors
    ///
    /// When the agent is not installed, or does not end in time.
    pub fn run(&self, time: Duration) -> Result<Ran> {
        self.start()?.wait(time)
    }

    /// Where the agent keeps its state.
    fn home(&self) -> PathBuf {
        self.folders.path().join(self.agent.as_str())
    }

    fn command(&self) -> Result<Command> {
        let program = Tools::agent(self.agent)?;
        let (first, rest) = program.split_first().context("find the agent's program")?;
        let mut command = Command::new(first);
        command.args(rest).env_clear().current_dir(self.workspace());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.folders.path());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.args(seeds::arguments(self.agent)).args(&self.arguments);
        if self.agent == Agent::Pi {
            command.args(pi_model(self.provider));
        }
        command.args(["--", &self.prompt]);
        Ok(command)
    }
}
