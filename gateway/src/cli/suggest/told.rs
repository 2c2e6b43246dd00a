//! What is told: TOML that can be pasted as it stands, in which everything that is no grant is a comment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use box_spec::RunId;

use crate::cli::anew::Candidate;
use crate::host::Host;
use crate::ledger::story::plain;

use super::calls::Proposed;

/// The grants, each with a name that no other has.
pub(super) fn grants(proposed: &[Proposed], now: &Candidate) -> String {
    let mut names: BTreeSet<String> = now.policy().grants().iter().map(|grant| grant.name.to_string()).collect();
    let mut out = String::new();
    for grant in proposed {
        let Proposed { way, methods, keys, paths } = grant;
        let mut line = |key: &str, value: toml::Value| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{key} = {value}");
        };
        let list = |texts: &mut dyn Iterator<Item = &String>| {
            toml::Value::Array(texts.map(|text| text.as_str().into()).collect())
        };
        let host = way.target.host();
        let name = unique(&mut names, &format!("{}-{}", way.box_id, host.as_text()));
        line("\n[[grant]]\nname", name.into());
        line("boxes", toml::Value::Array(vec![way.box_id.as_str().into()]));
        line("hosts", toml::Value::Array(vec![spelled(host).into()]));
        let usual = if way.is_plain { 80 } else { 443 };
        if way.target.port() != usual {
            line("ports", toml::Value::Array(vec![i64::from(way.target.port()).into()]));
        }
        line("methods", list(&mut methods.iter()));
        line("paths", list(&mut paths.iter()));
        line("query", list(&mut keys.iter()));
        if let Some(secret) = &way.secret {
            line("secret", secret.as_str().into());
        }
        for (key, is_so) in [("plain", way.is_plain), ("websocket", way.websocket)] {
            if is_so {
                line(key, true.into());
            }
        }
    }
    out
}

/// All that is printed.
pub(super) fn whole(
    run: &RunId,
    requests: u64,
    through: u64,
    grants: &str,
    others: &BTreeMap<String, (u64, String)>,
) -> String {
    let mut out = String::new();
    let mut comment = |text: &str| {
        let _ = writeln!(out, "# {}", plain(text));
    };
    match (requests, grants.is_empty()) {
        (0, _) => comment(&format!("the ledger has no request of run {run}")),
        (_, true) => comment(&format!("run {run}: no grant is proposed")),
        (_, false) => comment(&format!(
            "run {run}: these grants, behind those that there are, would have let {through} refused calls through"
        )),
    }
    for (why, (count, example)) in others {
        comment(&format!("not proposed, {count}: {why}"));
        if !example.is_empty() {
            comment(&format!("    as {example}"));
        }
    }
    out + grants
}

fn spelled(host: &Host) -> String {
    host.as_text().into_owned()
}

fn unique(names: &mut BTreeSet<String>, wanted: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    let plain: String = wanted.chars().map(|c| if is_plain(c) { c } else { '-' }).take(LONGEST).collect();
    let mut numbered = (2..).map(|number| format!("{plain}-{number}"));
    let mut name = plain.clone();
    while !names.insert(name.clone()) {
        name = numbered.next().unwrap_or_default();
    }
    name
}

/// A name has room for a number behind it.
const LONGEST: usize = 48;
