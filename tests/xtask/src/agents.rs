//! `cargo xtask agents`: `--slow` tells what an agent makes of faults and refusals with all its own retries, as a table;
//! `--matrix` measures the matrix of `docs/agents.md` anew; `--latest` tells what has changed in the newest versions.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};
use clap::Args;

use crate::build;
use crate::latest;
use crate::matrix;
use crate::steps::{MINUTE, show};

#[derive(Args)]
pub(crate) struct Options {
    /// Take the minutes that it needs; the short comparisons are part of `cargo xtask test`.
    #[arg(long)]
    slow: bool,
    /// Install the newest published versions beside the pinned ones, run the cases that need an agent with them, and tell
    /// what drifted.
    #[arg(long, conflicts_with = "slow")]
    latest: bool,
    /// Play the matrix and put what was measured into `docs/agents.md`.
    #[arg(long, conflicts_with_all = ["slow", "latest"])]
    matrix: bool,
}

#[expect(clippy::print_stdout, reason = "the table is this task's output")]
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.latest {
        return latest::run();
    }
    if !options.slow && !options.matrix {
        bail!("say --slow, --matrix or --latest: each lasts minutes (the matrix is part of `cargo xtask test` too)");
    }
    build::agents()?;
    build::programs()?;
    build::boxd()?;
    if options.matrix {
        return matrix::run();
    }
    let mut command = Command::new(build::target()?.join("debug/it"));
    // The runs wait nearly all of their time, so all go side by side.
    command.args(["slow::", "--test-threads", "16"]).current_dir(build::workspace());
    let done = show("full-length runs, bare and in the box", &mut command, 30 * MINUTE)?;
    println!("\n| agent | event | bare | boxed |\n| --- | --- | --- | --- |");
    for row in done.output.lines().filter(|line| line.starts_with("| ")) {
        println!("{row}");
    }
    Ok(if done.good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
