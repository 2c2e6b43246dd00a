//! The scripted model: from a conversation, or from a script, to what is answered next.

use std::time::Duration;

use serde_json::{Value, json};

/// One answer of the model, beat by beat.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answer(pub Vec<Beat>);

/// A part of an answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Beat {
    Text(String),
    /// A call of a tool of the agent's.
    Tool {
        name: String,
        input: Value,
    },
    /// The stream says nothing for so long.
    Silence(Duration),
    /// The same, with a `ping` event each second.
    Pings(Duration),
    /// So many pieces of text, with a pause before each.
    Drip {
        pieces: u32,
        every: Duration,
    },
    /// An `error` event in the stream, which ends it.
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

    /// A call of claude's shell tool.
    #[must_use]
    pub fn shell(command: &str) -> Self {
        Self(vec![Beat::shell(command)])
    }

    /// What the markers in the newest text of the user ask for: tool calls one by one, then everything else at once.
    /// Without markers the answer is `DONE`.
    pub(crate) fn from_conversation(request: &Value) -> Self {
        let (text, results) = newest(request);
        let (calls, rest): (Vec<Beat>, Vec<Beat>) =
            markers(&text).into_iter().partition(|beat| matches!(beat, Beat::Tool { .. }));
        if let Some(call) = calls.into_iter().nth(results) {
            return Self(vec![call]);
        }
        let mut beats = rest;
        if !beats.iter().any(|beat| matches!(beat, Beat::Text(_) | Beat::Error { .. })) {
            beats.push(Beat::Text("DONE".into()));
        }
        Self(beats)
    }

    pub(crate) fn stop_reason(&self) -> &'static str {
        if self.0.iter().any(|beat| matches!(beat, Beat::Tool { .. })) { "tool_use" } else { "end_turn" }
    }
}

impl Beat {
    fn shell(command: &str) -> Self {
        Self::Tool { name: "Bash".into(), input: json!({"command": command, "description": "stand-in"}) }
    }

    fn from_marker(name: &str, rest: &str) -> Option<Self> {
        let seconds = |text: &str| text.trim().parse::<f64>().ok().and_then(|n| Duration::try_from_secs_f64(n).ok());
        match name {
            "text" => Some(Self::Text(rest.to_owned())),
            "sh" => Some(Self::shell(rest)),
            "sleep" => seconds(rest).map(Self::Silence),
            "ping" => seconds(rest).map(Self::Pings),
            "drip" => Some(Self::Drip { pieces: rest.trim().parse().ok()?, every: Duration::from_secs(1) }),
            "error" => Some(Self::Error { kind: rest.to_owned(), message: format!("stand-in: {rest}") }),
            _ => None,
        }
    }
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

/// The newest text that the user typed, and how many tool results came after it.
fn newest(request: &Value) -> (String, usize) {
    let mut results = 0;
    for message in request["messages"].as_array().into_iter().flatten().rev().filter(|m| m["role"] == "user") {
        let (text, more) = content(&message["content"]);
        results += more;
        if more == 0 && !text.trim().is_empty() || !markers(&text).is_empty() {
            return (text, results);
        }
    }
    (String::new(), results)
}

/// The typed text of a message's content, without what the agent adds by itself, and its tool results.
fn content(content: &Value) -> (String, usize) {
    if let Some(text) = content.as_str() {
        return (typed(text).unwrap_or_default().to_owned(), 0);
    }
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let results = blocks.iter().filter(|block| block["type"] == "tool_result").count();
    let texts = blocks.iter().filter_map(|block| block["text"].as_str()).filter_map(typed);
    (texts.collect::<Vec<_>>().join("\n"), results)
}

fn typed(text: &str) -> Option<&str> {
    (!text.trim_start().starts_with("<system-reminder>")).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{Answer, Beat};

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": [{"type": "text", "text": "<system-reminder><<text:no>></system-reminder>"}, {"type": "text", "text": text}]})
    }

    fn result() -> Value {
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "out"}]})
    }

    fn answer(messages: &[Value]) -> Answer {
        Answer::from_conversation(&json!({ "messages": messages }))
    }

    #[test]
    fn tool_calls_come_one_by_one_then_the_rest_at_once() {
        let prompt = user("do <<sh:echo a>> and <<sh:echo b>> <<sleep:2>><<text:ready>>");
        let said = json!({"role": "assistant", "content": []});
        assert_eq!(answer(std::slice::from_ref(&prompt)), Answer::shell("echo a"));
        assert_eq!(answer(&[prompt.clone(), said.clone(), result()]), Answer::shell("echo b"));
        let last = answer(&[prompt, said.clone(), result(), said, result()]);
        assert_eq!(last, Answer(vec![Beat::Silence(Duration::from_secs(2)), Beat::Text("ready".into())]));
    }

    #[test]
    fn without_markers_the_answer_is_done() {
        for text in ["hello", "a << b >> c", "<<nothing:x>>", "<<sleep:x>>"] {
            assert_eq!(answer(&[user(text)]), Answer::text("DONE"), "{text}");
        }
        assert_eq!(answer(&[]), Answer::text("DONE"));
    }

    #[test]
    fn the_newest_text_counts() {
        assert_eq!(answer(&[user("<<text:old>>"), user("<<text:new>>")]), Answer::text("new"));
        assert_eq!(answer(&[user("<<text:old>>"), user("hi")]), Answer::text("DONE"));
    }
}
