//! `gateway reload`: has a running gateway read its configuration again, and says what came of it.

use std::path::Path;

use super::ask::{AskFault, ask};

/// Tells whether the configuration is the house's now, and what happened.
///
/// # Errors
/// The gateway does not answer.
pub fn run(socket: &Path) -> Result<(bool, String), AskFault> {
    let (done, answer) = ask(socket, "POST", "/reload")?;
    if !done {
        return Ok((false, format!("{}\n", answer["error"].as_str().unwrap_or("the gateway refused"))));
    }
    let cut = match answer["cut"].as_u64() {
        Some(0) | None => String::new(),
        Some(1) => "; one request under way is no longer allowed and was ended".to_owned(),
        Some(count) => format!("; {count} requests under way are no longer allowed and were ended"),
    };
    let digest: String = answer["config"].as_str().unwrap_or_default().chars().take(12).collect();
    Ok((true, format!("the configuration {digest} is in force{cut}\n")))
}
