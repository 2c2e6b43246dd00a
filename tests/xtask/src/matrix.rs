//! `cargo xtask agents --matrix`: plays every cell and writes the rows into `docs/agents.md`, in the order of the cells.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::build;
use crate::steps::{MINUTE, say, show};

pub(crate) fn run() -> Result<ExitCode> {
    let rows = build::target()?.join("matrix.rows");
    if rows.exists() {
        std::fs::remove_file(&rows).context("remove the rows of an earlier run")?;
    }
    let mut command = it(&["matrix::"])?;
    command.env("BOXGATE_MATRIX", &rows);
    let done = show("every agent, login, transport and event", &mut command, 30 * MINUTE)?;
    let list = it(&["matrix::", "--list"])?.output().context("list the cells")?;
    let table =
        table(&std::fs::read_to_string(&rows).context("read the rows")?, &String::from_utf8_lossy(&list.stdout))?;
    publish(&build::workspace().join("docs/agents.md"), &table)?;
    say("docs/agents.md holds what was measured");
    Ok(if done.good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn it(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(build::target()?.join("debug/it"));
    command.args(arguments).current_dir(build::workspace());
    Ok(command)
}

/// The rows in the order in which the cells are listed.
fn table(rows: &str, list: &str) -> Result<String> {
    let mut table = String::new();
    let listed = list.lines().filter_map(|line| line.strip_suffix(": test")?.strip_prefix("matrix::"));
    for (seat, event) in listed.filter_map(|cell| cell.split_once("::")) {
        let start = format!("| {seat} | {event} |");
        let row = rows.lines().rfind(|row| row.starts_with(&start)).with_context(|| format!("no row {start}"))?;
        table += row;
        table.push('\n');
    }
    ensure!(!table.is_empty(), "no cell was listed");
    Ok(table)
}

/// Replaces the rows below the heading of the matrix.
#[expect(clippy::disallowed_methods, reason = "a page of this repository, for its writer to look at")]
fn publish(page: &Path, table: &str) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| format!("read {}", page.display()))?;
    let (before, after) = text.split_once(HEAD).with_context(|| format!("{} has no matrix", page.display()))?;
    let rest = after.split_once("\n\n").map_or("", |(_, rest)| rest);
    let gap = if rest.is_empty() { "" } else { "\n" };
    std::fs::write(page, format!("{before}{HEAD}{table}{gap}{rest}"))
        .with_context(|| format!("write {}", page.display()))
}

const HEAD: &str =
    "| agent | event | exit code | requests | seconds | last words |\n| --- | --- | --- | --- | --- | --- |\n";
