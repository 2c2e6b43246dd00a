//! Answers in the words of chat completions: chunks of a stream, and the completion as one object.

use std::time::Duration;

use serde_json::{Value, json};

use crate::model::{Answer, Beat};
use crate::offered::{Call, Offered};
use crate::steps::{Step, id};

/// The streamed form of an answer.
pub(crate) fn stream(answer: &Answer, offered: &Offered, model: &str, id: &str) -> Vec<Step> {
    let chunk = |delta: Value, finish: Value| {
        Step::Event(json!({"id": id, "object": "chat.completion.chunk", "created": 1_796_000_000, "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let text = |text: &str| chunk(json!({ "content": text }), Value::Null);
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    let mut calls = 0;
    for beat in &answer.0 {
        match beat {
            Beat::Text(said) => steps.push(text(said)),
            Beat::Silence(time) => steps.push(Step::Pause(*time)),
            Beat::Pings(time) => {
                for _ in 0..time.as_secs() {
                    steps.extend([Step::Pause(Duration::from_secs(1)), Step::Ping]);
                }
            }
            Beat::Drip { pieces, every } => {
                for piece in 0..*pieces {
                    steps.extend([Step::Pause(*every), text(&format!("{piece} "))]);
                }
            }
            Beat::Error { kind, message } => {
                steps.push(Step::Event(
                    json!({"error": {"message": message, "type": kind, "param": null, "code": null}}),
                ));
                return steps;
            }
            Beat::Shell(_) | Beat::Mcp { .. } | Beat::Tool { .. } => {
                if let Some(call) = call(beat, offered) {
                    let mut call = tool_call(&call);
                    call["index"] = json!(calls);
                    calls += 1;
                    steps.push(chunk(json!({"tool_calls": [call]}), Value::Null));
                }
            }
        }
    }
    steps.push(chunk(json!({}), json!(finish(answer))));
    steps.push(Step::Event(
        json!({"id": id, "object": "chat.completion.chunk", "created": 1_796_000_000, "model": model,
        "choices": [], "usage": usage()}),
    ));
    steps.push(Step::Word("[DONE]"));
    steps
}

/// The same answer as one object.
pub(crate) fn whole(answer: &Answer, offered: &Offered, model: &str, id: &str) -> Value {
    let mut said = String::new();
    let mut calls = Vec::new();
    for beat in &answer.0 {
        match beat {
            Beat::Text(text) | Beat::Error { kind: _, message: text } => said.push_str(text),
            Beat::Drip { pieces, every: _ } => said.extend((0..*pieces).map(|piece| format!("{piece} "))),
            Beat::Silence(_) | Beat::Pings(_) => {}
            Beat::Shell(_) | Beat::Mcp { .. } | Beat::Tool { .. } => {
                calls.extend(call(beat, offered).map(|call| tool_call(&call)));
            }
        }
    }
    let mut message = json!({"role": "assistant", "content": said});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    json!({"id": id, "object": "chat.completion", "created": 1_796_000_000, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish(answer)}], "usage": usage()})
}

fn call(beat: &Beat, offered: &Offered) -> Option<Call> {
    match beat {
        Beat::Shell(command) => Some(offered.shell(command)),
        Beat::Mcp { tool, input } => Some(offered.mcp(tool, input)),
        Beat::Tool { name, input } => Some(Call::of(name, input.clone())),
        Beat::Text(_) | Beat::Silence(_) | Beat::Pings(_) | Beat::Drip { .. } | Beat::Error { .. } => None,
    }
}

fn tool_call(call: &Call) -> Value {
    json!({"id": id("call"), "type": "function",
        "function": {"name": call.name, "arguments": call.input.to_json().to_string()}})
}

fn finish(answer: &Answer) -> &'static str {
    if answer.has_call() { "tool_calls" } else { "stop" }
}

fn usage() -> Value {
    json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Step, stream, whole};
    use crate::model::{Answer, Beat};
    use crate::offered::Offered;

    #[test]
    fn chunks_and_the_whole_say_the_same() {
        let offered = Offered::default();
        let beats = vec![Beat::Text("a".into()), Beat::Tool { name: "read".into(), input: json!({"b": 1}) }];
        let steps = stream(&Answer(beats.clone()), &offered, "m", "c1");
        let said: Vec<_> =
            steps.iter().filter_map(|step| step.event()?["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(said, ["", "a"]);
        assert_eq!(steps.last(), Some(&Step::Word("[DONE]")));
        let completion = whole(&Answer(beats), &offered, "m", "c1");
        let message = &completion["choices"][0]["message"];
        assert_eq!((&message["content"], &message["tool_calls"][0]["function"]["name"]), (&json!("a"), &json!("read")));
        assert_eq!(completion["choices"][0]["finish_reason"], "tool_calls");
    }
}
