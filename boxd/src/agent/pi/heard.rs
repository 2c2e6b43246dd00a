//! What pi has said: it ends with 0 whatever happens, so the last message is what tells an answer from an error.

use std::borrow::Cow;

use serde::Deserialize;

use crate::agent::{Answer, Word};

/// The last message of the model.
#[derive(Default, Debug)]
pub(crate) struct Heard {
    last: Option<Answer>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(default)]
    content: Content,
    #[serde(borrow, default)]
    stop_reason: Cow<'a, str>,
    error_message: Option<String>,
}

/// Blocks, or for other roles one text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Blocks(Vec<Block>),
    Text(String),
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

impl Heard {
    /// `agent_settled` alone is final: after an `agent_end` pi may try again.
    pub(in crate::agent) fn hear(&mut self, line: &[u8]) -> Option<Word> {
        let Event { kind, message } = serde_json::from_slice(line).ok()?;
        match &*kind {
            "message_end" => {
                if let Some(message) = message.filter(|message| message.role == "assistant") {
                    self.last = Some(answer(message));
                }
                None
            }
            "agent_settled" => Some(Word::Final(self.last.take().unwrap_or_else(silent))),
            // The caller gave it one more message than the prompt.
            "agent_start" => Some(Word::Anew),
            _ => None,
        }
    }

    /// The last message, of a pi that ends without settling.
    pub(in crate::agent) fn last_word(self) -> Option<Answer> {
        self.last
    }
}

fn answer(message: Message<'_>) -> Answer {
    let Message { role: _, content, stop_reason, error_message } = message;
    let is_error = matches!(&*stop_reason, "error" | "aborted");
    let text = match content {
        Content::Blocks(blocks) => {
            blocks.into_iter().filter(|block| block.kind == "text").filter_map(|block| block.text).collect()
        }
        Content::Text(text) => text,
    };
    match is_error {
        true => Answer { text: error_message.unwrap_or_else(|| stop_reason.into_owned()), is_error },
        false => Answer { text, is_error },
    }
}

/// pi settles with 0 and without a word when it cannot use its credential.
fn silent() -> Answer {
    Answer { text: "pi has asked no model".to_owned(), is_error: true }
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use box_spec::Agent;

    use crate::agent::Answer;
    use crate::agent::trial::{heard, said};

    fn answer(lines: &[&str]) -> (Option<Answer>, Option<Answer>) {
        heard(Agent::Pi, lines)
    }

    const SETTLED: &str = r#"{"type":"agent_settled","aborted":false}"#;
    const FAILED: &str = r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"500 no luck"}}"#;
    const DONE: &str = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"DO"},{"type":"text","text":"NE"}],"stopReason":"stop"}}"#;

    #[test]
    fn the_last_message_of_the_model_is_the_answer_once_pi_has_settled() {
        let other = r#"{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}"#;
        let system = r#"{"type":"message_end","message":{"role":"system","content":"be kind"}}"#;
        assert_eq!(answer(&[system, other, DONE, other, SETTLED]), (said("DONE", false), None));
        assert_eq!(answer(&[DONE]), (None, said("DONE", false)));
    }

    #[test]
    fn an_error_that_pi_gets_over_is_none() {
        let again = r#"{"type":"agent_end","messages":[],"willRetry":true}"#;
        assert_eq!(answer(&[FAILED, again]).0, None);
        assert_eq!(answer(&[FAILED, again, DONE, SETTLED]).0, said("DONE", false));
        assert_eq!(answer(&[FAILED, again, FAILED, SETTLED]).0, said("500 no luck", true));
        let aborted = r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"aborted"}}"#;
        assert_eq!(answer(&[aborted, SETTLED]).0, said("aborted", true));
    }

    #[test]
    fn an_agent_that_starts_again_takes_the_answer_back() {
        let start = r#"{"type":"agent_start"}"#;
        assert_eq!(answer(&[start, DONE, SETTLED]).0, said("DONE", false));
        assert_eq!(answer(&[start, DONE, SETTLED, start]), (None, None));
        assert_eq!(answer(&[start, DONE, SETTLED, start, FAILED, SETTLED]).0, said("500 no luck", true));
    }

    #[test]
    fn a_pi_that_asks_no_model_has_failed() {
        assert_eq!(answer(&[SETTLED]).0, said("pi has asked no model", true));
        for other in ["", "[]", "text", r#"{"type":"agent_settled""#, r#"{"type":7}"#] {
            assert_eq!(answer(&[other]), (None, None), "{other}");
        }
    }
}
