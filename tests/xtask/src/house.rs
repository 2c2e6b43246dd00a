//! The house of the demo: a folder with its configuration, the stand-in and the gateway as processes.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::build;
use crate::provider::Provider;

/// A running house with a box for each agent. Dropped, its processes are ended and its folder removed.
pub(crate) struct House {
    folder: TempDir,
    children: Vec<Child>,
}

/// Where the models are.
pub(crate) enum Model {
    /// The stand-in plays all providers, each with a made-up credential.
    StandIn,
    /// The provider itself, with the credential in this variable of the environment.
    Real { provider: Provider, variable: String },
}

impl House {
    pub(crate) fn start(model: &Model, agents: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("boxgate-demo-").tempdir().context("make a folder")?;
        let mut house = Self { folder, children: Vec::new() };
        let mut text = "state = \"state\"\n\n[defaults]\nceiling = \"10m\"\n".to_owned();
        for agent in agents {
            for name in ["door", "workspace", "session"] {
                std::fs::create_dir_all(house.path(agent).join(name)).context("make a folder")?;
            }
            let door = house.door(agent);
            let _infallible =
                write!(text, "\n[[box]]\nid = \"{agent}\"\nagent = \"{agent}\"\ndoor = \"{}\"\n", door.display());
        }
        match model {
            Model::StandIn => text.push_str(&house.stand_in()?),
            Model::Real { provider, variable } => text.push_str(&real(*provider, variable)?),
        }
        put(&house.config(), &text)?;
        house.gateway(agents)?;
        Ok(house)
    }

    /// A file of the house, or the folder of an agent's box.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("house.toml")
    }

    pub(crate) fn door(&self, agent: &str) -> PathBuf {
        self.path(agent).join("door/door.sock")
    }

    /// Starts the stand-in; gives back the secrets and grants that lead to it.
    fn stand_in(&mut self) -> Result<String> {
        let mut command = Command::new(build::target()?.join("debug/standin"));
        command.arg("--ca-out").arg(self.path("standin-ca.pem"));
        for provider in Provider::ALL {
            command.args(["--key", &provider.made_up()]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start the stand-in")?;
        let output = child.stdout.take().context("read the stand-in's address")?;
        self.children.push(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("read the stand-in's address")?;
        let address: SocketAddr = line.trim().parse().context("read the stand-in's address")?;
        let mut text = String::new();
        for provider in Provider::ALL {
            let name = provider.name();
            put(&self.path(name), provider.secret())?;
            let source = format!("file = \"{name}\"");
            let there = format!("unsafe_dial = \"{address}\"\nupstream_ca = \"standin-ca.pem\"\n");
            text.push_str(&secret_and_grant(provider, provider.kind(), &source, provider.account_line(), &there));
        }
        Ok(text)
    }

    fn gateway(&mut self, agents: &[&str]) -> Result<()> {
        let log = self.path("gateway.log");
        put(&log, "")?;
        let into = std::fs::OpenOptions::new().append(true).open(&log).context("open the gateway's log")?;
        let mut command = Command::new(build::target()?.join("debug/gateway"));
        command.args(["serve", "--config"]).arg(self.config()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(into);
        self.children.push(command.spawn().context("start the gateway")?);
        let end = Instant::now() + Duration::from_secs(20);
        while !agents.iter().all(|agent| UnixStream::connect(self.door(agent)).is_ok()) {
            let ended = self.children.last_mut().is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))));
            if ended || Instant::now() > end {
                bail!("the gateway did not get ready: {}", std::fs::read_to_string(&log).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for House {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

fn real(provider: Provider, variable: &str) -> Result<String> {
    let value = std::env::var(variable).with_context(|| format!("read {variable} from the environment"))?;
    let kind = provider.kind_of(&value);
    Ok(secret_and_grant(provider, kind, &format!("env = \"{variable}\""), "", ""))
}

/// The tables of one provider; `account` and `there` are further lines of its secret and of its grant.
fn secret_and_grant(provider: Provider, kind: &str, source: &str, account: &str, there: &str) -> String {
    let name = provider.name();
    format!(
        "\n[[secret]]\nname = \"{name}\"\nprovider = \"{name}\"\nkind = \"{kind}\"\n{source}\n{account}\
         \n[[grant]]\nname = \"model-{name}\"\npreset = \"{name}\"\nsecret = \"{name}\"\n{there}"
    )
}

#[expect(clippy::disallowed_methods, reason = "files of the demo, in a folder of its own")]
fn put(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).context("close a file to others")
}
