//! `gateway credential`: which credentials the house has, how long they last, and whether they can be used now.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::ask::{AskFault, ask, ask_patiently};

/// The credentials, one a line: name, provider, kind, end, source, state. No value.
///
/// # Errors
/// The gateway does not answer.
pub fn list(socket: &Path) -> Result<String, AskFault> {
    let (_, status) = ask(socket, "GET", "/status")?;
    Ok(readable(&status))
}

/// Has the gateway refresh logins that are due, and tells whether all (or the one of this name) can be used then. No model
/// is asked.
///
/// # Errors
/// The gateway does not answer.
pub fn test(socket: &Path, name: Option<&str>) -> Result<(bool, String), AskFault> {
    let path = name.map_or_else(|| "/credentials/test".to_owned(), |name| format!("/credentials/test/{name}"));
    let (usable, answer) = ask_patiently(socket, "POST", &path, PATIENCE)?;
    match answer["error"].as_str() {
        Some(error) => Ok((false, format!("{error}\n"))),
        None => Ok((usable, readable(&answer))),
    }
}

fn readable(answer: &Value) -> String {
    let mut out = String::new();
    for secret in answer["secrets"].as_array().into_iter().flatten() {
        let field = |name: &str| secret[name].as_str().unwrap_or("-");
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{:<20} {:<12} {:<8} {:<30} {}\n    {}",
            field("name"),
            secret["provider"].as_str().unwrap_or("a service"),
            field("kind"),
            secret["expires"].as_str().map_or_else(|| "no end known".to_owned(), |end| format!("until {end}")),
            field("source"),
            field("state")
        );
    }
    out
}

/// For each login there may be a refresh of half a minute; all of a house together get this.
const PATIENCE: Duration = Duration::from_secs(90);
