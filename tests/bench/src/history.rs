//! A house that has a history: a ledger of any length, whole from its first line to its last, and the checkpoint that the
//! gateway itself wrote of it.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use harness::{Claimed, House};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::ground::FIRST;

/// Lets the house live twice, and makes its ledger longer by this many bytes in between. It does not run afterwards.
///
/// # Errors
///
/// When the house does not live, or the disk is full.
pub fn give(house: &mut House, bytes: u64) -> Result<()> {
    house.start()?;
    Claimed::take(&house.door(FIRST))?.report()?;
    house.term()?.expect_code(0)?;
    lengthen(&house.ledger_file(), bytes)?;
    // Reads all of it, and leaves a checkpoint.
    house.start()?;
    house.term()?.expect_code(0)?;
    Ok(())
}

/// Requests that were answered, one after the other, chained to what is there.
fn lengthen(ledger: &Path, bytes: u64) -> Result<()> {
    let text = std::fs::read_to_string(ledger).context("read the ledger")?;
    let last = text.lines().last().context("find the ledger's last line")?;
    let read: Value = serde_json::from_str(last).context("parse the ledger's last line")?;
    let mut sequence = read["seq"].as_u64().context("number the ledger's last line")?;
    let mut hash = hex(last.as_bytes());
    let file = OpenOptions::new().append(true).open(ledger).context("open the ledger")?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut written = 0;
    while written < bytes {
        let of = sequence + 1;
        for body in [
            OPENED.to_owned(),
            format!("\"time\":\"2026-01-31T23:59:59.998001Z\",\"kind\":\"closed\",\"of\":{of},{CLOSED}"),
        ] {
            sequence += 1;
            let line = format!("{{\"seq\":{sequence},\"prev\":\"{hash}\",{body}}}");
            hash = hex(line.as_bytes());
            writeln!(out, "{line}").context("lengthen the ledger")?;
            written += line.len() as u64 + 1;
        }
    }
    let file = out.into_inner().context("lengthen the ledger")?;
    file.sync_all().context("lengthen the ledger")
}

fn hex(line: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(line) {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    text
}

/// A request as an agent sends it.
const OPENED: &str = r#""time":"2026-01-31T23:59:58.123456Z","kind":"request","open":true,"box":"one","run":"20260131T235959-0a1b2c3d","target":"api.anthropic.com:443","scheme":"https","method":"POST","path":"/v1/messages","query":[{"key":"beta","length":4,"sha256":"b5bea41b"}],"headers":{"shown":{"accept":"application/json","content-type":"application/json","user-agent":"an agent of the bench"},"others":["anthropic-beta","anthropic-version","authorization","x-app"]},"body_length":2150,"verdict":"allow","grant":"host""#;
const CLOSED: &str = r#""box":"one","run":"20260131T235959-0a1b2c3d","ended":"complete","status":200,"bytes_up":2150,"bytes_down":512,"injected":["authorization"],"lasted_us":1874545"#;
