//! Real agents behind a script that does something first.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use box_spec::Agent;
use box_spec::wire::SENTINEL_ACCOUNT;

use crate::boxes::SECOND;
use crate::fakes::FakeAgents;
use crate::tools::Tools;

/// A tree in which the agent's program first puts the time of expiry in its own file into the past and then becomes the
/// pinned agent. The box must be shown [`Tools::agents`] as its second folder.
///
/// # Errors
///
/// When the agent is not installed, or a file cannot be written.
pub fn expired(agent: Agent) -> Result<FakeAgents> {
    let edit = match agent {
        Agent::Claude => {
            r#"sed -i 's/"expiresAt": *[0-9]*/"expiresAt":1000000000000/' "$CLAUDE_CONFIG_DIR/.credentials.json""#
                .to_owned()
        }
        // Without an account codex thinks of no refresh: it says that somebody else logged in, and goes on.
        Agent::Codex => format!(
            r#"sed -i 's/"access_token": *"[^"]*"/"account_id":"{SENTINEL_ACCOUNT}","access_token":"{}"/' "$CODEX_HOME/auth.json""#,
            expired_jwt()
        ),
        Agent::Pi => {
            r#"sed -i 's/"expires": *[0-9]*/"expires":1000000000000/' "$PI_CODING_AGENT_DIR/auth.json""#.to_owned()
        }
    };
    wrapped(agent, &edit)
}

/// A tree in which the agent's program waits before it becomes the pinned agent, so that a test can do something between
/// the claim and the first request. The box must be shown [`Tools::agents`] as its second folder.
///
/// # Errors
///
/// When the agent is not installed, or a file cannot be written.
pub fn late(agent: Agent, seconds: u32) -> Result<FakeAgents> {
    wrapped(agent, &format!("sleep {seconds}"))
}

fn wrapped(agent: Agent, first: &str) -> Result<FakeAgents> {
    let inside = |word: &PathBuf| {
        let within = word.strip_prefix(Tools::agents()).context("the agent lies elsewhere")?;
        Ok(Path::new(SECOND).join(within).display().to_string())
    };
    let words: Vec<String> = Tools::agent(agent)?.iter().map(inside).collect::<Result<_>>()?;
    // boxd asks codex for its models before a run.
    FakeAgents::shell_as(
        agent,
        &format!("[ \"$1\" = debug ] || {{ {first} || exit 99; }}\nexec '{}' \"$@\"", words.join("' '")),
    )
}

/// Ended on 9 September 2001.
fn expired_jwt() -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    [part(r#"{"alg":"RS256","typ":"JWT"}"#), part(r#"{"exp":1000000000}"#), part("signature")].join(".")
}
