//! The scripted model: from a conversation, or from a script, to what is answered next.

use std::time::Duration;

use serde_json::Value;

/// One answer of the model, beat by beat.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answer(pub Vec<Beat>);

/// A part of an answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Beat {
    Text(String),
    /// A command for the agent's shell tool, whatever it is called.
    Shell(String),
    /// A call of the tool whose name is, or ends with, this: one of an MCP server.
    Mcp {
        tool: String,
        input: Value,
    },
    /// A call of exactly this tool.
    Tool {
        name: String,
        input: Value,
    },
    /// The stream says nothing for so long.
    Silence(Duration),
    /// The same, with a sign of life each second: a `ping` event, a comment, or a WebSocket ping.
    Pings(Duration),
    /// So many pieces of text, with a pause before each.
    Drip {
        pieces: u32,
        every: Duration,
    },
    /// An event in the stream that tells an error and ends it.
    Error {
        kind: String,
        message: String,
    },
}

impl Answer {
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self(vec![Beat::Text(text.to_owned())])
    }

    /// A call of the agent's shell tool.
    #[must_use]
    pub fn shell(command: &str) -> Self {
        Self(vec![Beat::Shell(command.to_owned())])
    }

    /// What the markers in the newest text of the user ask for, so many tool results after it: tool calls one by one, then
    /// everything else at once. Without markers the answer is `DONE`.
    pub(crate) fn from_heard(text: &str, results: usize) -> Self {
        let (calls, rest): (Vec<Beat>, Vec<Beat>) = markers(text).into_iter().partition(Beat::is_call);
        if let Some(call) = calls.into_iter().nth(results) {
            return Self(vec![call]);
        }
        let mut beats = rest;
        if !beats.iter().any(|beat| matches!(beat, Beat::Text(_) | Beat::Error { .. })) {
            beats.push(Beat::Text("DONE".into()));
        }
        Self(beats)
    }

    /// Whether the agent is to call a tool.
    pub(crate) fn has_call(&self) -> bool {
        self.0.iter().any(Beat::is_call)
    }
}

impl Beat {
    const fn is_call(&self) -> bool {
        matches!(self, Self::Shell(_) | Self::Mcp { .. } | Self::Tool { .. })
    }

    fn from_marker(name: &str, rest: &str) -> Option<Self> {
        let seconds = |text: &str| text.trim().parse::<f64>().ok().and_then(|n| Duration::try_from_secs_f64(n).ok());
        match name {
            "text" => Some(Self::Text(rest.to_owned())),
            "sh" => Some(Self::Shell(rest.to_owned())),
            "mcp" => {
                let rest = rest.trim();
                let (tool, input) = rest.split_once(' ').unwrap_or((rest, "{}"));
                Some(Self::Mcp { tool: tool.to_owned(), input: serde_json::from_str(input).ok()? })
            }
            "tool" => {
                let (name, input) = rest.trim().split_once(' ')?;
                Some(Self::Tool { name: name.to_owned(), input: serde_json::from_str(input).ok()? })
            }
            "sleep" => seconds(rest).map(Self::Silence),
            "ping" => seconds(rest).map(Self::Pings),
            "drip" => Some(Self::Drip { pieces: rest.trim().parse().ok()?, every: Duration::from_secs(1) }),
            "error" => Some(Self::Error { kind: rest.to_owned(), message: format!("stand-in: {rest}") }),
            _ => None,
        }
    }
}

/// Whether a text asks for something.
pub(crate) fn is_marked(text: &str) -> bool {
    !markers(text).is_empty()
}

/// `<<name:rest>>`, in order; what is not known is text.
fn markers(text: &str) -> Vec<Beat> {
    let mut beats = Vec::new();
    let mut left = text;
    while let Some((_, after)) = left.split_once("<<") {
        let Some((inside, behind)) = after.split_once(">>") else {
            break;
        };
        match inside.split_once(':').and_then(|(name, rest)| Beat::from_marker(name, rest)) {
            Some(beat) => {
                beats.push(beat);
                left = behind;
            }
            None => left = after,
        }
    }
    beats
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{Answer, Beat};

    #[test]
    fn tool_calls_come_one_by_one_then_the_rest_at_once() {
        let prompt = "do <<sh:echo a>> and <<mcp:echo {\"a\": 1}>> <<sleep:2>><<text:ready>>";
        assert_eq!(Answer::from_heard(prompt, 0), Answer::shell("echo a"));
        let call = Beat::Mcp { tool: "echo".into(), input: json!({"a": 1}) };
        assert_eq!(Answer::from_heard(prompt, 1), Answer(vec![call]));
        let last = Answer(vec![Beat::Silence(Duration::from_secs(2)), Beat::Text("ready".into())]);
        assert_eq!(Answer::from_heard(prompt, 2), last);
    }

    #[test]
    fn without_markers_the_answer_is_done() {
        for text in ["", "hello", "a << b >> c", "<<nothing:x>>", "<<sleep:x>>", "<<mcp:echo {>>"] {
            assert_eq!(Answer::from_heard(text, 0), Answer::text("DONE"), "{text}");
        }
    }
}
