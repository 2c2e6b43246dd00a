//! Answers in the provider's words: server-sent events, the message as one object, errors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::model::{Answer, Beat};

/// A step of a streamed answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    Event(String),
    Pause(Duration),
}

/// The streamed form of an answer.
pub(crate) fn stream(answer: &Answer, model: &str) -> Vec<Step> {
    let mut steps = vec![event(&json!({"type": "message_start", "message": {
        "id": id("msg"), "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}}}))];
    let mut writer = Writer { steps: Vec::new(), index: 0, open: false };
    for beat in &answer.0 {
        if let Beat::Error { kind, message } = beat {
            writer.steps.push(event(&json!({"type": "error", "error": {"type": kind, "message": message}})));
            steps.append(&mut writer.steps);
            return steps;
        }
        writer.beat(beat);
    }
    writer.close();
    steps.append(&mut writer.steps);
    steps.push(event(
        &json!({"type": "message_delta", "delta": {"stop_reason": answer.stop_reason(), "stop_sequence": null}, "usage": {"output_tokens": 5}}),
    ));
    steps.push(event(&json!({"type": "message_stop"})));
    steps
}

/// The same answer as one object, and how long to wait before it.
pub(crate) fn whole(answer: &Answer, model: &str) -> (Duration, Value) {
    let mut wait = Duration::ZERO;
    let mut content = Vec::new();
    for beat in &answer.0 {
        match beat {
            Beat::Text(text) => content.push(json!({"type": "text", "text": text})),
            Beat::Tool { name, input } => {
                content.push(json!({"type": "tool_use", "id": id("toolu"), "name": name, "input": input}));
            }
            Beat::Silence(time) | Beat::Pings(time) => wait += *time,
            Beat::Drip { pieces, every } => {
                wait += *every * *pieces;
                content
                    .push(json!({"type": "text", "text": (0..*pieces).map(|n| format!("{n} ")).collect::<String>()}));
            }
            Beat::Error { message, .. } => content.push(json!({"type": "text", "text": message})),
        }
    }
    let message = json!({"id": id("msg"), "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": answer.stop_reason(), "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}});
    (wait, message)
}

/// An error in the provider's shape.
pub(crate) fn error_body(status: u16, message: &str) -> String {
    let kind = match status {
        400 | 413 | 417 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
}

/// Writes content blocks; text that follows text stays in one block.
struct Writer {
    steps: Vec<Step>,
    index: u32,
    open: bool,
}

impl Writer {
    fn beat(&mut self, beat: &Beat) {
        match beat {
            Beat::Text(text) => self.text(text),
            Beat::Tool { name, input } => self.tool(name, input),
            Beat::Silence(time) => {
                self.open();
                self.steps.push(Step::Pause(*time));
            }
            Beat::Pings(time) => {
                self.open();
                for _ in 0..time.as_secs() {
                    self.steps.push(Step::Pause(Duration::from_secs(1)));
                    self.steps.push(event(&json!({"type": "ping"})));
                }
            }
            Beat::Drip { pieces, every } => {
                for piece in 0..*pieces {
                    self.open();
                    self.steps.push(Step::Pause(*every));
                    self.text(&format!("{piece} "));
                }
            }
            Beat::Error { .. } => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.open();
        self.push(
            &json!({"type": "content_block_delta", "index": self.index, "delta": {"type": "text_delta", "text": text}}),
        );
    }

    fn tool(&mut self, name: &str, input: &Value) {
        self.close();
        self.push(&json!({"type": "content_block_start", "index": self.index,
            "content_block": {"type": "tool_use", "id": id("toolu"), "name": name, "input": {}}}));
        self.push(&json!({"type": "content_block_delta", "index": self.index,
            "delta": {"type": "input_json_delta", "partial_json": input.to_string()}}));
        self.open = true;
        self.close();
    }

    fn open(&mut self) {
        if !self.open {
            self.open = true;
            self.push(&json!({"type": "content_block_start", "index": self.index, "content_block": {"type": "text", "text": ""}}));
        }
    }

    fn close(&mut self) {
        if self.open {
            self.push(&json!({"type": "content_block_stop", "index": self.index}));
            self.open = false;
            self.index += 1;
        }
    }

    fn push(&mut self, data: &Value) {
        self.steps.push(event(data));
    }
}

fn event(data: &Value) -> Step {
    Step::Event(format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()))
}

fn id(kind: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{kind}_standin{:012}", NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Step, stream};
    use crate::model::{Answer, Beat};

    #[test]
    fn every_block_that_is_opened_is_closed_and_numbered() {
        let beats = vec![
            Beat::Silence(Duration::from_secs(1)),
            Beat::Text("a".into()),
            Beat::Drip { pieces: 2, every: Duration::ZERO },
            Beat::Tool { name: "Bash".into(), input: serde_json::json!({}) },
            Beat::Text("b".into()),
        ];
        let names: Vec<String> = stream(&Answer(beats), "m")
            .into_iter()
            .filter_map(|step| match step {
                Step::Event(text) => {
                    text.lines().next().and_then(|line| line.strip_prefix("event: ")).map(str::to_owned)
                }
                Step::Pause(_) => None,
            })
            .collect();
        let (start, delta, stop) = ("content_block_start", "content_block_delta", "content_block_stop");
        assert_eq!(
            names,
            [
                "message_start",
                start,
                delta,
                delta,
                delta,
                stop,
                start,
                delta,
                stop,
                start,
                delta,
                stop,
                "message_delta",
                "message_stop"
            ]
        );
    }
}
