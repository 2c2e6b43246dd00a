//! A changed `box/house/house.toml` is read by the house that runs, also where an editor renames it into place.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::{Case, Generation, case, files, until};

use super::{House, MINUTES, NEEDS};

pub(crate) const CASES: &[Case] =
    &[case("docker::a_house_that_is_changed_is_read_again", || changed(Generation::Old)).needs(NEEDS).alone()];

fn changed(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    let path = house.engine.project().join("box/house/house.toml");
    let before = std::fs::read_to_string(&path).context("read the house")?;
    let taken = house.reloads()?;
    let grant = "[[grant]]\nname = \"later\"\nhosts = \"later.test\"\nmethods = \"GET\"\n";
    rename_over(&path, &format!("{before}\n{grant}"))?;
    let applied = until("the change is taken", MINUTES, || house.reloads().ok().filter(|all| *all > taken));
    rename_over(&path, &before)?;
    until("the change is taken back", MINUTES, || house.reloads().ok().filter(|all| *all > taken + 1))?;
    ensure!(applied? == taken + 1, "one change was taken more than once");
    house.ledger_is_whole()
}

/// As an editor saves.
fn rename_over(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension("fresh");
    files::put(&fresh, text.as_bytes(), 0o644)?;
    std::fs::rename(&fresh, path).context("rename the house into place")
}

impl House {
    /// How many changes of the configuration the house has taken.
    fn reloads(&self) -> Result<usize> {
        let told =
            self.engine.must(self.engine.compose(&["exec", "-T", "gateway", "cat", "/data/state/ledger.jsonl"]))?;
        let lines = told.text();
        Ok(lines
            .lines()
            .filter(|line| line.contains("\"kind\":\"config\"") && line.contains("\"applied\":true"))
            .count())
    }
}
