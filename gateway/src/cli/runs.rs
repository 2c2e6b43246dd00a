//! `gateway runs`: which runs hold doors, and opening a door that was shut.

use std::fmt::Write;
use std::path::Path;

use box_spec::{BoxId, RunId};

use super::ask::{AskFault, ask};

/// The doors and their runs, one a line.
///
/// # Errors
/// The gateway does not answer.
pub fn list(socket: &Path) -> Result<String, AskFault> {
    let (_, status) = ask(socket, "GET", "/status")?;
    let mut out = String::new();
    for door in status["boxes"].as_array().into_iter().flatten() {
        let field = |name: &str| door[name].as_str().unwrap_or("-").to_owned();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:<20} {:<8} {:<24} {}", field("box_id"), field("state"), field("run"), field("since"));
    }
    Ok(out)
}

/// Ends a run. Tells whether it was done, and what happened.
///
/// # Errors
/// The gateway does not answer.
pub fn stop(socket: &Path, run: &RunId) -> Result<(bool, String), AskFault> {
    let (done, answer) = ask(socket, "POST", &format!("/runs/stop/{run}"))?;
    let said = if done {
        format!(
            "run {run} of box {} is stopped: its token is dead, and what it had open is cut\n",
            answer["box"].as_str().unwrap_or("?")
        )
    } else {
        format!("{}\n", answer["error"].as_str().unwrap_or("the gateway refused"))
    };
    Ok((done, said))
}

/// Frees the door of a box whose run was lost. Tells whether it was done, and what happened.
///
/// # Errors
/// The gateway does not answer.
pub fn release(socket: &Path, box_id: &BoxId) -> Result<(bool, String), AskFault> {
    let (done, answer) = ask(socket, "POST", &format!("/runs/release/{box_id}"))?;
    let said = if done {
        format!("the door of box {box_id} is free; it was shut by run {}\n", answer["run"].as_str().unwrap_or("?"))
    } else {
        format!("{}\n", answer["error"].as_str().unwrap_or("the gateway refused"))
    };
    Ok((done, said))
}
