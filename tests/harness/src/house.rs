//! A house under test: its configuration in a folder of its own, its process, what it wrote down.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use box_spec::Provider;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{self, Ran, Running};
use crate::tools::Tools;
use crate::waits::until;

mod builder;

pub use builder::HouseBuilder;

/// A running house. Dropped, it is killed and its folder removed.
pub struct House {
    folder: TempDir,
    boxes: Vec<String>,
    running: Option<Running>,
    env: Vec<(String, String)>,
    user: Option<u32>,
    /// What earlier processes of this house said.
    said: String,
}

impl House {
    #[must_use]
    pub fn builder() -> HouseBuilder {
        HouseBuilder::default()
    }

    /// Starts the gateway and waits until its doors answer.
    ///
    /// # Errors
    ///
    /// When it does not get ready; tells what the gateway said.
    pub fn start(&mut self) -> Result<()> {
        let mut running = process::start(self.command(&["serve"])?, None)?;
        for id in self.boxes.clone() {
            let door = self.door(&id);
            let ready = until("the door to answer", READY, || {
                if running.has_ended() { Some(false) } else { healthz(&door).ok().map(|_| true) }
            });
            if !matches!(ready, Ok(true)) {
                // One that ended has said all that it had to say only when its pipes are read to the end.
                let said = if running.has_ended() { running.wait(END)?.stderr } else { running.stderr() };
                bail!("the gateway did not get ready at box {id}: {said}");
            }
        }
        self.running = Some(running);
        Ok(())
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder().join("house.toml")
    }

    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.folder().join("state")
    }

    #[must_use]
    pub fn door(&self, id: &str) -> PathBuf {
        self.folder().join(id).join("door.sock")
    }

    /// The file with Anthropic's real credential.
    #[must_use]
    pub fn secret(&self) -> PathBuf {
        self.secret_of(Provider::Anthropic)
    }

    /// The file with a provider's real credential.
    #[must_use]
    pub fn secret_of(&self, provider: Provider) -> PathBuf {
        self.folder().join(builder::secret_file(provider))
    }

    /// The certificate that boxes trust.
    ///
    /// # Errors
    ///
    /// When the house made none yet.
    pub fn ca_pem(&self) -> Result<String> {
        std::fs::read_to_string(self.state().join("ca/ca.pem")).context("read the house's certificate")
    }

    /// What `GET /healthz` says at a door.
    ///
    /// # Errors
    ///
    /// When the door does not answer.
    pub fn identity(&self, id: &str) -> Result<box_spec::wire::Identity> {
        healthz(&self.door(id))
    }

    /// The ledger's lines.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or a line is no JSON.
    pub fn ledger(&self) -> Result<Vec<Value>> {
        let bytes = std::fs::read(self.ledger_file()).context("read the ledger")?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                serde_json::from_slice(line).with_context(|| format!("parse {}", String::from_utf8_lossy(line)))
            })
            .collect()
    }

    #[must_use]
    pub fn ledger_file(&self) -> PathBuf {
        self.state().join("ledger.jsonl")
    }

    /// Waits for a line of the ledger.
    ///
    /// # Errors
    ///
    /// When none fits in time; tells the whole ledger.
    pub fn wait_line(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = until(what, Duration::from_secs(5), || self.ledger().ok()?.into_iter().find(&fits));
        found
            .with_context(|| format!("the ledger: {}", std::fs::read_to_string(self.ledger_file()).unwrap_or_default()))
    }

    /// Runs another command of the gateway on this house.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not end.
    pub fn gateway(&self, arguments: &[&str]) -> Result<Ran> {
        process::run(self.command(arguments)?, None, Duration::from_secs(10))
    }

    /// Starts a command of the gateway on this house that a person talks to.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn talk(&self, arguments: &[&str]) -> Result<(Running, ChildStdin)> {
        process::start_talking(self.command(arguments)?)
    }

    /// # Errors
    ///
    /// When the operator socket does not answer, or not in JSON.
    pub fn status(&self) -> Result<Value> {
        let ran = self.gateway(&["status", "--json"])?.expect_code(0)?;
        serde_json::from_slice(&ran.stdout).context("parse the status")
    }

    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.running.as_ref().map(Running::pid)
    }

    /// Everything that the gateway said on its standard error, in all its lives.
    #[must_use]
    pub fn said(&self) -> String {
        let now = self.running.as_ref().map(Running::stderr).unwrap_or_default();
        format!("{}{now}", self.said)
    }

    /// `kill -9`.
    ///
    /// # Errors
    ///
    /// When it was not running.
    pub fn kill(&mut self) -> Result<Ran> {
        self.end(Signal::SIGKILL)
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    ///
    /// When it was not running or does not end.
    pub fn term(&mut self) -> Result<Ran> {
        self.end(Signal::SIGTERM)
    }

    fn end(&mut self, signal: Signal) -> Result<Ran> {
        let running = self.running.take().context("the gateway is not running")?;
        running.signal(signal)?;
        let ran = running.wait(END)?;
        self.said.push_str(&ran.stderr);
        Ok(ran)
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(Tools::gateway()?);
        command.args(arguments).arg("--config").arg(self.config()).env_clear().current_dir(self.folder());
        command.envs(self.env.iter().map(|(name, value)| (name, value))).env("PATH", "/usr/bin:/bin");
        if let Some(uid) = self.user {
            command.uid(uid).gid(uid);
        }
        Ok(command)
    }
}

fn healthz(door: &Path) -> Result<box_spec::wire::Identity> {
    let mut stream = UnixStream::connect(door).context("connect the door")?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).context("set a deadline")?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: door\r\nConnection: close\r\n\r\n").context("ask the door")?;
    let mut answer = String::new();
    stream.take(64 * 1024).read_to_string(&mut answer).context("read the door's answer")?;
    let (_, body) = answer.split_once("\r\n\r\n").context("split the door's answer")?;
    let (from, to) = (body.find('{').context("find the identity")?, body.rfind('}').context("find the identity")?);
    serde_json::from_str(&body[from..=to]).context("parse the identity")
}

const READY: Duration = Duration::from_secs(20);
/// From the start of the process; long enough for any test and its drain.
const END: Duration = Duration::from_secs(900);
