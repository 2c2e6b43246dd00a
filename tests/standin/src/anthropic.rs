//! Answers in Anthropic's words: the events of a message, and the message as one object.

use std::time::Duration;

use serde_json::{Value, json};

use crate::model::{Answer, Beat};
use crate::offered::{Call, Offered};
use crate::steps::{Step, id};

/// The streamed form of an answer.
pub(crate) fn stream(answer: &Answer, offered: &Offered, model: &str, id: &str) -> Vec<Step> {
    let mut steps = vec![Step::Event(json!({"type": "message_start", "message": {
        "id": id, "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}}}))];
    let mut writer = Writer { steps: Vec::new(), offered, index: 0, open: false };
    for beat in &answer.0 {
        if let Beat::Error { kind, message } = beat {
            writer.push(json!({"type": "error", "error": {"type": kind, "message": message}}));
            steps.append(&mut writer.steps);
            return steps;
        }
        writer.beat(beat);
    }
    writer.close();
    steps.append(&mut writer.steps);
    steps.push(Step::Event(
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason(answer), "stop_sequence": null}, "usage": {"output_tokens": 5}}),
    ));
    steps.push(Step::Event(json!({"type": "message_stop"})));
    steps
}

/// The same answer as one object.
pub(crate) fn whole(answer: &Answer, offered: &Offered, model: &str, id: &str) -> Value {
    let mut content = Vec::new();
    for beat in &answer.0 {
        match beat {
            Beat::Text(text) => content.push(json!({"type": "text", "text": text})),
            Beat::Shell(command) => content.push(block(&offered.shell(command), true)),
            Beat::Mcp { tool, input } => content.push(block(&offered.mcp(tool, input), true)),
            Beat::Tool { name, input } => content.push(block(&Call::of(name, input.clone()), true)),
            Beat::Silence(_) | Beat::Pings(_) => {}
            Beat::Drip { pieces, every: _ } => {
                content
                    .push(json!({"type": "text", "text": (0..*pieces).map(|n| format!("{n} ")).collect::<String>()}));
            }
            Beat::Error { message, .. } => content.push(json!({"type": "text", "text": message})),
        }
    }
    json!({"id": id, "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop_reason(answer), "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}})
}

/// Writes content blocks; text that follows text stays in one block.
struct Writer<'a> {
    steps: Vec<Step>,
    offered: &'a Offered,
    index: u32,
    open: bool,
}

impl Writer<'_> {
    fn beat(&mut self, beat: &Beat) {
        match beat {
            Beat::Text(text) => self.text(text),
            Beat::Shell(command) => self.tool(&self.offered.shell(command)),
            Beat::Mcp { tool, input } => self.tool(&self.offered.mcp(tool, input)),
            Beat::Tool { name, input } => self.tool(&Call::of(name, input.clone())),
            Beat::Silence(time) => {
                self.open();
                self.steps.push(Step::Pause(*time));
            }
            Beat::Pings(time) => {
                self.open();
                for _ in 0..time.as_secs() {
                    self.steps.push(Step::Pause(Duration::from_secs(1)));
                    self.push(json!({"type": "ping"}));
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
            json!({"type": "content_block_delta", "index": self.index, "delta": {"type": "text_delta", "text": text}}),
        );
    }

    fn tool(&mut self, call: &Call) {
        self.close();
        self.push(json!({"type": "content_block_start", "index": self.index, "content_block": block(call, false)}));
        self.push(json!({"type": "content_block_delta", "index": self.index,
            "delta": {"type": "input_json_delta", "partial_json": call.input.to_json().to_string()}}));
        self.open = true;
        self.close();
    }

    fn open(&mut self) {
        if !self.open {
            self.open = true;
            self.push(json!({"type": "content_block_start", "index": self.index, "content_block": {"type": "text", "text": ""}}));
        }
    }

    fn close(&mut self) {
        if self.open {
            self.push(json!({"type": "content_block_stop", "index": self.index}));
            self.open = false;
            self.index += 1;
        }
    }

    fn push(&mut self, data: Value) {
        self.steps.push(Step::Event(data));
    }
}

/// The block of a call; while it is streamed, the input comes after it.
fn block(call: &Call, with_input: bool) -> Value {
    let input = if with_input { call.input.to_json() } else { json!({}) };
    json!({"type": "tool_use", "id": id("toolu"), "name": call.name, "input": input})
}

fn stop_reason(answer: &Answer) -> &'static str {
    if answer.has_call() { "tool_use" } else { "end_turn" }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::stream;
    use crate::model::{Answer, Beat};
    use crate::offered::Offered;

    #[test]
    fn every_block_that_is_opened_is_closed_and_numbered() {
        let beats = vec![
            Beat::Silence(Duration::from_secs(1)),
            Beat::Text("a".into()),
            Beat::Drip { pieces: 2, every: Duration::ZERO },
            Beat::Tool { name: "Bash".into(), input: serde_json::json!({}) },
            Beat::Text("b".into()),
        ];
        let steps = stream(&Answer(beats), &Offered::default(), "m", "msg_1");
        let names: Vec<&str> = steps.iter().filter_map(|step| step.event()?["type"].as_str()).collect();
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
