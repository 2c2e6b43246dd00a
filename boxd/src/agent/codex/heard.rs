//! What codex has said: the text comes before the event that says that the turn is over.

use std::borrow::Cow;

use serde::Deserialize;

use crate::agent::{Answer, Word};

/// The last of what was heard that may be the answer.
#[derive(Default, Debug)]
pub(crate) struct Heard {
    text: String,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    item: Option<Item<'a>>,
    /// Of `turn.failed`.
    error: Option<Fault>,
    /// Of `error`.
    message: Option<String>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Fault {
    message: Option<String>,
}

impl Heard {
    /// `turn.completed` and `turn.failed` are final. An `error` is not: "Reconnecting... 1/5" is one.
    pub(in crate::agent) fn hear(&mut self, line: &[u8]) -> Option<Word> {
        let Event { kind, item, error, message } = serde_json::from_slice(line).ok()?;
        match &*kind {
            "item.completed" => {
                if let Some(text) = item.filter(|item| item.kind == "agent_message").and_then(|item| item.text) {
                    self.text = text;
                }
                None
            }
            "error" => {
                self.error = message;
                None
            }
            "turn.started" => {
                *self = Self::default();
                Some(Word::Anew)
            }
            "turn.completed" => Some(Word::Final(Answer { text: std::mem::take(&mut self.text), is_error: false })),
            "turn.failed" => {
                let told = error.and_then(|fault| fault.message).or_else(|| self.error.take());
                let text = told.unwrap_or_else(|| "the turn failed".to_owned());
                Some(Word::Final(Answer { text, is_error: true }))
            }
            _ => None,
        }
    }

    /// The last error, where no turn has ended.
    pub(in crate::agent) fn last_word(self) -> Option<Answer> {
        self.error.map(|text| Answer { text, is_error: true })
    }
}

#[cfg(test)]
mod tests {
    use box_spec::Agent;

    use crate::agent::Answer;
    use crate::agent::trial::{heard, said};

    fn answer(lines: &[&str]) -> (Option<Answer>, Option<Answer>) {
        heard(Agent::Codex, lines)
    }

    #[test]
    fn the_last_message_is_the_answer_of_a_completed_turn() {
        let lines = [
            r#"{"type":"thread.started","thread_id":"t"}"#,
            r#"{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"wait"}}"#,
            r#"{"type":"item.completed","item":{"id":"item_1","type":"command_execution","text":"no","exit_code":0}}"#,
            r#"{"type":"item.started","item":{"id":"item_2","type":"agent_message","text":"part"}}"#,
            r#"{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"DONE"}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":20}}"#,
        ];
        assert_eq!(answer(&lines), (said("DONE", false), None));
        assert_eq!(answer(&lines[..5]), (None, None), "a text alone is no end");
    }

    #[test]
    fn a_lost_connection_is_no_end_and_a_failed_turn_is() {
        let lost = r#"{"type":"error","message":"Reconnecting... 1/5"}"#;
        let failed = r#"{"type":"turn.failed","error":{"message":"no luck"}}"#;
        assert_eq!(answer(&[lost]), (None, said("Reconnecting... 1/5", true)));
        assert_eq!(answer(&[lost, failed]).0, said("no luck", true));
        assert_eq!(answer(&[lost, r#"{"type":"turn.failed"}"#]).0, said("Reconnecting... 1/5", true));
    }

    #[test]
    fn a_turn_that_begins_takes_the_answer_back() {
        let (started, completed) = (r#"{"type":"turn.started"}"#, r#"{"type":"turn.completed"}"#);
        assert_eq!(answer(&[started, completed]).0, said("", false));
        assert_eq!(answer(&[started, completed, started]), (None, None));
        let (text, lost) = (
            r#"{"type":"item.completed","item":{"type":"agent_message","text":"old"}}"#,
            r#"{"type":"error","message":"old"}"#,
        );
        assert_eq!(answer(&[started, text, lost, started, completed]), (said("", false), None), "of the turn before");
    }

    #[test]
    fn what_is_no_event_is_passed_over() {
        for other in ["", "[]", "plain text", r#"{"type":"turn.completed""#, r#"{"type":7}"#, r#"{"item":{}}"#] {
            assert_eq!(answer(&[other]), (None, None), "{other}");
        }
    }
}
