//! A small MCP server for tests, as a user may bring one into a box: one tool, `echo`, and a log of all that it was sent.
//!
//! It speaks the protocol of each agent that is tested: JSON-RPC by lines on standard streams, or streamable HTTP.

mod http;

use std::fs::File;
use std::io::{BufRead, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The server. All its connections share one.
#[derive(Debug)]
pub struct Echo {
    log: Option<Mutex<File>>,
}

impl Echo {
    /// Each message that comes is one line of `log`.
    #[must_use]
    pub fn new(log: Option<File>) -> Self {
        Self { log: log.map(Mutex::new) }
    }

    /// One message on each line, until the end of `input`.
    ///
    /// # Errors
    ///
    /// When a line cannot be read, or an answer not be written.
    pub fn by_lines(&self, input: impl BufRead, mut output: impl Write) -> Result<()> {
        for line in input.lines() {
            let line = line.context("read a message")?;
            let answer = match serde_json::from_str(&line) {
                Ok(message) => {
                    self.note(&message, &json!({"over": "lines"}))?;
                    answer(&message)
                }
                Err(_) => Some(error(&Value::Null, -32700, "this is no JSON")),
            };
            if let Some(answer) = answer {
                writeln!(output, "{answer}").and_then(|()| output.flush()).context("write an answer")?;
            }
        }
        Ok(())
    }

    fn note(&self, message: &Value, how: &Value) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let line = json!({"message": message, "how": how});
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(log, "{line}").context("write the log")
    }
}

/// The answer to a message; a notification has none.
fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let params = &message["params"];
    let result = match message["method"].as_str()? {
        "initialize" => initialized(params),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": [tool()] }),
        "tools/call" if params["name"] == TOOL => match params["arguments"]["text"].as_str() {
            Some(text) => json!({"content": [{"type": "text", "text": format!("echo: {text}")}], "isError": false}),
            None => return Some(error(id, -32602, "echo takes a text")),
        },
        "tools/call" => return Some(error(id, -32602, "there is no such tool")),
        // Newer clients ask for `server/discover` first, and go on with `initialize` after this.
        _ => return Some(error(id, -32601, "there is no such method")),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn initialized(params: &Value) -> Value {
    let version = params["protocolVersion"].as_str().filter(|wanted| VERSIONS.contains(wanted));
    json!({
        "protocolVersion": version.unwrap_or(VERSIONS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "mcp-echo", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn tool() -> Value {
    json!({
        "name": TOOL,
        "description": "Gives back what it is given.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "What to give back."}},
            "required": ["text"],
        },
    })
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

const TOOL: &str = "echo";
/// The versions of the protocol that it speaks, the newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Echo;

    fn told(messages: &[Value]) -> Vec<Value> {
        let input: String = messages.iter().map(|message| format!("{message}\n")).collect();
        let mut output = Vec::new();
        Echo::new(None).by_lines(input.as_bytes(), &mut output).expect("answers");
        let output = String::from_utf8(output).expect("text");
        output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn a_client_is_led_from_the_first_probe_to_a_call() {
        let said = told(&[
            json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": "l", "method": "tools/list"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hi"}}}),
        ]);
        assert_eq!(said.len(), 4, "{said:?}");
        assert_eq!(said[0]["error"]["code"], -32601);
        assert_eq!(said[1]["result"]["protocolVersion"], "2025-06-18");
        assert_eq!((&said[2]["id"], &said[2]["result"]["tools"][0]["name"]), (&json!("l"), &json!("echo")));
        assert_eq!(said[3]["result"]["content"][0]["text"], "echo: hi");
    }

    #[test]
    fn what_is_wrong_is_an_error_and_the_version_one_that_it_speaks() {
        let said = told(&[
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "1999-01-01"}}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "other", "arguments": {}}}),
            json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}),
        ]);
        assert_eq!(said[0]["result"]["protocolVersion"], "2025-11-25");
        assert_eq!((&said[1]["error"]["code"], &said[2]["error"]["code"]), (&json!(-32602), &json!(-32602)));
    }
}
