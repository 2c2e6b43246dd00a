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
#[group(multiple = false)]
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
            // Not by clap, for which a variable beside --file would be two places.
            (None, None) => match std::env::var_os("BOXGATE_CONFIG") {
                Some(config) => configured(Path::new(&config)),
                None => Err(Fault::Config("name the ledger by --config or --file".to_owned())),
            },
        }
    }
}

fn configured(config: &Path) -> Result<PathBuf, Fault> {
    let places = crate::config::places(config).map_err(|faults| Fault::Config(faults.to_string()))?;
    Ok(places.ledger)
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::ledger::{Entry, Kind, Ledger, Outcome, Settings, Verdict};

    use super::super::Exit;
    use super::{Arguments, Command, tail, verified};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// The exit code (or the complaint) and the output of `gateway ledger …`.
    fn said(words: &[&str]) -> (Result<Exit, String>, String) {
        let line = match Line::try_parse_from([&["ledger"], words].concat()) {
            Ok(line) => line,
            Err(error) => return (Err(error.kind().to_string()), String::new()),
        };
        let mut out = Vec::new();
        let ended = match &line.arguments.command {
            Command::Tail(arguments) => tail(arguments, &mut out),
            Command::Verify(arguments) => verified(arguments, &mut out),
        };
        (ended.map_err(|fault| fault.to_string()), String::from_utf8(out).expect("text"))
    }

    async fn written(folder: &tempfile::TempDir) -> (String, String) {
        let file = folder.path().join("l.jsonl");
        let ledger = Ledger::open(&Settings::new(file.clone())).expect("a new ledger");
        let run = "20260131T235959-0a1b2c3d".parse().expect("a run id");
        let entry = Entry::new(Kind::Request).run_id(&run).path_and_query("/v1/messages");
        let ((), line) = ledger.enter(Verdict::allow((), entry)).await.expect("up");
        line.close(Outcome { status: Some(200), ..Outcome::default() });
        let receipt = ledger.note(Entry::new(Kind::Stop)).await.expect("up");
        ledger.close().await.expect("the disk takes it");
        (file.to_str().expect("UTF-8").to_owned(), receipt.to_string())
    }

    #[tokio::test]
    async fn the_tail_is_told_short_whole_or_as_a_story() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, _) = written(&folder).await;
        let lines = |words: &[&str]| {
            let (exit, out) = said(&[&["tail", "--file", &file], words].concat());
            assert_eq!(exit, Ok(Exit::Done));
            out.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(&[]).len(), 3);
        assert_eq!((lines(&["-n", "1"]).len(), lines(&["-n", "0"]).len()), (1, 0));
        let of_run = ["--run", "20260131T235959-0a1b2c3d"];
        assert_eq!(lines(&of_run).len(), 2);
        assert_eq!(lines(&["--run", "20260131T235959-ffffffff"]).len(), 0);
        assert!(lines(&["--json"]).iter().all(|line| line.starts_with("{\"seq\":")));
        let story = lines(&[&of_run[..], &["--story"]].concat());
        assert!(story.len() == 1 && story[0].contains("/v1/messages → aborted 200"), "{story:?}");
    }

    #[tokio::test]
    async fn verify_ends_with_0_or_65_and_says_why() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, receipt) = written(&folder).await;
        let (exit, out) = said(&["verify", "--file", &file, "--receipt", &receipt]);
        assert_eq!(exit, Ok(Exit::Done));
        assert!(out.contains("whole; 3 lines"), "{out}");
        let beyond = receipt.replacen('3', "9", 1);
        let (exit, out) = said(&["verify", "--file", &file, "--receipt", &beyond]);
        assert_eq!(exit, Ok(Exit::Damaged));
        assert!(out.starts_with("cut-tail: seq 9: ") && out.contains("DAMAGED"), "{out}");
    }

    #[test]
    fn what_cannot_be_read_is_said_and_nothing_is_called_whole() {
        let (exit, out) = said(&["verify", "--file", "/nowhere/l.jsonl"]);
        assert!(exit.is_err_and(|fault| fault.contains("/nowhere/l.jsonl")) && out.is_empty());
        for wrong in
            [&["verify"][..], &["tail", "--file", "a", "--config", "b"], &["tail", "--file", "a", "--story", "--json"]]
        {
            assert!(said(wrong).0.is_err(), "{wrong:?}");
        }
        let (exit, _) = said(&["tail", "--config", "/nowhere/house.toml"]);
        assert!(exit.is_err_and(|fault| fault.contains("/nowhere/house.toml")));
        assert!(said(&["verify", "--file", "a", "--receipt", "1:abc"]).0.is_err());
    }
}
