//! `gateway ledger`: show the last lines, tell a run's story, or verify the chain. Reads the file; no gateway need run.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use box_spec::RunId;

use crate::ledger::Receipt;
use crate::ledger::story::{Story, is_of_run, short};
use crate::ledger::tail::{Tail, TailFault};
use crate::ledger::verify::verify;

use super::Exit;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Show the last lines, one short line each
    Tail(TailArguments),
    /// Check the chain, and the receipts that were kept elsewhere
    Verify(VerifyArguments),
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct Place {
    /// The gateway's configuration, which names the ledger
    #[arg(long)]
    config: Option<PathBuf>,
    /// The ledger itself
    #[arg(long)]
    file: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct TailArguments {
    #[command(flatten)]
    place: Place,
    /// Only lines of this run
    #[arg(long)]
    run: Option<RunId>,
    /// The lines as they stand in the ledger
    #[arg(long, conflicts_with = "story")]
    json: bool,
    /// Each opening together with its closing
    #[arg(long, conflicts_with_all = ["follow", "last"])]
    story: bool,
    /// How many lines [default: 20, or all of a run]
    #[arg(short = 'n', value_name = "N")]
    last: Option<usize>,
    /// Go on as lines are written
    #[arg(long, short = 'f')]
    follow: bool,
}

#[derive(clap::Args, Debug)]
struct VerifyArguments {
    #[command(flatten)]
    place: Place,
    /// A receipt or a report's sequence and hash; may be repeated
    #[arg(long = "receipt", value_name = "SEQ:HASH")]
    receipts: Vec<Receipt>,
}

/// What ends a command early.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{0}")]
    Config(String),
    #[error("open ledger {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("read the ledger: {0}")]
    Read(#[source] io::Error),
    #[error("the ledger became shorter while it was followed: its tail was cut off")]
    Cut,
    #[error("write the output: {0}")]
    Output(#[source] io::Error),
}

/// Runs the command, prints what it finds, and says how it ended.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let ended = match &arguments.command {
        Command::Tail(arguments) => tail(arguments, &mut out),
        Command::Verify(arguments) => verified(arguments, &mut out),
    };
    match ended.and_then(|exit| out.flush().map_err(Fault::Output).map(|()| exit)) {
        Ok(exit) => exit,
        Err(Fault::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(fault) => {
            // Where even this cannot be said, the exit code still can.
            let _ = writeln!(io::stderr(), "gateway: {fault}");
            fault.exit()
        }
    }
}

fn tail(arguments: &TailArguments, out: &mut impl Write) -> Result<Exit, Fault> {
    let TailArguments { place, run, json, story, last, follow } = arguments;
    let mut tail = Tail::open(&place.file()?)?;
    let wanted = |line: &[u8]| run.as_ref().is_none_or(|run| is_of_run(line, run.as_str()));
    if *story {
        let mut told = Story::default();
        tail.read(|line| {
            if wanted(line) {
                told.add(line)
            }
        })?;
        out.write_all(told.tell().as_bytes()).map_err(Fault::Output)?;
        return Ok(Exit::Done);
    }
    let render = |line: &[u8]| if *json { Some(String::from_utf8_lossy(line).into_owned()) } else { short(line) };
    let limit = last.unwrap_or(if run.is_some() { RUN_LINES } else { LINES });
    loop {
        let mut lines = VecDeque::new();
        tail.read(|line| {
            if wanted(line) {
                lines.extend(render(line));
            }
            if lines.len() > limit {
                lines.pop_front();
            }
        })?;
        for line in lines {
            writeln!(out, "{line}").map_err(Fault::Output)?;
        }
        out.flush().map_err(Fault::Output)?;
        if !follow {
            return Ok(Exit::Done);
        }
        std::thread::sleep(FOLLOW_EVERY);
    }
}

fn verified(arguments: &VerifyArguments, out: &mut impl Write) -> Result<Exit, Fault> {
    let VerifyArguments { place, receipts } = arguments;
    let path = place.file()?;
    let file = File::open(&path).map_err(|source| Fault::Open { path: path.clone(), source })?;
    let verified = verify(BufReader::with_capacity(BUFFER, file), receipts).map_err(Fault::Read)?;
    let mut say = |text: &str| writeln!(out, "{text}").map_err(Fault::Output);
    for finding in &verified.findings {
        say(&finding.to_string())?;
    }
    if verified.more > 0 {
        say(&format!("… and {} more findings", verified.more))?;
    }
    let is_damaged = verified.is_damaged();
    let verdict = if is_damaged { "DAMAGED" } else { "whole" };
    let vouched = if receipts.is_empty() {
        "no receipt was given: a cut tail or a recomputed chain would not show"
    } else {
        "receipts weighed"
    };
    say(&format!("{}: {verdict}; {} lines, head {}; {vouched}", path.display(), verified.lines, verified.head))?;
    Ok(if is_damaged { Exit::Damaged } else { Exit::Done })
}

impl Place {
    fn file(&self) -> Result<PathBuf, Fault> {
        match (&self.file, &self.config) {
            (Some(file), _) => Ok(file.clone()),
            (None, Some(config)) => configured(config),
            (None, None) => Err(Fault::Config("name the ledger by --config or --file".to_owned())),
        }
    }
}

fn configured(config: &Path) -> Result<PathBuf, Fault> {
    let config = crate::config::load(config).map_err(|faults| Fault::Config(faults.to_string()))?;
    Ok(config.ledger.file)
}

impl From<TailFault> for Fault {
    fn from(fault: TailFault) -> Self {
        match fault {
            TailFault::Open { path, source } => Self::Open { path, source },
            TailFault::Read(source) => Self::Read(source),
            TailFault::Cut => Self::Cut,
        }
    }
}

impl Fault {
    const fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Open { .. } => Exit::Usage,
            Self::Cut => Exit::Damaged,
            Self::Read(_) | Self::Output(_) => Exit::Internal,
        }
    }
}

const LINES: usize = 20;
const RUN_LINES: usize = 100_000;
const FOLLOW_EVERY: Duration = Duration::from_millis(200);
const BUFFER: usize = 256 * 1024;
