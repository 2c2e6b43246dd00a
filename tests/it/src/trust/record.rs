//! The record of a run and its verdict: what the house saw outranks what the box says.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::{FakeAgents, VERSION, result_event};
use harness::{Claimed, House};
use serde_json::Value;

use super::{SOON, builder, house, last_facts, launch, shell};

pub(super) fn fields() -> Result<()> {
    let house = house()?;
    let ran = shell(&house, false, "echo said; exit 3")?.expect_code(3)?;
    ensure!(ran.text() == "said\n");
    let record = last_record(&house)?;
    let facts = last_facts(&house)?;
    let id = record["run"].as_str().context("no id")?;
    for (name, value) in [
        ("box_id", "one".into()),
        ("kind", "one-shot".into()),
        ("state", "ended".into()),
        ("agent", "claude".into()),
        ("agent_version", VERSION.into()),
        ("ended_by", "exit".into()),
        ("exit_code", 3.into()),
        ("signal", Value::Null),
        ("error", Value::Null),
        ("requests", 0.into()),
        ("refusals", 0.into()),
        ("transcript", format!("runs/{id}/stdout.jsonl").into()),
        ("stdout", facts["report"]["stdout"].clone()),
        ("verdict", facts["verdict"].clone()),
    ] {
        ensure!(record.get(name) == Some(&value), "{name} is {:?}: {record}", record.get(name));
    }
    let (started, ended) = (record["started"].as_str(), record["ended"].as_str());
    ensure!(started.is_some() && started < ended, "{record}");
    // The receipt is the report's own line.
    let receipt = record["receipt"].as_str().context("no receipt")?;
    house.gateway(&["ledger", "verify", "--receipt", receipt])?.expect_code(0)?;
    house.gateway(&["ledger", "verify", "--receipt", &format!("999999:{}", "0".repeat(64))])?.expect_code(65)?;
    Ok(())
}

/// While runs end, every file of the folder is whole whenever it is looked at.
pub(super) fn atomic() -> Result<()> {
    let house = house()?;
    let over = AtomicBool::new(false);
    let folder = house.state().join("runs");
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| -> Result<usize> {
            let mut seen = 0;
            while !over.load(Ordering::Relaxed) {
                for path in records(&folder) {
                    let text = std::fs::read(&path).unwrap_or_default();
                    serde_json::from_slice::<Value>(&text)
                        .with_context(|| format!("{} is not whole", path.display()))?;
                    seen += 1;
                }
            }
            Ok(seen)
        });
        let outcome = (0..15).try_for_each(|_| shell(&house, false, "exit 0")?.expect_code(0).map(drop));
        over.store(true, Ordering::Relaxed);
        let seen = looker.join().map_err(|_| anyhow::anyhow!("the looker broke"))??;
        ensure!(seen > 15, "looked only {seen} times");
        outcome
    })?;
    let names: Vec<_> = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.file_name()).collect();
    ensure!(names.len() == 15, "leftovers: {names:?}");
    ensure!(std::fs::read_dir(house.state().join("live"))?.next().is_none(), "a live record outlived its run");
    Ok(())
}

pub(super) fn verdicts() -> Result<()> {
    let house = builder().ceiling("3s").start()?;
    let refused = "exec python3 -c 'import os, socket, ssl
host, port = os.environ[\"HTTPS_PROXY\"].removeprefix(\"http://\").split(\":\")
s = socket.create_connection((host, int(port)))
s.sendall(b\"CONNECT other.test:443 HTTP/1.1\\r\\nHost: other.test:443\\r\\n\\r\\n\")
s.recv(1000)
t = ssl.create_default_context(cafile=os.environ[\"SSL_CERT_FILE\"]).wrap_socket(s, server_hostname=\"other.test\")
t.sendall(b\"GET / HTTP/1.1\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n\")
print(t.recv(1000))'";
    let with_error = format!("echo '{}'", result_event("it broke").replace("\"is_error\":false", "\"is_error\":true"));
    for (what, script, code, verdict) in [
        ("a clean end", "exit 0", 0, None),
        ("an error that the agent tells of with 0 is a warning", with_error.as_str(), 0, None),
        ("another code", "exit 42", 42, Some("42")),
        ("a death by signal", "kill -9 $$", 137, Some("137")),
        ("refusals with a clean end", refused, 0, Some("1 of its requests were refused")),
        (
            "the ceiling, whatever the agent then says",
            "trap 'exit 0' TERM; while :; do sleep 0.1; done",
            124,
            Some("minutes"),
        ),
    ] {
        shell(&house, false, script)?.expect_code(code).with_context(|| what.to_owned())?;
        check(&house, what, verdict)?;
    }
    ensure!(records(&house.state().join("runs")).len() == 6, "a run has no record");
    let fakes = FakeAgents::shell("exit 0")?;
    std::fs::remove_file(fakes.claude())?;
    launch(&house, false)?.agents(fakes.folder()).env("PATH", "/nonexistent").run(SOON)?;
    check(&house, "a missing agent", Some("could not run"))?;
    // A box that reports success for a run that was never attested.
    let mut unproven = match Claimed::ask(&house.door("one"), &harness::claim::claim())? {
        harness::claim::Answer::Taken(claimed) => claimed,
        harness::claim::Answer::Refused { status, .. } => anyhow::bail!("the claim was refused with {status}"),
    };
    unproven.say(&box_spec::FromBox::Report(harness::claim::report()))?;
    let _word = unproven.next(Duration::from_secs(5));
    let run = unproven.spec.run.to_string();
    drop(unproven);
    let record = harness::until("its record", Duration::from_secs(5), || {
        records(&house.state().join("runs")).into_iter().find(|path| path.ends_with(format!("{run}.json")))
    })?;
    let record: Value = serde_json::from_slice(&std::fs::read(record)?)?;
    ensure!(!record["verdict"].to_string().contains("completed"), "{record}");
    Ok(())
}

pub(super) fn ids() -> Result<()> {
    let house = house()?;
    let mut ids = HashSet::new();
    for _ in 0..8 {
        shell(&house, false, "exit 0")?.expect_code(0)?;
        let id = last_record(&house)?["run"].as_str().context("no id")?.to_owned();
        let (time, random) = id.rsplit_once('-').context("no two parts")?;
        ensure!(random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        ensure!(time.bytes().filter(u8::is_ascii_digit).count() == 14, "{id} has no time to the second");
        ids.insert(id);
    }
    ensure!(ids.len() == 8, "an id came twice: {ids:?}");
    Ok(())
}

/// The newest record, and the ledger, say so.
fn check(house: &House, what: &str, failed: Option<&str>) -> Result<()> {
    let record = last_record(house)?;
    let verdict = record["verdict"].to_string();
    let fits = match failed {
        None => verdict == "\"completed\"",
        Some(text) => verdict.starts_with("{\"failed\"") && verdict.contains(text),
    };
    ensure!(fits, "{what}: {record}");
    ensure!(last_facts(house)?["verdict"] == record["verdict"], "{what}: ledger and record differ");
    Ok(())
}

fn last_record(house: &House) -> Result<Value> {
    let run = super::reports(house)?.pop().context("no report")?["run"].as_str().context("no run")?.to_owned();
    let bytes = std::fs::read(house.state().join(format!("runs/{run}.json"))).context("read the record")?;
    serde_json::from_slice(&bytes).context("parse the record")
}

fn records(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect()
}
