//! The house of the demo: a folder with its configuration, the stand-in and the gateway as processes.

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

/// A running house with one box, `demo`. Dropped, its processes are ended and its folder removed.
pub(crate) struct House {
    folder: TempDir,
    children: Vec<Child>,
}

/// Where the model is.
pub(crate) enum Model {
    /// The stand-in, with a made-up credential.
    StandIn,
    /// The provider itself, with the key in this variable of the environment.
    Real(String),
}

impl House {
    pub(crate) fn start(model: &Model) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("boxgate-demo-").tempdir().context("make a folder")?;
        let mut house = Self { folder, children: Vec::new() };
        for name in ["door", "workspace", "session"] {
            std::fs::create_dir(house.path(name)).context("make a folder")?;
        }
        let secret_and_grant = match model {
            Model::StandIn => house.stand_in()?,
            Model::Real(variable) => real(variable)?,
        };
        let text = format!(
            "state = \"state\"\n\n[defaults]\nagent = \"claude\"\nceiling = \"10m\"\n\n[[box]]\nid = \"demo\"\ndoor = \"{}\"\n\n{secret_and_grant}",
            house.door().display()
        );
        put(&house.config(), &text)?;
        house.gateway()?;
        Ok(house)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("house.toml")
    }

    pub(crate) fn door(&self) -> PathBuf {
        self.path("door/door.sock")
    }

    fn stand_in(&mut self) -> Result<String> {
        let mut command = Command::new(build::target()?.join("debug/standin"));
        command.args(["--key", REAL]).arg("--ca-out").arg(self.path("standin-ca.pem"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start the stand-in")?;
        let output = child.stdout.take().context("read the stand-in's address")?;
        self.children.push(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("read the stand-in's address")?;
        let address: SocketAddr = line.trim().parse().context("read the stand-in's address")?;
        put(&self.path("secret"), REAL)?;
        Ok(format!(
            "[[secret]]\nname = \"anthropic\"\nprovider = \"anthropic\"\nkind = \"login\"\nfile = \"secret\"\n\n\
             [[grant]]\nname = \"model\"\npreset = \"anthropic\"\nsecret = \"anthropic\"\nunsafe_dial = \"{address}\"\nupstream_ca = \"standin-ca.pem\"\n"
        ))
    }

    fn gateway(&mut self) -> Result<()> {
        let log = self.path("gateway.log");
        put(&log, "")?;
        let into = std::fs::OpenOptions::new().append(true).open(&log).context("open the gateway's log")?;
        let mut command = Command::new(build::target()?.join("debug/gateway"));
        command.args(["serve", "--config"]).arg(self.config()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(into);
        self.children.push(command.spawn().context("start the gateway")?);
        let end = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(self.door()).is_err() {
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

fn real(variable: &str) -> Result<String> {
    let key = std::env::var(variable).with_context(|| format!("read {variable} from the environment"))?;
    let kind = if key.starts_with("sk-ant-oat") { "login" } else { "api-key" };
    Ok(format!(
        "[[secret]]\nname = \"anthropic\"\nprovider = \"anthropic\"\nkind = \"{kind}\"\nenv = \"{variable}\"\n\n\
         [[grant]]\nname = \"model\"\npreset = \"anthropic\"\nsecret = \"anthropic\"\n"
    ))
}

#[expect(clippy::disallowed_methods, reason = "files of the demo, in a folder of its own")]
fn put(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).context("close a file to others")
}

/// What the stand-in takes for a real login. It must not be found in the box.
pub(crate) const REAL: &str = "sk-ant-oat01-the-real-one-that-never-enters-the-box";
