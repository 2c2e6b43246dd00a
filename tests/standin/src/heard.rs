//! What the model has heard: the newest text that the user typed, the tool results since, and the tools on offer.

use serde_json::Value;

use crate::model::is_marked;
use crate::offered::Offered;

/// A conversation as far as the scripted model needs it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) results: usize,
    pub(crate) offered: Offered,
}

impl Heard {
    /// Goes on with the messages of a request to Anthropic.
    pub(crate) fn messages(&mut self, request: &Value) {
        self.offered.read(&request["tools"]);
        for message in items(&request["messages"]).iter().filter(|message| message["role"] == "user") {
            let blocks = items(&message["content"]);
            let results = blocks.iter().filter(|block| block["type"] == "tool_result").count();
            self.results += results;
            let text = text(&message["content"]);
            // What comes with a tool result is the agent's own, unless it asks for something.
            if results == 0 || is_marked(&text) {
                self.typed(text);
            }
        }
    }

    /// Goes on with the input of a request for an OpenAI response.
    pub(crate) fn input(&mut self, request: &Value) {
        self.offered.read(&request["tools"]);
        if let Some(text) = request["input"].as_str() {
            self.typed(text.to_owned());
        }
        for item in items(&request["input"]) {
            match item["type"].as_str().unwrap_or("message") {
                // Where codex and pi put the tools for some models.
                "additional_tools" => self.offered.read(&item["tools"]),
                "message" if item["role"] == "user" => self.typed(text(&item["content"])),
                kind if kind.ends_with("_call_output") => self.results += 1,
                _ => {}
            }
        }
    }

    /// Goes on with the messages of a chat completion.
    pub(crate) fn chat(&mut self, request: &Value) {
        self.offered.read(&request["tools"]);
        for message in items(&request["messages"]) {
            match message["role"].as_str() {
                Some("user") => self.typed(text(&message["content"])),
                Some("tool") => self.results += 1,
                _ => {}
            }
        }
    }

    fn typed(&mut self, text: String) {
        if !text.trim().is_empty() {
            self.text = text;
            self.results = 0;
        }
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The text of a content, without what the agents add by themselves.
fn text(content: &Value) -> String {
    let own = |text: &&str| !OWN.iter().any(|start| text.trim_start().starts_with(start));
    let parts = content.as_str().into_iter().chain(items(content).iter().filter_map(|part| part["text"].as_str()));
    parts.filter(own).collect::<Vec<_>>().join("\n")
}

/// How texts begin that an agent puts among those of its user.
const OWN: [&str; 4] = ["<system-reminder>", "<environment_context>", "<user_instructions>", "<turn_aborted>"];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Heard;

    #[test]
    fn the_newest_typed_text_counts_and_results_after_it() {
        let (reminder, result) = (
            json!({"type": "text", "text": "<system-reminder><<text:no>></system-reminder>"}),
            json!({"type": "tool_result", "tool_use_id": "t", "content": "out"}),
        );
        let user = |content: Value| json!({"role": "user", "content": content});
        let cases = [
            (json!([]), ("", 0)),
            (json!([user(json!("a"))]), ("a", 0)),
            (json!([user(json!([reminder, {"type": "text", "text": "a"}]))]), ("a", 0)),
            (json!([user(json!("a")), {"role": "assistant", "content": "b"}, user(json!([result]))]), ("a", 1)),
            (json!([user(json!("a")), user(json!([result, {"type": "text", "text": "more"}]))]), ("a", 1)),
            (json!([user(json!("a")), user(json!([result, {"type": "text", "text": "<<sh:b>>"}]))]), ("<<sh:b>>", 0)),
            (json!([user(json!("a")), user(json!([result])), user(json!("b"))]), ("b", 0)),
        ];
        for (messages, expected) in cases {
            let mut heard = Heard::default();
            heard.messages(&json!({"messages": messages}));
            assert_eq!((heard.text.as_str(), heard.results), expected, "{messages}");
        }
    }

    #[test]
    fn an_input_is_a_text_or_items() {
        let typed = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]});
        let own = json!({"role": "user", "content": [{"type": "input_text", "text": "<environment_context>b"}]});
        let cases = [
            (json!("a"), ("a", 0)),
            (json!([{"role": "developer", "content": "no"}, typed, own]), ("a", 0)),
            (json!([typed, {"type": "function_call"}, {"type": "function_call_output", "output": "x"}]), ("a", 1)),
            (json!([typed, {"type": "custom_tool_call_output", "output": []}]), ("a", 1)),
        ];
        for (input, expected) in cases {
            let mut heard = Heard::default();
            heard.input(&json!({"input": input}));
            assert_eq!((heard.text.as_str(), heard.results), expected, "{input}");
        }
    }
}
