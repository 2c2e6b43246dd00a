//! `cargo xtask agents`: `--slow` tells what an agent makes of faults and refusals with all its own retries, as a table;
//! `--latest` what has changed in the newest versions.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};
use clap::Args;

use crate::build;
use crate::latest;
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
}

#[expect(clippy::print_stdout, reason = "the table is this task's output")]
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.latest {
        return latest::run();
    }
    if !options.slow {
        bail!("say --slow or --latest: both last minutes (the short comparisons are part of `cargo xtask test`)");
    }
    build::agents()?;
    build::programs()?;
    build::boxd()?;
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
