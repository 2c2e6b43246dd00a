//! Pages name tests: each of them exists, and the page on trust has a planted fault for each fact of an attestation.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use harness::Tools;

use super::sources;

/// What stands between backticks and begins as cases do, in every page but the table of coverage, which has rules of its own.
pub(super) fn names_exist() -> Result<()> {
    let rust = sources::rust()?;
    let cases = sources::cases(&rust)?;
    let families: BTreeSet<&str> = cases.iter().filter_map(|case| case.split("::").next()).collect();
    let mut findings = Vec::new();
    let mut seen = 0;
    for page in sources::all(&["md"])?.iter().filter(|page| page.path != "docs/coverage.md") {
        let tests = named(&page.text).filter_map(|name| Some((name.split_once("::")?.0, name)));
        for (_, name) in tests.filter(|(family, _)| families.contains(family)) {
            seen += 1;
            // A family may stand for all that begin with it.
            let family = format!("{}::", name.trim_end_matches('…').trim_end_matches("::"));
            if !cases.contains(name) && !cases.iter().any(|case| case.starts_with(&family)) {
                findings.push(format!("{} names {name}, and there is no such test", page.path));
            }
        }
    }
    ensure!(seen >= 25, "saw only {seen} names of tests");
    sources::none_of(&findings)
}

pub(super) fn facts_are_planted() -> Result<()> {
    let root = Tools::workspace();
    let read = |name: &str| std::fs::read_to_string(root.join(name)).with_context(|| format!("read {name}"));
    let (facts, page) = (read("box/spec/src/attest.rs")?, read("docs/trust.md")?);
    let (_, table) = page.split_once("| fact | planted | case |").context("find the table")?;
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with("| ")).collect();
    let mut findings: Vec<String> = rows
        .iter()
        .filter(|row| !named(row).any(|name| name.contains("::")))
        .map(|row| format!("no case: {row}"))
        .collect();
    let structs = ["Attestation", "Layers", "BoxFacts"];
    let fields: Vec<&str> = structs.iter().flat_map(|name| fields(&facts, name)).collect();
    ensure!(fields.len() >= 20 && rows.len() >= 10, "saw only {} facts and {} rows", fields.len(), rows.len());
    let told: BTreeSet<&str> = rows.iter().filter_map(|row| row.split(" | ").next()).flat_map(named).collect();
    findings.extend(fields.iter().filter(|field| !told.contains(*field)).map(|field| format!("no row for {field}")));
    sources::none_of(&findings)
}

/// What stands between backticks, one by one.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The fields of a struct whose source this is.
fn fields<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let body = source.split_once(&format!("pub struct {name} {{")).and_then(|(_, rest)| rest.split("\n}").next());
    let lines = body.unwrap_or_default().lines();
    lines.filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next()).collect()
}
