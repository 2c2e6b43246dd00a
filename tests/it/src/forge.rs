//! What must not compile: a permit forged, sent with another head, or used without the ledger.
//!
//! Each file in `forge/` states in its first line the one error that it is refused with; the control case compiles.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Case, Need, Tools, case, process};
use serde_json::Value;

pub(crate) const CASES: &[Case] =
    &[case("forge::a_permit_cannot_be_forged_swapped_or_used_unwritten", cannot_be_forged).needs(&[Need::Rustc])];

fn cannot_be_forged() -> Result<()> {
    let folder = Tools::workspace().join("tests/it/forge");
    let mut cases: Vec<_> =
        std::fs::read_dir(&folder).context("read the cases")?.flatten().map(|entry| entry.path()).collect();
    cases.sort();
    ensure!(cases.len() >= 14, "saw only {} cases", cases.len());
    ensure!(cases.iter().any(|path| path.ends_with("control.rs")), "saw no control case");
    for path in cases {
        let wanted = wanted(&path)?;
        let found = errors(&path)?;
        let agrees = match &wanted {
            None => found.is_empty(),
            Some(code) => !found.is_empty() && found.iter().all(|(given, _)| given == code),
        };
        ensure!(agrees, "{}: wanted {wanted:?}, got {found:#?}", path.display());
    }
    Ok(())
}

/// The error code in the first line; `None` for a case that compiles.
fn wanted(path: &Path) -> Result<Option<String>> {
    let text = std::fs::read_to_string(path).context("read a case")?;
    let first = text.lines().next().unwrap_or_default();
    if first.starts_with("//! Compiles: ") {
        return Ok(None);
    }
    let code = first.strip_prefix("//! Refused with ").and_then(|rest| rest.split(':').next());
    Ok(Some(code.with_context(|| format!("{} states no error", path.display()))?.to_owned()))
}

/// What the compiler says of a case against the gateway as it was built: code and message of each error.
fn errors(path: &Path) -> Result<Vec<(String, String)>> {
    let library = Tools::library("gateway")?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let mut rustc = Command::new("rustc");
    rustc.args([
        "--edition",
        "2024",
        "--crate-type",
        "lib",
        "--emit",
        "metadata",
        "--error-format",
        "json",
        "--cap-lints",
        "allow",
    ]);
    rustc.arg("--extern").arg(format!("gateway={}", library.display()));
    rustc.arg("-L").arg(format!("dependency={}", library.with_file_name("deps").display()));
    rustc.arg("--out-dir").arg(folder.path()).arg(path).current_dir(Tools::workspace());
    let ran = process::run(rustc, None, Duration::from_secs(60))?;
    let messages = ran.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let errors: Vec<_> = messages
        .filter(|message| message["level"] == "error" && !message["spans"].as_array().is_none_or(Vec::is_empty))
        .map(|message| (text(&message["code"]["code"]), text(&message["message"])))
        .collect();
    ensure!(errors.is_empty() == (ran.code == Some(0)), "the compiler ended with {:?}: {}", ran.code, ran.stderr);
    Ok(errors)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
