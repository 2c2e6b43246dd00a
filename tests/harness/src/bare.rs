//! The same claude without boxgate, with the real credential, for comparison: a plain CONNECT proxy leads it to the stand-in.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use standin::{Real, StandIn};
use tempfile::TempDir;

use crate::files::{put, put_deep};
use crate::process::{self, Ran};
use crate::tools::Tools;

/// A bare claude, once.
pub struct Bare {
    folders: TempDir,
    env: Vec<(String, String)>,
    prompt: String,
}

impl Bare {
    /// Leads claude to the stand-in, which must take `secret` for real.
    ///
    /// # Errors
    ///
    /// When the proxy cannot listen, or a file cannot be written.
    pub fn new(standin: &StandIn, secret: &Real, prompt: &str) -> Result<Self> {
        let folders = tempfile::Builder::new().prefix("bare-").tempdir().context("make a folder")?;
        let ca = folders.path().join("ca.pem");
        put(&ca, standin.ca_pem().as_bytes(), 0o600)?;
        std::fs::create_dir(folders.path().join("workspace")).context("make a workspace")?;
        let proxy = format!("http://{}", proxy(standin.address())?);
        let mut bare = Self { folders, env: Vec::new(), prompt: prompt.to_owned() };
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
            bare = bare.env(name, &proxy);
        }
        bare = bare.env("NODE_EXTRA_CA_CERTS", &ca.display().to_string());
        match secret {
            Real::ApiKey(key) => Ok(bare.env("ANTHROPIC_API_KEY", key)),
            Real::Bearer(token) | Real::Login { token, account: _ } => {
                let login = serde_json::json!({"claudeAiOauth": {"accessToken": token, "scopes": ["user:inference"], "subscriptionType": "max"}});
                put_deep(&bare.folders.path().join("config/.credentials.json"), login.to_string().as_bytes(), 0o600)?;
                Ok(bare)
            }
        }
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn workspace(&self) -> std::path::PathBuf {
        self.folders.path().join("workspace")
    }

    /// # Errors
    ///
    /// When claude is not installed, or does not end in time.
    pub fn run(&self, time: Duration) -> Result<Ran> {
        process::run(self.command(&Tools::claude()?), None, time)
    }

    fn command(&self, claude: &Path) -> Command {
        let mut command = Command::new(claude);
        command.env_clear().current_dir(self.workspace());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.folders.path());
        command.env("CLAUDE_CONFIG_DIR", self.folders.path().join("config")).env("IS_SANDBOX", "1");
        for knob in [
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "DISABLE_TELEMETRY",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_AUTOUPDATER",
        ] {
            command.env(knob, "1");
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.args([
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--dangerously-skip-permissions",
            "--",
            &self.prompt,
        ]);
        command
    }
}

/// A CONNECT proxy that leads every target to one address. It lives as long as the test program.
fn proxy(to: SocketAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for the bare claude")?;
    let address = listener.local_addr().context("read the proxy's address")?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || lead(stream, to));
        }
    });
    Ok(address)
}

fn lead(mut client: TcpStream, to: SocketAddr) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < 64 * 1024 {
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    if !head.starts_with(b"CONNECT ") {
        return client
            .write_all(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .ok();
    }
    let mut server = connect(to)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
    let (mut up_from, mut up_to) = (client.try_clone().ok()?, server.try_clone().ok()?);
    std::thread::spawn(move || {
        let _broken_is_the_end = std::io::copy(&mut up_from, &mut up_to);
        let _gone = up_to.shutdown(Shutdown::Write);
    });
    let _broken_is_the_end = std::io::copy(&mut server, &mut client);
    client.shutdown(Shutdown::Both).ok()
}

#[expect(clippy::disallowed_methods, reason = "a test's own connection on loopback")]
fn connect(to: SocketAddr) -> Option<TcpStream> {
    TcpStream::connect(to).ok()
}
