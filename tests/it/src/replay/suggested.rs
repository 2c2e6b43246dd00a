//! What was refused to the runs of a day makes grants that let exactly that through.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use harness::files::put;

use super::day::{Day, Sent};
use super::{becomes, lines_of, replay, text};

/// For each box: its refused calls are suggested, pasted, and the whole day judged again.
pub(super) fn pasted() -> Result<()> {
    let mut day = Day::recorded()?;
    day.house.term()?;
    let text_before = std::fs::read_to_string(day.house.config()).context("read the configuration")?;
    for by in ["one", "two", "three"] {
        let run = day.house.ledger()?.into_iter().find(|line| line["box"] == by && line["kind"] == "request");
        let run = run.context("no request of the box")?["run"].as_str().context("no run")?.to_owned();
        let ran = day.house.gateway(&["suggest", "--run", &run])?.expect_code(0)?;
        let suggested = String::from_utf8_lossy(&ran.stdout).into_owned();
        for word in [
            "durable-credential",
            "sentinel-astray",
            "provider-egress",
            "mcp-refused",
            "upgrade-refused",
            "inside nobody knows",
        ] {
            ensure!(suggested.contains(word), "{word} is not told: {suggested}");
        }
        ensure!(suggested.contains("paths = [\"/v2/*\"]"), "three alike are one: {suggested}");
        let file = day.house.folder().join(format!("pasted-{by}.toml"));
        put(&file, format!("{text_before}{suggested}").as_bytes(), 0o600)?;
        let ran = replay(&day.house, &["--config", &file.display().to_string(), "--each", "--json"])?;
        ensure!(ran.code == Some(1), "{ran:?}");
        let (told, _) = lines_of(&ran)?;
        let is_new = |one: &&serde_json::Value| becomes(one).contains("-> allow");
        let through: BTreeSet<_> =
            told.iter().filter(is_new).map(|one| (text(&one["box"]), text(&one["path"]))).collect();
        let is_meant = |sent: &&Sent| sent.by == by && sent.what.reason() == Some("no-grant");
        let meant: BTreeSet<_> = day.sent.iter().filter(is_meant).map(|sent| (sent.by, sent.path.as_str())).collect();
        ensure!(through == meant && meant.len() > 14, "{through:?} and not {meant:?} by {suggested}");
        // Of what came again only a number is left, and nothing else changes or is in doubt.
        let others = told.iter().filter(|one| !is_new(one));
        let doubts: Vec<_> = others.filter(|one| one["path"] != "/post-0").collect();
        ensure!(doubts.is_empty(), "{doubts:?}");
    }
    Ok(())
}
