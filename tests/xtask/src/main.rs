//! Tasks of the workshop: `cargo xtask demo` shows governed runs, `cargo xtask test` runs every check,
//! `cargo xtask fuzz` feeds what reads the words of others with any bytes; `cargo xtask agents` measures how the agents end, and
//! what their newest versions changed; `cargo xtask bench` measures what boxgate costs.
//!
//! It uses none of the workspace's crates, so that it is built in seconds and can show progress while they are.

mod demo;
mod test;
mod fuzz;
mod agents;
mod latest;
mod matrix;
mod bench;
mod house;
mod provider;
mod build;
mod steps;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the workshop")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// A governed run of each agent: builds, starts a house with boxes, prints the answers and the ledger's stories.
    Demo(demo::Options),
    /// Every check: format, lints, unit tests, documentation tests, integration tests.
    Test(test::Options),
    /// What reads the words of others, fed with any bytes: a minute for each target.
    Fuzz(fuzz::Options),
    /// How the agents end, bare and in the box, and what drifted in their newest versions: for `docs/agents.md`.
    Agents(agents::Options),
    /// What boxgate costs, beside its peers: for `docs/performance.md`.
    Bench(bench::Options),
}

#[expect(clippy::print_stderr, reason = "the one place where a fault is told")]
fn main() -> ExitCode {
    let done: Result<ExitCode> = match Arguments::parse().task {
        Task::Demo(options) => demo::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Agents(options) => agents::run(&options),
        Task::Bench(options) => bench::run(&options),
    };
    done.unwrap_or_else(|fault| {
        eprintln!("error: {fault:#}");
        ExitCode::FAILURE
    })
}
