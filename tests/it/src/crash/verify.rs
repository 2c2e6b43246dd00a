//! What was done to a ledger is told apart, with the receipt that the run's record keeps.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::files::put;
use harness::{Case, Claimed, House, case};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{GATEWAY, ask, model, record};

pub(crate) const CASES: &[Case] =
    &[case("crash::what_was_done_to_a_ledger_is_told_apart_by_the_receipt_of_a_run", told_apart).needs(GATEWAY)];

fn told_apart() -> Result<()> {
    let (house, receipt) = a_run()?;
    let good = std::fs::read_to_string(house.ledger_file())?;
    let whole: Vec<String> = good.lines().map(str::to_owned).collect();
    let reported = whole.iter().position(|line| line.contains("\"kind\":\"report\"")).context("no report")?;
    let edited: Vec<String> = whole.iter().map(|line| line.replace("x-boxgate-test", "x-boxgate-lied")).collect();
    ensure!(edited != whole, "there was nothing to edit");
    let without = |at: usize| [&whole[..at], &whole[at + 1..]].concat();
    let torn = &good[..good.len() - 7];
    let table: [(&str, String, i32, i32, &str); 8] = [
        ("untouched", good.clone(), 0, 0, "whole"),
        ("a torn tail", torn.to_owned(), 65, 65, "torn-tail"),
        ("a tail cut off", text(&whole[..reported]), 0, 65, "cut-tail"),
        ("a removed line", text(&without(3)), 65, 65, "removed"),
        ("a removed line, recomputed", text(&chained(&without(3))?), 0, 65, "recomputed"),
        ("an edited line", text(&edited), 65, 65, "broken-link"),
        ("an edited line, recomputed", text(&chained(&edited)?), 0, 65, "recomputed"),
        ("everything removed", String::new(), 0, 65, "cut-tail"),
    ];
    let file = house.folder().join("copy.jsonl");
    for (what, bytes, without, with, word) in table {
        put(&file, bytes.as_bytes(), 0o600)?;
        verify(&house, &file, None, without).with_context(|| format!("{what}, no receipt"))?;
        let told = verify(&house, &file, Some(&receipt), with).with_context(|| what.to_owned())?;
        ensure!(told.contains(word), "{what} was told as: {told}");
        let others = ["torn-tail", "cut-tail", "recomputed"].into_iter().filter(|other| *other != word);
        for other in others {
            ensure!(!told.contains(&format!("{other}:")), "{what} was told as {other}: {told}");
        }
    }
    torn_tail_is_put_right(house, torn, &receipt)
}

/// The next gateway keeps the torn line, vouches for it, and goes on.
fn torn_tail_is_put_right(mut house: House, torn: &str, receipt: &str) -> Result<()> {
    put(&house.ledger_file(), torn.as_bytes(), 0o600)?;
    house.start()?;
    Claimed::take(&house.door("one"))?.report()?;
    house.term()?.expect_code(0)?;
    let told = verify(&house, &house.ledger_file(), Some(receipt), 0)?;
    ensure!(told.contains("torn line, vouched for"), "{told}");
    ensure!(std::fs::read_to_string(house.ledger_file())?.starts_with(torn), "what stood there was changed");
    Ok(())
}

/// A house after one run with requests and a refusal, and the receipt of that run's report.
fn a_run() -> Result<(House, String)> {
    let (_standin, builder) = model()?;
    let mut house = builder.start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let run = claimed.spec.run.clone();
    ensure!(ask(&house, "one", claimed.token(), "/v1/messages/x-boxgate-test")?.reason().is_none());
    ask(&house, "one", claimed.token(), "/v1/messages")?;
    let settled = claimed.report()?;
    let receipt = record(&house, run.as_str())?["receipt"].as_str().context("no receipt")?.to_owned();
    ensure!(receipt == format!("{}:{}", settled.sequence, settled.hash), "boxd was given another receipt");
    house.term()?.expect_code(0)?;
    Ok((house, receipt))
}

fn verify(house: &House, file: &Path, receipt: Option<&str>, code: i32) -> Result<String> {
    let mut command = std::process::Command::new(harness::Tools::gateway()?);
    command.args(["ledger", "verify", "--file"]).arg(file).current_dir(house.folder());
    if let Some(receipt) = receipt {
        command.args(["--receipt", receipt]);
    }
    Ok(harness::process::run(command, None, std::time::Duration::from_secs(10))?.expect_code(code)?.text())
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The same lines with numbers and hashes that fit, as a forger would make them.
fn chained(lines: &[String]) -> Result<Vec<String>> {
    let mut prev = "0".repeat(64);
    let mut out = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let read: Value = serde_json::from_str(line)?;
        let old = format!("{{\"seq\":{},\"prev\":{},", read["seq"], read["prev"]);
        let rest = line.strip_prefix(&old).context("a line that begins otherwise")?;
        let line = format!("{{\"seq\":{},\"prev\":\"{prev}\",{rest}", at + 1);
        prev = Sha256::digest(line.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        out.push(line);
    }
    Ok(out)
}
