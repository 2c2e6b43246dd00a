//! Crash: disks that are full, files that are gone, gateways that die. Nothing goes out unrecorded, nothing is forgotten.

pub(crate) mod disk;
pub(crate) mod verify;
pub(crate) mod kill;
pub(crate) mod restart;
pub(crate) mod state;
pub(crate) mod checkpoint;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use box_spec::{Claim, FromBox, FromHouse, RunToken};
use harness::claim::{self, Answer};
use harness::door::Inside;
use harness::raw::Response;
use harness::{Claimed, House, HouseBuilder, Need, Tunnel};
use serde_json::Value;
use standin::{Options, Real, StandIn};

/// A stand-in, and a house that grants the model there.
pub(crate) fn model() -> Result<(StandIn, HouseBuilder)> {
    let real = Real::ApiKey(KEY.into());
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let house = House::builder().model_at(&standin, real);
    Ok((standin, house))
}

/// A tunnel to the model with this token, inside its TLS.
pub(crate) fn inside(house: &House, id: &str, token: &str) -> Result<Inside> {
    Tunnel::connect(&house.door(id), token, "api.anthropic.com:443")?.tls(&house.ca_pem()?, "api.anthropic.com")
}

/// One request to the model on a tunnel of its own.
pub(crate) fn ask(house: &House, id: &str, token: &str, path: &str) -> Result<Response> {
    inside(house, id, token)?.ask(post(path, "{}").as_bytes())
}

pub(crate) fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: api.anthropic.com\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Takes a run up again, as boxd does: claim with the token, attest, wait for the word to go.
pub(crate) fn take_up(door: &Path, token: &RunToken) -> Result<Claimed> {
    let mut claimed = reattach(door, token)?;
    claimed.say(&FromBox::Attest(claim::attestation()))?;
    let word = claimed.next(std::time::Duration::from_secs(10))?;
    ensure!(matches!(word, FromHouse::Go), "no word to go, but {word:?}");
    Ok(claimed)
}

/// The first half of it.
pub(crate) fn reattach(door: &Path, token: &RunToken) -> Result<Claimed> {
    let asked = Claim { reattach: Some(token.clone()), ..claim::claim() };
    match Claimed::ask(door, &asked)? {
        Answer::Taken(claimed) => Ok(*claimed),
        Answer::Refused { status, body } => anyhow::bail!("the reattach was refused with {status}: {body:?}"),
    }
}

/// The record of an ended run.
pub(crate) fn record(house: &House, run: &str) -> Result<Value> {
    let path = house.state().join("runs").join(format!("{run}.json"));
    let bytes = harness::until("the record of a run", std::time::Duration::from_secs(5), || std::fs::read(&path).ok())?;
    serde_json::from_slice(&bytes).with_context(|| format!("parse {}", path.display()))
}

/// How a door stands.
pub(crate) fn state_of(house: &House, id: &str) -> Result<String> {
    let status = house.status()?;
    let doors = status["boxes"].as_array().context("no boxes")?;
    let found = doors.iter().find(|door| door["box_id"] == id).context("no such box")?;
    Ok(found["state"].as_str().unwrap_or_default().to_owned())
}

/// Whole lines of any ledger; each must be JSON.
pub(crate) fn lines(file: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| format!("parse {line}"))).collect()
}

/// A file system of one mebibyte on this folder. Dropped, it is gone.
pub(crate) struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    pub(crate) fn mount(folder: &'a Path) -> Result<Self> {
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"]).arg(folder).status();
        ensure!(mounted.context("start mount")?.success(), "mount a tmpfs at {}", folder.display());
        Ok(Self(folder))
    }

    /// Leaves no byte free.
    pub(crate) fn fill(&self) -> Result<()> {
        use std::io::Write;
        let mut ballast = std::fs::OpenOptions::new().append(true).create(true).open(self.0.join("ballast"))?;
        for size in [64 * 1024, 4096, 1] {
            while ballast.write_all(&vec![b'x'; size]).is_ok() {}
        }
        Ok(())
    }

    pub(crate) fn free(&self) -> Result<()> {
        std::fs::remove_file(self.0.join("ballast")).context("remove the ballast")
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

pub(crate) const KEY: &str = "sk-ant-api03-REAL-KEY-of-the-crash-55aa";
pub(crate) const GATEWAY: &[Need] = &[Need::Gateway];
pub(crate) const MOUNTS: &[Need] = &[Need::Gateway, Need::Mounts];
