//! A box under test: boxd with an agent, at a door, with folders of its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::house::House;
use crate::process::{self, Ran, Running};
use crate::tools::Tools;

/// One launch of boxd.
///
/// # Defaults
///
/// Not isolated (and so with the network of the machine, which boxd is told to accept), the pinned claude, native output,
/// fresh folders for session, workspace and home.
#[derive(Clone)]
pub struct BoxRun {
    folders: Arc<TempDir>,
    door: PathBuf,
    prompt: Option<String>,
    prompt_file: Option<PathBuf>,
    agent: String,
    output: String,
    isolated: bool,
    agents: PathBuf,
    more_agents: Vec<PathBuf>,
    session: PathBuf,
    workspace: PathBuf,
    options: Vec<OsString>,
    arguments: Vec<OsString>,
    env: Vec<(String, String)>,
    input: Option<Vec<u8>>,
    user: Option<u32>,
}

impl BoxRun {
    /// # Errors
    ///
    /// When its folders cannot be made.
    pub fn new(house: &House, id: &str) -> Result<Self> {
        Self::at_door(house.door(id))
    }

    /// At any door, there or not.
    ///
    /// # Errors
    ///
    /// When its folders cannot be made.
    pub fn at_door(door: PathBuf) -> Result<Self> {
        let folders = tempfile::Builder::new().prefix("box-").tempdir().context("make the box's folders")?;
        let inside = |name: &str| {
            let path = folders.path().join(name);
            std::fs::create_dir(&path).context("make the box's folders").map(|()| path)
        };
        let (session, workspace, _home) = (inside("session")?, inside("workspace")?, inside("home")?);
        Ok(Self {
            door,
            prompt: None,
            prompt_file: None,
            agent: "claude".into(),
            output: "native".into(),
            isolated: false,
            agents: Tools::agents(),
            more_agents: Vec::new(),
            session,
            workspace,
            options: Vec::new(),
            arguments: Vec::new(),
            env: Vec::new(),
            input: None,
            user: None,
            folders: Arc::new(folders),
        })
    }

    #[must_use]
    pub fn prompt(mut self, text: &str) -> Self {
        self.prompt = Some(text.to_owned());
        self
    }

    /// For prompts that no argument can hold.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn long_prompt(mut self, text: &str) -> Result<Self> {
        let file = self.folders.path().join("prompt");
        crate::files::put(&file, text.as_bytes(), 0o644)?;
        self.prompt_file = Some(file);
        Ok(self)
    }

    /// With `--isolate`.
    #[must_use]
    pub fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    #[must_use]
    pub fn agent(mut self, name: &str) -> Self {
        name.clone_into(&mut self.agent);
        self
    }

    /// The folder that holds the agents' `node_modules`.
    #[must_use]
    pub fn agents(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.agents);
        self
    }

    /// A second such folder, which an isolated box sees at [`SECOND`].
    #[must_use]
    pub fn more_agents(mut self, folder: &Path) -> Self {
        self.more_agents.push(folder.to_owned());
        self
    }

    /// `native` or `text`.
    #[must_use]
    pub fn output(mut self, form: &str) -> Self {
        form.clone_into(&mut self.output);
        self
    }

    #[must_use]
    pub fn session(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.session);
        self
    }

    #[must_use]
    pub fn workspace(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.workspace);
        self
    }

    /// One more option of `boxd run`.
    #[must_use]
    pub fn option(mut self, text: impl Into<OsString>) -> Self {
        self.options.push(text.into());
        self
    }

    /// An argument for the agent, after `--`.
    #[must_use]
    pub fn argument(mut self, text: impl Into<OsString>) -> Self {
        self.arguments.push(text.into());
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What stands on boxd's standard input; without it there is nothing.
    #[must_use]
    pub fn input(mut self, bytes: &[u8]) -> Self {
        self.input = Some(bytes.to_vec());
        self
    }

    /// As this ordinary user, who then owns the folders; boxd is copied to where he can run it.
    ///
    /// # Errors
    ///
    /// When a folder cannot be given to him.
    pub fn as_user(mut self, uid: u32) -> Result<Self> {
        std::fs::copy(Tools::boxd()?, self.folders.path().join("boxd")).context("copy boxd")?;
        crate::files::give(self.folders.path(), uid)?;
        self.user = Some(uid);
        Ok(self)
    }

    /// A socket that leads to the door in another way.
    #[must_use]
    pub fn door(mut self, socket: &Path) -> Self {
        socket.clone_into(&mut self.door);
        self
    }

    #[must_use]
    pub fn door_socket(&self) -> &Path {
        &self.door
    }

    #[must_use]
    pub fn session_folder(&self) -> &Path {
        &self.session
    }

    #[must_use]
    pub fn workspace_folder(&self) -> &Path {
        &self.workspace
    }

    /// The caller's home, which an isolated box cannot see.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folders.path().join("home")
    }

    /// # Errors
    ///
    /// When boxd cannot be started.
    pub fn start(&self) -> Result<Running> {
        Ok(process::start(self.command()?, self.input.clone())?.holding(&self.folders))
    }

    /// # Errors
    ///
    /// When boxd cannot be started, or does not end in time.
    pub fn run(&self, time: Duration) -> Result<Ran> {
        self.start()?.wait(time)
    }

    /// The command as it will be started.
    ///
    /// # Errors
    ///
    /// When boxd was not built.
    pub fn command(&self) -> Result<Command> {
        let mut command = match self.user {
            None => Command::new(Tools::boxd()?),
            Some(_) => Command::new(self.folders.path().join("boxd")),
        };
        if let Some(uid) = self.user {
            command.uid(uid).gid(uid);
        }
        command.env_clear().current_dir(&self.workspace);
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8");
        if self.isolated {
            command.arg("--isolate").arg("--session").arg(&self.session).arg("--workspace").arg(&self.workspace);
            for folder in [&self.agents].into_iter().chain(&self.more_agents) {
                command.arg("--agent-dir").arg(folder);
            }
            command.arg("run");
        } else {
            command.args(["run", "--unsafe-open-network"]).arg("--session").arg(&self.session);
            command.env("BOXGATE_AGENT_PATH", self.agents.join("node_modules/.bin"));
        }
        command.arg("--door").arg(&self.door);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.args(["--agent", &self.agent, "--output", &self.output]).args(&self.options);
        if let Some(file) = &self.prompt_file {
            command.arg("--prompt-file").arg(file);
        }
        if let Some(prompt) = &self.prompt {
            command.arg(prompt);
        }
        if !self.arguments.is_empty() {
            command.arg("--").args(&self.arguments);
        }
        Ok(command)
    }
}

/// Where an isolated box sees the second folder of agents.
pub const SECOND: &str = "/opt/boxgate/agents-2";
