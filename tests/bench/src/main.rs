//! `bench`: what boxgate costs beside its peers, all on one machine, in rounds that interleave. `cargo xtask bench` builds
//! and fetches what it needs, and starts it.

mod subject;
mod measure;
mod load;
mod flat;
mod cost;
mod figure;
mod rounds;
mod report;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use bench::ground::Ground;
use clap::{Parser, Subcommand, ValueEnum};
use tokio::runtime::Runtime;

use measure::{Measure, Size};
use rounds::Plan;
use subject::{Programs, Subject};

#[derive(Parser)]
#[command(name = "bench", about = "What boxgate costs, beside its peers")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Takes the measures and tells what was found.
    Run(Options),
    /// The origin, a process of its own: tells its address and serves until its standard input ends.
    Origin { folder: PathBuf },
}

#[derive(clap::Args)]
struct Options {
    /// Three short rounds, for a first look.
    #[arg(long)]
    quick: bool,
    /// Five short rounds: all figures in a quarter of an hour.
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// Goes on where an earlier one was broken off, as this file has it; it is written after each measure.
    #[arg(long)]
    resume: Option<PathBuf>,
    #[arg(long)]
    rounds: Option<usize>,
    /// Subjects to leave out.
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<Subject>,
    /// Where everything that was found is written.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    programs: Programs,
    /// Measures to take; all by default.
    #[arg(value_enum)]
    measures: Vec<Measure>,
}

#[expect(clippy::print_stderr, reason = "the one place where a fault is told")]
fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Run(options) => run(&options),
        Task::Origin { folder } => origin(&folder),
    };
    done.map_or_else(
        |fault| {
            eprintln!("error: {fault:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

#[expect(clippy::print_stdout, reason = "the table is this program's output")]
#[expect(clippy::disallowed_methods, reason = "a report for people, where they asked for it")]
fn run(options: &Options) -> Result<()> {
    let folder = Ground::folder()?;
    let (mut process, address) = start_origin(folder.path())?;
    let ground = Ground::new(folder, address);
    let runtime = Runtime::new().context("start the client")?;
    let measures = if options.measures.is_empty() { Measure::value_variants() } else { &options.measures };
    let subjects = Subject::value_variants().iter().copied().filter(|subject| !options.without.contains(subject));
    let plan = Plan {
        measures: measures.to_vec(),
        subjects: subjects.collect(),
        rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 5 }),
        size: if options.quick {
            QUICK
        } else if options.short {
            SHORT
        } else {
            WHOLE
        },
        kept: options.resume.clone(),
        ground: &ground,
        runtime: &runtime,
    };
    let taken = rounds::take(&plan, &options.programs)?;
    drop(process.stdin.take());
    process.wait().context("wait for the origin")?;
    println!("{}", report::table(&plan, &taken));
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report::json(&plan, &taken)).context("write the report")?;
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    // It was taken whole: the next begins anew.
    if let Some(path) = options.resume.as_ref().filter(|path| path.exists()) {
        std::fs::remove_file(path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

fn start_origin(folder: &Path) -> Result<(Child, SocketAddr)> {
    let me = std::env::current_exe().context("find this program")?;
    let mut command = Command::new(me);
    command.arg("origin").arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().context("start the origin")?;
    let output = process.stdout.take().context("read the origin's address")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("read the origin's address")?;
    let address = line.trim().parse().context("read the origin's address")?;
    Ok((process, address))
}

#[expect(clippy::print_stdout, reason = "who started it reads the address")]
fn origin(folder: &Path) -> Result<()> {
    let runtime = Runtime::new().context("start the origin")?;
    let address = runtime.block_on(bench::origin::start(folder))?;
    println!("{address}");
    let mut rest = String::new();
    std::io::stdin().read_line(&mut rest).context("wait for the end")?;
    Ok(())
}

const WHOLE: Size = Size {
    time: Duration::from_secs(2),
    hosts: 300,
    streams: 1000,
    events: 8,
    idle: 5000,
    ledger: 1 << 30,
    history: 64 << 20,
};
const SHORT: Size = Size { time: Duration::from_millis(800), hosts: 150, events: 4, history: 16 << 20, ..WHOLE };
const QUICK: Size = Size { time: Duration::from_millis(700), hosts: 100, ..SHORT };
