//! Reload: a configuration that changes while the house stands is taken whole, or not at all.

pub(super) mod cut;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Case, case, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::base::{GATEWAY, Wire, get, holds};

pub(super) const CASES: &[Case] = &[
    case("wire::a_reload_by_sighup_binds_the_next_request_of_a_connection", hang_up).needs(GATEWAY),
    case("wire::a_file_that_changes_is_reloaded_by_itself", watched).needs(GATEWAY),
    case("wire::a_bad_configuration_leaves_the_last_good_one_and_says_so", faulty).needs(GATEWAY),
    case("wire::what_takes_a_restart_is_named_and_nothing_of_the_file_is_taken", restart).needs(GATEWAY),
    case("wire::a_secret_that_a_reload_brings_is_put_in_from_then_on", secret).needs(GATEWAY),
];

/// The configuration's text, changed and written as an editor does: whole, and renamed into its place.
pub(super) fn rewrite(wire: &Wire, change: impl FnOnce(&str) -> String) -> Result<()> {
    let file = wire.house.config();
    let text = fs::read_to_string(&file).context("read the configuration")?;
    let changed = change(&text);
    ensure!(changed != text, "nothing was changed");
    let fresh = file.with_extension("new");
    put(&fresh, &changed)?;
    fs::rename(&fresh, &file).context("put it in place")
}

/// The same, and the gateway asked to read it.
pub(super) fn reload(wire: &Wire, change: impl FnOnce(&str) -> String) -> Result<()> {
    rewrite(wire, change)?;
    let ran = wire.house.gateway(&["reload"])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a test's own file, written in place as some editors do")]
fn put(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Without the grant of this name.
pub(super) fn without(text: &str, grant: &str) -> String {
    let begin = format!("[[grant]]\nname = \"{grant}\"\n");
    let at = text.find(&begin).unwrap_or(text.len());
    let end = text.get(at + 1..).and_then(|rest| rest.find("\n[")).map_or(text.len(), |end| at + 1 + end);
    format!("{}{}", &text[..at], &text[end..])
}

fn signal(wire: &Wire) -> Result<()> {
    kill(Pid::from_raw(wire.house.pid().context("no gateway")?), Signal::SIGHUP).context("send SIGHUP")
}

/// The line of the reload, and the house by then judging by it: it is written down first.
fn applied(wire: &Wire) -> Result<Value> {
    let line = wire.house.wait_line("the reload", |line| line["kind"] == "config")?;
    ensure!(line["facts"]["applied"] == true, "{line}");
    until("the house to judge by it", Duration::from_secs(5), || {
        (wire.house.status().ok()?["config"]["sha256"] == line["facts"]["config"]).then_some(())
    })?;
    Ok(line)
}

fn reloads(wire: &Wire) -> Result<Vec<Value>> {
    Ok(wire.house.ledger()?.into_iter().filter(|line| line["kind"] == "config").collect())
}

fn hang_up() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut inside = wire.inside("api.test")?;
    ensure!(inside.ask(&get("api.test", "/before", ""))?.status == 200);
    ensure!(inside.ask(&get("api.test", "/closed/x", ""))?.status == 200);
    let before = wire.house.status()?["config"]["sha256"].clone();
    rewrite(&wire, |text| text.replace("name = \"api\"\n", "name = \"api\"\npaths = \"/before\"\n"))?;
    signal(&wire)?;
    let line = applied(&wire)?;
    ensure!(line["facts"]["before"] == before, "{line}");
    let status = wire.house.status()?["config"].clone();
    ensure!(status["sha256"] == line["facts"]["config"] && status["refused"].is_null(), "{status}");
    let refused = inside.ask(&get("api.test", "/closed/x", ""))?;
    ensure!(refused.status == 403 && refused.reason() == Some("no-grant"), "{refused:?}");
    ensure!(inside.ask(&get("api.test", "/before", ""))?.status == 200, "the connection itself lives on");
    let start = wire.house.ledger()?.into_iter().find(|line| line["kind"] == "start").context("no start")?;
    ensure!(start["facts"]["config"] == before, "{start}");
    Ok(())
}

fn watched() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut inside = wire.inside("open.test")?;
    ensure!(inside.ask(&get("open.test", "/x", ""))?.status == 200);
    rewrite(&wire, |text| text.replace("name = \"open\"\n", "name = \"open\"\nmethods = \"POST\"\n"))?;
    let line = applied(&wire)?;
    ensure!(line["facts"]["why"] == "file", "{line}");
    ensure!(inside.ask(&get("open.test", "/x", ""))?.status == 403);
    // The same text again is no change, and makes no line.
    let text = fs::read_to_string(wire.house.config())?;
    put(&wire.house.config(), &text)?;
    std::thread::sleep(Duration::from_secs(3));
    ensure!(reloads(&wire)?.len() == 1, "{:?}", reloads(&wire)?);
    Ok(())
}

fn faulty() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let good = fs::read_to_string(wire.house.config())?;
    rewrite(&wire, |text| without(text, "open") + "\n[[grant]]\nname = \"half\"\nhost = \"a.test\"\n")?;
    signal(&wire)?;
    let line = wire.house.wait_line("the refused reload", |line| line["kind"] == "config")?;
    let faults = line["facts"]["faults"].to_string();
    ensure!(line["facts"]["applied"] == false && faults.contains("unknown key `host`"), "{line}");
    let status = wire.house.status()?["config"].clone();
    ensure!(status["refused"]["why"].as_str().is_some_and(|why| why.contains("unknown key `host`")), "{status}");
    let told = wire.house.gateway(&["status"])?;
    ensure!(holds(&told.stdout, "NOT RELOADED") && holds(&told.stdout, "unknown key `host`"), "{told:?}");
    ensure!(wire.inside("open.test")?.ask(&get("open.test", "/still", ""))?.status == 200, "the last good one stays");
    ensure!(wire.house.said().contains("the configuration was not reloaded"), "{}", wire.house.said());
    let ran = wire.house.gateway(&["reload"])?;
    ensure!(ran.code == Some(69) && ran.stderr.contains("unknown key `host`"), "{ran:?}");
    // The old text again is the house's own, and nothing is wrong any more.
    put(&wire.house.config(), &good)?;
    until("the status is well again", Duration::from_secs(10), || {
        wire.house.status().ok()?["config"]["refused"].is_null().then_some(())
    })
}

fn restart() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    for (what, change) in [
        ("the door of box one", "door = \"doors/another.sock\"\n"),
        ("[limits]", "\n[limits]\nhead_bytes = 9000\n"),
        ("box two, which is new", "\n[[box]]\nid = \"two\"\ndoor = \"doors/two.sock\"\n"),
    ] {
        let good = fs::read_to_string(wire.house.config())?;
        rewrite(&wire, |text| {
            let text = without(text, "open");
            match change.strip_prefix("door") {
                Some(_) => {
                    let at = text.find("door = ").unwrap_or_default();
                    let end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
                    format!("{}{change}{}", &text[..at], &text[end..])
                }
                None => format!("{text}{change}"),
            }
        })?;
        let ran = wire.house.gateway(&["reload"])?;
        ensure!(
            ran.code == Some(69) && ran.stderr.contains(what) && ran.stderr.contains("restart the gateway"),
            "{what}: {ran:?}"
        );
        ensure!(wire.inside("open.test")?.ask(&get("open.test", "/still", ""))?.status == 200, "{what}");
        put(&wire.house.config(), &good)?;
    }
    Ok(())
}

fn secret() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut inside = wire.inside("open.test")?;
    ensure!(inside.ask(&get("open.test", "/bare", "authorization: mine\r\n"))?.status == 200);
    put(&wire.house.folder().join("second"), "a-second-secret-of-the-house\n")?;
    reload(&wire, |text| {
        let text =
            text.replace("plain = true\n", "").replace("name = \"open\"\n", "name = \"open\"\nsecret = \"second\"\n");
        format!("{text}\n[[secret]]\nname = \"second\"\nfile = \"second\"\n")
    })?;
    ensure!(inside.ask(&get("open.test", "/with", "authorization: mine\r\n"))?.status == 200);
    let seen = wire.standin.seen();
    let sent = |path: &str| {
        let seen = seen.iter().find(|seen| seen.path == path)?;
        Some(
            seen.headers
                .iter()
                .filter(|(name, _)| name == "authorization")
                .map(|(_, value)| value.clone())
                .collect::<Vec<_>>(),
        )
    };
    ensure!(sent("/bare") == Some(vec![]), "{:?}", sent("/bare"));
    ensure!(sent("/with") == Some(vec!["Bearer a-second-secret-of-the-house".into()]), "{:?}", sent("/with"));
    Ok(())
}
