//! Real agents that are made to believe that their stand-in credential has expired.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use box_spec::Agent;

use crate::fakes::FakeAgents;
use crate::tools::Tools;

/// A tree in which the agent's program first puts the time of expiry in its own file into the past and then becomes the
/// pinned agent. The box must see [`Tools::agents`] at its own place.
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
        Agent::Codex => {
            format!(
                r#"sed -i 's/"access_token": *"[^"]*"/"access_token":"{}"/' "$CODEX_HOME/auth.json""#,
                expired_jwt()
            )
        }
        Agent::Pi => {
            r#"sed -i 's/"expires": *[0-9]*/"expires":1000000000000/' "$PI_CODING_AGENT_DIR/auth.json""#.to_owned()
        }
    };
    let program = Tools::agent(agent)?;
    let words: Vec<&str> =
        program.iter().map(|word| word.to_str().context("a path of the agent")).collect::<Result<_>>()?;
    // boxd asks codex for its models before a run.
    FakeAgents::shell_as(
        agent,
        &format!("[ \"$1\" = debug ] || {{ {edit} || exit 99; }}\nexec '{}' \"$@\"", words.join("' '")),
    )
}

/// Ended on 9 September 2001.
fn expired_jwt() -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    [part(r#"{"alg":"RS256","typ":"JWT"}"#), part(r#"{"exp":1000000000}"#), part("signature")].join(".")
}
