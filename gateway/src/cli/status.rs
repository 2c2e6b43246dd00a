//! `gateway status`: what a running gateway has, holds and misses.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use super::ask::{AskFault, ask};

/// The status of the gateway behind this socket, as text for people or as JSON.
///
/// # Errors
/// The gateway does not answer.
pub fn run(socket: &Path, as_json: bool) -> Result<String, AskFault> {
    let (_, status) = ask(socket, "GET", "/status")?;
    if as_json {
        return Ok(format!("{status:#}\n"));
    }
    Ok(readable(&status))
}

fn readable(status: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut out = String::new();
    let ledger = &status["ledger"];
    let writable = if ledger["writable"] == true {
        "writable".to_owned()
    } else {
        format!("NOT WRITABLE: {}", text(&ledger["last_error"]))
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "gateway {}   house {}", text(&status["version"]), text(&status["house"]));
    let _ = writeln!(out, "ledger  {writable}, {} lines, head {}", ledger["lines"], text(&ledger["head"]));
    let config = &status["config"];
    let digest: String = text(&config["sha256"]).chars().take(12).collect();
    let _ = writeln!(out, "config  {digest} since {}", text(&config["since"]));
    if let Some(why) = config["refused"]["why"].as_str() {
        let when = text(&config["refused"]["when"]);
        let _ = writeln!(out, "config  NOT RELOADED at {when}, the one above stays: {why}");
    }
    let _ = writeln!(out, "alarms  {}   refusals {}", status["alarms"], status["refusals"]);
    let _ = writeln!(out, "open    {} connections, {} tasks", status["connections"], status["tasks"]);
    for secret in status["secrets"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "secret  {}  {}  {}",
            text(&secret["name"]),
            secret["provider"].as_str().map_or_else(
                || "of a service".to_owned(),
                |provider| format!("{provider} {}", secret["kind"].as_str().unwrap_or("of either kind"))
            ),
            text(&secret["state"])
        );
    }
    for door in status["boxes"].as_array().into_iter().flatten() {
        let run =
            door["run"].as_str().map_or_else(String::new, |run| format!("  run {run} since {}", text(&door["since"])));
        let _ = writeln!(
            out,
            "box     {}  {}{run}  {} requests, {} refusals{}",
            text(&door["box_id"]),
            text(&door["state"]),
            door["requests"],
            door["refusals"],
            network(door)
        );
    }
    out
}

/// A unix door is where its box was given it; a TCP door may be open to more than its box.
fn network(door: &Value) -> String {
    match door["door"].as_str().filter(|_| door["over_network"] == true) {
        Some(address) if address.starts_with("0.0.0.0:") || address.starts_with("[::]:") => {
            format!("  at {address}, EVERY interface of the house")
        }
        Some(address) => format!("  at {address}"),
        None => String::new(),
    }
}
