//! Operating the policy: what was recorded is judged anew by other policies, and what was refused makes the grants that would
//! have let it through.

mod day;
mod suggested;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use harness::{Case, House, Need, case};
use serde_json::Value;

use day::{Day, Sent, What};

pub(crate) const CASES: &[Case] = &[
    case("replay::five_policies_name_exactly_the_requests_of_a_day_that_change", five).needs(GATEWAY),
    case("replay::what_is_suggested_for_a_run_lets_exactly_its_refused_calls_through", suggested::pasted)
        .needs(GATEWAY),
    case("replay::a_bad_candidate_or_no_ledger_is_said_with_its_place", bad).needs(GATEWAY),
];

/// A candidate, and what becomes of each request by it; nothing where its verdict stays.
struct Candidate {
    name: &'static str,
    text: String,
    becomes: fn(&Sent) -> Option<&'static str>,
    /// What becomes of tunnels: of so many of a box that was there.
    tunnels: fn(&Day) -> Vec<(String, usize)>,
    code: i32,
}

fn five() -> Result<()> {
    let mut day = Day::recorded()?;
    ensure!(day.sent.len() > 300, "{} requests", day.sent.len());
    day.house.term()?;
    for candidate in candidates(&day)? {
        replayed(&day, &candidate).with_context(|| candidate.name.to_owned())?;
    }
    Ok(())
}

fn candidates(day: &Day) -> Result<Vec<Candidate>> {
    let text = std::fs::read_to_string(day.house.config()).context("read the configuration")?;
    let changed = |changes: &[(&str, &str)]| -> Result<String> {
        changes.iter().try_fold(text.clone(), |text, (from, to)| {
            ensure!(text.contains(from), "{from:?} is not in {text}");
            Ok(text.replacen(from, to, 1))
        })
    };
    let none = |_: &Day| Vec::new();
    Ok(vec![
        Candidate { name: "as it was", text: changed(&[])?, becomes: |_| None, tunnels: none, code: 0 },
        Candidate {
            name: "documents can be posted, and the API is box one's",
            text: changed(&[("[\"GET\", \"HEAD\"]", "[\"GET\", \"POST\"]"), ("[\"one\", \"two\"]", "[\"one\"]")])?,
            becomes: |sent| match (sent.what, sent.by) {
                (What::Posted, _) => Some("refuse -> allow by docs"),
                // Whether it was a handshake, a number does not tell: what is posted is none, but that is what it would be told.
                (What::PostedAgain, _) => Some("refuse -> unknown (headers)"),
                (What::Called, "two") => Some("allow by api -> refuse (no-grant)"),
                _ => None,
            },
            tunnels: none,
            code: 1,
        },
        Candidate {
            name: "tools may write and search otherwise, and nothing is ended",
            text: changed(&[
                ("mcp_tools = [\"read_*\"]", "mcp_tools = [\"*\"]\nmethods = [\"POST\"]"),
                ("provider_tools = [\"web_search\"]", "provider_tools = [\"web_fetch\"]"),
            ])?,
            becomes: |sent| match sent.what {
                What::Wrote => Some("refuse -> allow by mcp"),
                What::Ended => Some("allow by mcp -> refuse (no-grant)"),
                What::Searched => Some("allow by model-anthropic -> refuse (provider-egress)"),
                // Its body was not read to its end.
                What::Fetched => Some("refuse -> unknown (body)"),
                _ => None,
            },
            tunnels: none,
            code: 1,
        },
        Candidate {
            name: "one more host, one more path for one box, one more port",
            text: text.clone()
                + "[[grant]]\nname = \"more\"\nhosts = [\"nowhere.test\", \"*.else.test\"]\nports = [443, 8443]\n\
                   [[grant]]\nname = \"second\"\nboxes = [\"three\"]\nhosts = \"api.test\"\npaths = \"/v2\"\n\
                   [[grant]]\nname = \"port\"\nhosts = \"docs.test\"\nports = 8443\n",
            becomes: |sent| match (sent.what, sent.by) {
                (What::Lost, _) => Some("refuse -> allow by more"),
                (What::Second, "three") => Some("refuse -> allow by second"),
                _ => None,
            },
            tunnels: |day| vec![("refuse -> unknown (inside-of-tunnel)".to_owned(), day.odd_ports)],
            code: 1,
        },
        Candidate {
            name: "no secret for the model, sockets the other way round, and a box less",
            text: without_box_three(&changed(&[
                ("secret = \"anthropic\"\nunsafe_dial", "unsafe_dial"),
                ("websocket = true", "websocket = false"),
                ("[\"GET\", \"HEAD\"]", "[\"GET\", \"HEAD\"]\nwebsocket = true"),
            ])?),
            becomes: |sent| match (sent.what, sent.by) {
                (what, "three") if what.was_let_through() => Some("allow -> refuse (no-box)"),
                (What::Told, "three") => Some("answer -> refuse (no-box)"),
                (_, "three") => None,
                (What::Asked | What::Searched, _) => Some("allow by model-anthropic -> refuse (sentinel-astray)"),
                (What::Session, _) => Some("allow by sock -> refuse (upgrade-refused)"),
                (What::NoSession, _) => Some("refuse -> allow by docs"),
                _ => None,
            },
            tunnels: |day| vec![("allow -> refuse (no-box)".to_owned(), day.tunnels_of_three)],
            code: 1,
        },
    ])
}

fn without_box_three(text: &str) -> String {
    let begin = text.find("[[box]]\nid = \"three\"").unwrap_or(text.len());
    let end = text.get(begin + 1..).and_then(|rest| rest.find("\n[")).map_or(text.len(), |end| begin + 2 + end);
    let rest = text.get(end..).unwrap_or_default();
    format!("{}{}", &text[..begin], rest)
}

fn replayed(day: &Day, candidate: &Candidate) -> Result<()> {
    let file = day.house.folder().join("candidate.toml");
    harness::files::put(&file, candidate.text.as_bytes(), 0o600)?;
    let ran = replay(&day.house, &["--config", &file.display().to_string(), "--each", "--json", "--since", "1d"])?;
    ensure!(ran.code == Some(candidate.code), "{ran:?}");
    let (lines, summary) = lines_of(&ran)?;
    let (tunnels, requests): (Vec<Value>, Vec<Value>) = lines.into_iter().partition(|one| one["method"] == "CONNECT");
    let told: BTreeSet<String> =
        requests.iter().map(|one| format!("{} {} {}", text(&one["box"]), text(&one["path"]), becomes(one))).collect();
    let meant: BTreeSet<String> = day
        .sent
        .iter()
        .filter_map(|sent| Some(format!("{} {} {}", sent.by, sent.path, whole(sent, (candidate.becomes)(sent)?))))
        .collect();
    let more: Vec<_> = told.difference(&meant).collect();
    let less: Vec<_> = meant.difference(&told).collect();
    ensure!(more.is_empty() && less.is_empty(), "told too much: {more:#?}\ntold too little: {less:#?}");
    ensure!(requests.len() == meant.len(), "{} lines for {} requests", requests.len(), meant.len());
    for (what, count) in (candidate.tunnels)(day) {
        let found = tunnels.iter().filter(|one| becomes(one) == what).count();
        ensure!(found == count, "{found} tunnels and not {count}: {what}");
    }
    ensure!(tunnels.len() == (candidate.tunnels)(day).iter().map(|(_, count)| count).sum::<usize>(), "{tunnels:?}");
    let counted = |key: &str| summary[key].as_u64().unwrap_or(u64::MAX);
    ensure!(counted("changed") + counted("unknown") == (requests.len() + tunnels.len()) as u64, "{summary}");
    let groups: u64 = ["changes", "unknowns"]
        .iter()
        .flat_map(|key| summary[key].as_array().into_iter().flatten())
        .filter_map(|group| group["count"].as_u64())
        .sum();
    ensure!(groups == counted("changed") + counted("unknown") && counted("in_other_groups") == 0, "{summary}");
    ensure!(
        counted("unreadable_lines") == 0 && counted("never_closed") == 0 && counted("only_counted") == 0,
        "{summary}"
    );
    Ok(())
}

/// What was told of each request, and the summary.
fn lines_of(ran: &harness::process::Ran) -> Result<(Vec<Value>, Value)> {
    let lines: Result<Vec<Value>, _> = String::from_utf8_lossy(&ran.stdout).lines().map(serde_json::from_str).collect();
    let mut lines = lines.context("parse what was told")?;
    let summary = lines.pop().context("no summary")?;
    Ok((lines, summary))
}

/// A refusal has no grant of its own that is told, and no reason that a candidate of these cases cares for.
fn whole(sent: &Sent, becomes: &str) -> String {
    let before = sent.what.reason().map(|reason| format!("refuse ({reason})"));
    match (before, becomes.strip_prefix("refuse")) {
        (Some(before), Some(rest)) => format!("{before}{rest}"),
        _ if becomes.starts_with("allow ->") => {
            format!("allow by {}{}", sent.what.grant(), becomes.trim_start_matches("allow"))
        }
        _ => becomes.to_owned(),
    }
}

fn becomes(one: &Value) -> String {
    let is_tunnel = one["method"] == "CONNECT";
    let said = |of: &Value| match (&of["verdict"], &of["grant"], &of["why"]) {
        (verdict, Value::String(grant), _) => format!("{} by {grant}", text(verdict)),
        (verdict, _, Value::String(why)) if !(is_tunnel && why == "port-refused") => {
            format!("{} ({why})", text(verdict))
        }
        (verdict, ..) => text(verdict).to_owned(),
    };
    format!("{} -> {}", said(&one["before"]), said(&one["after"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// The command, with a configuration of its own where it names one.
fn replay(house: &House, arguments: &[&str]) -> Result<harness::process::Ran> {
    let mut command = std::process::Command::new(harness::Tools::gateway()?);
    command.arg("replay").args(arguments).env_clear().current_dir(house.folder());
    harness::process::run(command, None, std::time::Duration::from_secs(20))
}

fn bad() -> Result<()> {
    let house = House::builder().prepare()?;
    let file = house.folder().join("candidate.toml");
    harness::files::put(&file, b"state = \"state\"\n[[grant]]\nname = \"x\"\nhost = \"a.test\"\n", 0o600)?;
    let name = file.display().to_string();
    let ran = replay(&house, &["--config", &name])?;
    ensure!(ran.code == Some(64) && ran.stderr.contains("candidate.toml:4:1:"), "{ran:?}");
    let good = house.config().display().to_string();
    for arguments in [&["--config", &good][..], &["--config", &good, "--ledger", "nowhere.jsonl"]] {
        let ran = replay(&house, arguments)?;
        ensure!(ran.code == Some(64) && ran.stderr.contains("open ledger "), "{ran:?}");
    }
    let ran = replay(&house, &["--config", &good, "--since", "yesterday"])?;
    ensure!(ran.code == Some(64) && ran.stderr.contains("write a span as 7d"), "{ran:?}");
    Ok(())
}

const GATEWAY: &[Need] = &[Need::Gateway];
