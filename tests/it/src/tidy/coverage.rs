//! The table of `docs/coverage.md`: every test that it names exists, and it has the rows that it had.

use anyhow::{Context, Result, ensure};
use harness::Tools;

use super::sources;

pub(super) fn names_exist() -> Result<()> {
    let page = std::fs::read_to_string(Tools::workspace().join("docs/coverage.md")).context("read docs/coverage.md")?;
    let sources = sources::rust()?;
    let cases = sources::cases(&sources)?;
    let mut findings = Vec::new();
    let (mut rows, mut gaps) = (0, 0);
    for row in
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what ") && !line.starts_with("| -"))
    {
        rows += 1;
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
        gaps += usize::from(names.is_empty());
        for name in names {
            let exists = match name.split_once(".rs::") {
                Some((file, test)) => sources
                    .iter()
                    .any(|source| source.path == format!("{file}.rs") && source.text.contains(&format!("fn {test}()"))),
                // Cells are made from tables; a name may stand for all that begin with it.
                None if name.starts_with("matrix::") => crate::matrix::names().any(|cell| cell.starts_with(name)),
                None => cases.contains(name),
            };
            if !exists {
                findings.push(format!("there is no {name}"));
            }
        }
    }
    ensure!(rows >= ROWS && gaps == GAPS, "the table has {rows} rows, {gaps} of them without a test");
    sources::none_of(&findings)
}

/// `docs/agents.md` tells of every cell of the matrix what the matrix itself expects.
pub(super) fn matrix_is_published() -> Result<()> {
    let page = std::fs::read_to_string(Tools::workspace().join("docs/agents.md")).context("read docs/agents.md")?;
    ensure!(crate::matrix::names().count() >= 150, "saw only {} cells", crate::matrix::names().count());
    sources::none_of(&crate::matrix::findings(&page))
}

/// Never fewer than before; more with each issue.
const ROWS: usize = 202;
/// Rows that say "no test yet". Never more than before.
const GAPS: usize = 0;
