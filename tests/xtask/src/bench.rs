//! `cargo xtask bench`: builds what is measured as it is shipped, fetches the peers, and starts the measuring.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::build::{self, cargo};
use crate::steps::{MINUTE, installed, must, say, show};

#[derive(Args)]
pub(crate) struct Options {
    /// Three short rounds, for a first look.
    #[arg(long)]
    quick: bool,
    /// Five short rounds: all figures in a quarter of an hour.
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// Goes on where an earlier run with this option was broken off.
    #[arg(long)]
    resume: bool,
    #[arg(long)]
    rounds: Option<usize>,
    /// No peers: boxgate and the direct path alone.
    #[arg(long)]
    alone: bool,
    /// Measures to take, all by default: connect, mint, single, sixteen, sixty-four, down, up, events, idle, start, start-old,
    /// many-grants, long-ledger, many-doors.
    measures: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let arguments = ["build", "--release", "--locked", "-p", "gateway", "-p", "bench"];
    must("build the gateway and the bench (some minutes the first time)", &mut cargo(&arguments), 60 * MINUTE)?;
    build::boxd()?;
    let mut command = Command::new(build::target()?.join("release/bench"));
    command.arg("run").current_dir(build::workspace());
    let report = build::target()?.join("bench.json");
    command.arg("--json").arg(&report);
    if options.quick {
        command.arg("--quick");
    }
    if options.short {
        command.arg("--short");
    }
    if options.resume {
        command.arg("--resume").arg(build::target()?.join("bench-taken.json"));
    }
    if let Some(rounds) = options.rounds {
        command.args(["--rounds", &rounds.to_string()]);
    }
    for (peer, fetch) in PEERS {
        if options.alone {
            command.args(["--without", peer]);
            continue;
        }
        match fetch() {
            Ok(program) => _ = command.arg(format!("--{peer}")).arg(program),
            Err(fault) => say(&format!("{peer} is not measured: {fault:#}")),
        }
    }
    command.args(&options.measures);
    let done = show("measure; others on this machine would spoil it", &mut command, 180 * MINUTE)?;
    if done.good {
        say(&format!("every value of every round is in {}", report.display()));
    }
    Ok(if done.good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// nginx of the distribution, unpacked and not installed: an installed one would be started as a service.
fn nginx() -> Result<PathBuf> {
    if installed("nginx") {
        return Ok("nginx".into());
    }
    let folder = folder("nginx")?;
    let program = folder.join("usr/sbin/nginx");
    if !program.is_file() {
        let step = |what: &str, program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(&folder);
            must(what, &mut command, 10 * MINUTE).map(drop)
        };
        step("download nginx", "apt-get", &["download", "-qq", "nginx"])?;
        step("unpack nginx", "sh", &["-c", "dpkg-deb -x nginx_*.deb ."])?;
    }
    if !program.is_file() {
        bail!("the package nginx of this distribution has no usr/sbin/nginx");
    }
    Ok(program)
}

fn hudsucker() -> Result<PathBuf> {
    let folder = folder("hudsucker")?;
    let manifest = build::workspace().join("tests/bench/hudsucker/Cargo.toml");
    let mut command = cargo(&["build", "--release", "--locked", "--manifest-path"]);
    command.arg(manifest).arg("--target-dir").arg(&folder);
    must("build the peer hudsucker (some minutes the first time)", &mut command, 60 * MINUTE)?;
    Ok(folder.join("release/hudsucker-peer"))
}

fn mitmproxy() -> Result<PathBuf> {
    if installed("mitmdump") {
        return Ok("mitmdump".into());
    }
    let folder = folder("mitmproxy")?;
    let program = folder.join("bin/mitmdump");
    if !program.is_file() {
        let mut python = Command::new("python3");
        python.args(["-m", "venv"]).arg(&folder);
        must("make a place for mitmproxy", &mut python, 5 * MINUTE)?;
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "mitmproxy"]);
        must("install mitmproxy", &mut pip, 10 * MINUTE)?;
    }
    Ok(program)
}

fn folder(name: &str) -> Result<PathBuf> {
    let folder = build::target()?.join("bench-peers").join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}

/// A peer, and how it is had.
type Peer = (&'static str, fn() -> Result<PathBuf>);
const PEERS: [Peer; 3] = [("nginx", nginx), ("hudsucker", hudsucker), ("mitmproxy", mitmproxy)];
