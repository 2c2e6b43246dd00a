//! What has to be there before a run: the programs of the workspace, the static boxd, the pinned agents.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{MINUTE, installed, must, say, show};

/// The top folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Where cargo builds to.
pub(crate) fn target() -> Result<PathBuf> {
    let me = std::env::current_exe().context("find this program")?;
    Ok(me.ancestors().nth(2).context("find the target folder")?.to_path_buf())
}

/// A cargo command in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace());
    command
}

/// Builds all crates in the development profile, where dependencies are optimised.
pub(crate) fn programs() -> Result<()> {
    must(
        "build the workspace (some minutes the first time)",
        &mut cargo(&["build", "--workspace", "--locked"]),
        30 * MINUTE,
    )?;
    Ok(())
}

/// Builds the gateway as it is shipped.
pub(crate) fn shipped_gateway() -> Result<PathBuf> {
    let arguments = ["build", "--release", "--locked", "-p", "gateway"];
    must("build the gateway optimised (some minutes the first time)", &mut cargo(&arguments), 60 * MINUTE)?;
    Ok(target()?.join("release/gateway"))
}

/// Builds boxd as the one static file that a box gets.
pub(crate) fn boxd() -> Result<PathBuf> {
    let arguments = [
        "rustc",
        "--locked",
        "--profile",
        "boxd",
        "-p",
        "boxd",
        "--bin",
        "boxd",
        "--",
        "-C",
        "target-feature=+crt-static",
    ];
    must("build the static boxd (a minute or two the first time)", &mut cargo(&arguments), 30 * MINUTE)?;
    Ok(target()?.join("boxd/boxd"))
}

/// Installs the pinned agents, unless what is there is of this lockfile.
pub(crate) fn agents() -> Result<()> {
    let folder = workspace().join("box");
    let (lock, mark) = (folder.join("package-lock.json"), folder.join("node_modules/.boxgate-lock.json"));
    let there = folder.join("node_modules/.package-lock.json");
    let is_of_lock = if mark.exists() { is_same(&lock, &mark) } else { is_newer(&there, &lock) };
    if is_of_lock {
        say("the pinned agents are installed");
    } else {
        install(&folder)?;
    }
    // A checkout changes the lockfile's time but not what it says; npm would throw away all that is there first.
    std::fs::copy(&lock, &mark).map(drop).with_context(|| format!("write {}", mark.display()))
}

fn install(folder: &Path) -> Result<()> {
    if !installed("npm") {
        bail!("npm is not installed: install Node.js with npm (on Debian: apt-get install npm)");
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error"]).current_dir(folder);
    let what = "install the pinned agents (npm ci in box/: about 450 MB to fetch, 1.2 GB on the disk)";
    if !show(what, &mut npm, 15 * MINUTE)?.good {
        bail!("the pinned agents could not be installed; npm has said why. It needs a network, this once");
    }
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((std::fs::read(one), std::fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

fn is_newer(one: &Path, other: &Path) -> bool {
    let written = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified());
    matches!((written(one), written(other)), (Ok(one), Ok(other)) if one >= other)
}
