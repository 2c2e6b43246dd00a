//! Answers in the words of OpenAI's Responses: the same events over SSE and over WebSocket, and the response as one object.

use std::time::Duration;

use serde_json::{Value, json};

use crate::model::{Answer, Beat};
use crate::offered::{Call, Input, Offered};
use crate::steps::{Step, id};

/// The streamed form of an answer.
pub(crate) fn stream(answer: &Answer, offered: &Offered, model: &str, id: &str) -> Vec<Step> {
    let mut writer = Writer::new(offered, model, id);
    for beat in &answer.0 {
        if let Beat::Error { kind, message } = beat {
            writer.fail(kind, message);
            return writer.steps;
        }
        writer.beat(beat);
    }
    writer.close();
    writer.complete();
    writer.steps
}

/// What a request is answered that only prepares the connection: no output at all.
pub(crate) fn prewarmed(model: &str, id: &str) -> Vec<Step> {
    let offered = Offered::default();
    let mut writer = Writer::new(&offered, model, id);
    writer.complete();
    writer.steps
}

/// The response as one object: what the last event of the stream holds.
pub(crate) fn whole(steps: &[Step]) -> Value {
    steps.iter().rev().find_map(Step::event).map(|event| event["response"].clone()).unwrap_or_default()
}

/// Writes output items; text that follows text stays in one message.
struct Writer<'a> {
    steps: Vec<Step>,
    offered: &'a Offered,
    response: Value,
    output: Vec<Value>,
    message: Option<Message>,
}

/// A message that is being written.
struct Message {
    id: String,
    text: String,
}

impl<'a> Writer<'a> {
    fn new(offered: &'a Offered, model: &str, id: &str) -> Self {
        let response = json!({"id": id, "object": "response", "created_at": 1_796_000_000, "status": "in_progress", "model": model,
            "output": [], "parallel_tool_calls": true, "tool_choice": "auto", "tools": []});
        let mut writer = Self { steps: Vec::new(), offered, response, output: Vec::new(), message: None };
        writer.push(json!({"type": "response.created", "response": writer.response}));
        writer
    }

    fn beat(&mut self, beat: &Beat) {
        match beat {
            Beat::Text(text) => self.text(text),
            Beat::Shell(command) => self.call(&self.offered.shell(command)),
            Beat::Mcp { tool, input } => self.call(&self.offered.mcp(tool, input)),
            Beat::Tool { name, input } => self.call(&Call::of(name, input.clone())),
            Beat::Silence(time) => {
                self.open();
                self.steps.push(Step::Pause(*time));
            }
            Beat::Pings(time) => {
                self.open();
                for _ in 0..time.as_secs() {
                    self.steps.extend([Step::Pause(Duration::from_secs(1)), Step::Ping]);
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
        let item = self.open();
        if let Some(message) = &mut self.message {
            message.text.push_str(text);
        }
        self.push(json!({"type": "response.output_text.delta", "output_index": self.output.len(), "item_id": item,
            "content_index": 0, "delta": text}));
    }

    /// Begins a message where none is open. Returns its id.
    fn open(&mut self) -> String {
        if let Some(message) = &self.message {
            return message.id.clone();
        }
        let (item, index) = (id("msg"), self.output.len());
        self.message = Some(Message { id: item.clone(), text: String::new() });
        self.push(json!({"type": "response.output_item.added", "output_index": index,
            "item": {"type": "message", "id": item, "role": "assistant", "status": "in_progress", "content": []}}));
        self.push(json!({"type": "response.content_part.added", "output_index": index, "item_id": item,
            "content_index": 0, "part": part("")}));
        item
    }

    fn close(&mut self) {
        let Some(Message { id, text }) = self.message.take() else {
            return;
        };
        let index = self.output.len();
        self.push(json!({"type": "response.output_text.done", "output_index": index, "item_id": id, "content_index": 0, "text": text}));
        self.push(json!({"type": "response.content_part.done", "output_index": index, "item_id": id, "content_index": 0, "part": part(&text)}));
        self.done(
            json!({"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [part(&text)]}),
        );
    }

    fn call(&mut self, call: &Call) {
        self.close();
        let (mut item, field, event) = match &call.input {
            Input::Json(input) => (
                json!({"type": "function_call", "id": id("fc"), "arguments": input.to_string()}),
                "arguments",
                "response.function_call_arguments",
            ),
            Input::Text(input) => (
                json!({"type": "custom_tool_call", "id": id("ctc"), "input": input}),
                "input",
                "response.custom_tool_call_input",
            ),
        };
        item["call_id"] = json!(id("call"));
        item["name"] = json!(call.name);
        if let Some(namespace) = &call.namespace {
            item["namespace"] = json!(namespace);
        }
        let (index, input) = (self.output.len(), item[field].clone());
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        begun[field] = json!("");
        self.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        self.push(
            json!({"type": format!("{event}.delta"), "output_index": index, "item_id": item["id"], "delta": input}),
        );
        self.push(json!({"type": format!("{event}.done"), "output_index": index, "item_id": item["id"], field: input}));
        item["status"] = json!("completed");
        self.done(item);
    }

    fn done(&mut self, item: Value) {
        self.push(json!({"type": "response.output_item.done", "output_index": self.output.len(), "item": item}));
        self.output.push(item);
    }

    fn complete(&mut self) {
        let mut response = self.response.clone();
        response["status"] = json!("completed");
        response["output"] = Value::Array(std::mem::take(&mut self.output));
        response["usage"] = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15});
        self.push(json!({"type": "response.completed", "response": response}));
    }

    fn fail(&mut self, kind: &str, message: &str) {
        let mut response = self.response.clone();
        response["status"] = json!("failed");
        response["error"] = json!({"code": kind, "message": message});
        self.push(json!({"type": "response.failed", "response": response}));
    }

    fn push(&mut self, mut event: Value) {
        let before = self.steps.iter().filter(|step| matches!(step, Step::Event(_))).count();
        event["sequence_number"] = json!(before);
        self.steps.push(Step::Event(event));
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{Step, stream, whole};
    use crate::model::{Answer, Beat};
    use crate::offered::Offered;

    #[test]
    fn every_item_that_is_begun_is_done_and_all_are_in_the_end() {
        let beats = vec![
            Beat::Silence(Duration::from_secs(1)),
            Beat::Text("a".into()),
            Beat::Drip { pieces: 2, every: Duration::ZERO },
            Beat::Tool { name: "read".into(), input: json!({"b": 1}) },
            Beat::Text("c".into()),
        ];
        let steps = stream(&Answer(beats), &Offered::default(), "m", "resp_1");
        let events: Vec<_> = steps.iter().filter_map(Step::event).collect();
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], json!(number), "{event}");
        }
        let of = |kind: &str| -> Vec<&Value> {
            events.iter().filter(|event| event["type"] == kind).map(|event| &event["output_index"]).collect()
        };
        let begun = of("response.output_item.added");
        assert_eq!(begun, [0, 1, 2]);
        assert_eq!(begun, of("response.output_item.done"));
        let response = whole(&steps);
        assert_eq!((&response["id"], &response["status"]), (&json!("resp_1"), &json!("completed")));
        assert_eq!(response["output"][0]["content"][0]["text"], "a0 1 ");
        assert_eq!(response["output"][1]["arguments"], "{\"b\":1}");
        assert_eq!(response["output"][2]["content"][0]["text"], "c");
    }

    #[test]
    fn an_error_ends_the_stream() {
        let beats = vec![Beat::Error { kind: "server_error".into(), message: "no".into() }, Beat::Text("a".into())];
        let steps = stream(&Answer(beats), &Offered::default(), "m", "resp_1");
        let last = steps.last().and_then(Step::event).expect("an event");
        assert_eq!((&last["type"], &last["response"]["error"]["message"]), (&json!("response.failed"), &json!("no")));
    }
}
