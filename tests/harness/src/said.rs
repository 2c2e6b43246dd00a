//! What an agent said in the end, read from its own events.

use anyhow::{Context, Result};
use box_spec::Agent;
use serde_json::Value;

use crate::process::Ran;

/// The end of a run, as the agent itself tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// The answer, or why there is none.
    pub text: String,
    /// The agent calls it a failure. pi's exit code does not tell.
    pub failed: bool,
}

impl Ran {
    /// What the agent said in the end. Needs its native output.
    ///
    /// # Errors
    ///
    /// When no event tells; tells what the program said.
    pub fn said(&self, agent: Agent) -> Result<Said> {
        let events = self.events();
        let said = match agent {
            Agent::Claude => claude(&events),
            Agent::Codex => codex(&events),
            Agent::Pi => pi(&events),
        };
        said.with_context(|| format!("{agent} told no end\nstderr: {}\nstdout: {}", self.stderr, self.text()))
    }
}

fn claude(events: &[Value]) -> Option<Said> {
    let result = events.iter().rev().find(|event| event["type"] == "result")?;
    Some(Said { text: text(&result["result"]), failed: result["is_error"] == true })
}

/// The turn's end decides; `error` events before it are not final.
fn codex(events: &[Value]) -> Option<Said> {
    let end = events.iter().rev().find(|event| event["type"] == "turn.completed" || event["type"] == "turn.failed")?;
    if end["type"] == "turn.failed" {
        return Some(Said { text: text(&end["error"]["message"]), failed: true });
    }
    let messages = events.iter().filter(|event| event["type"] == "item.completed");
    let last = messages.rev().find(|event| event["item"]["type"] == "agent_message");
    Some(Said { text: last.map(|event| text(&event["item"]["text"])).unwrap_or_default(), failed: false })
}

/// The last message of the assistant's, after all retries.
fn pi(events: &[Value]) -> Option<Said> {
    let ended = events.iter().rev().filter(|event| event["type"] == "message_end");
    let last = ended.map(|event| &event["message"]).find(|message| message["role"] == "assistant")?;
    let parts = last["content"].as_array().into_iter().flatten();
    let said: String = parts.filter_map(|part| part["text"].as_str()).collect();
    match last["stopReason"].as_str()? {
        "error" | "aborted" => Some(Said { text: text(&last["errorMessage"]), failed: true }),
        _ => Some(Said { text: said, failed: false }),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use box_spec::Agent;

    use crate::process::Ran;

    #[test]
    fn the_last_word_counts_and_a_failure_is_one() {
        let cases = [
            (Agent::Claude, r#"{"type":"result","result":"a","is_error":false}"#, Some(("a", false))),
            (Agent::Claude, r#"{"type":"result","result":"no","is_error":true}"#, Some(("no", true))),
            (Agent::Claude, r#"{"type":"assistant"}"#, None),
            (
                Agent::Codex,
                "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"a\"}}\n{\"type\":\"error\",\"message\":\"Reconnecting\"}\n{\"type\":\"turn.completed\"}",
                Some(("a", false)),
            ),
            (Agent::Codex, r#"{"type":"turn.failed","error":{"message":"no"}}"#, Some(("no", true))),
            (Agent::Codex, r#"{"type":"error","message":"Reconnecting... 1/5"}"#, None),
            (
                Agent::Pi,
                r#"{"type":"message_end","message":{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"a"}]}}"#,
                Some(("a", false)),
            ),
            (
                Agent::Pi,
                r#"{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"no","content":[]}}"#,
                Some(("no", true)),
            ),
        ];
        for (agent, output, expected) in cases {
            let stdout = output.as_bytes().to_vec();
            let ran = Ran { code: Some(0), signal: None, stdout, stderr: String::new(), took: Duration::ZERO };
            let said = ran.said(agent).ok();
            let said = said.as_ref().map(|said| (said.text.as_str(), said.failed));
            assert_eq!(said, expected, "{agent}: {output}");
        }
    }
}
