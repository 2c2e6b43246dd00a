//! The tools that an agent offers, and which of them is called for a command or for a tool of an MCP server.

use serde_json::{Value, json};

/// The tools of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Offered(Vec<Tool>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Tool {
    name: String,
    /// The namespace it stands in.
    namespace: Option<String>,
    /// It takes text and no JSON.
    custom: bool,
}

/// A call of a tool.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) input: Input,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Input {
    Json(Value),
    Text(String),
}

impl Offered {
    /// Takes the tools of a list, in the form of any provider. A request without a list keeps those of before.
    pub(crate) fn read(&mut self, list: &Value) {
        let Some(list) = list.as_array().filter(|list| !list.is_empty()) else {
            return;
        };
        self.0.clear();
        for tool in list {
            let name = tool["name"].as_str().or_else(|| tool["function"]["name"].as_str());
            let name = name.or_else(|| tool["type"].as_str()).unwrap_or_default();
            let inner = tool["tools"].as_array().filter(|_| tool["type"] == "namespace");
            match inner {
                Some(inner) => inner.iter().for_each(|tool| self.take(tool, &tool["name"], Some(name))),
                None => self.take(tool, &json!(name), None),
            }
        }
    }

    fn take(&mut self, tool: &Value, name: &Value, namespace: Option<&str>) {
        self.0.push(Tool {
            name: name.as_str().unwrap_or_default().to_owned(),
            namespace: namespace.map(str::to_owned),
            custom: tool["type"] == "custom",
        });
    }

    /// The call of the shell tool. Without one it is claude's, which then complains.
    pub(crate) fn shell(&self, command: &str) -> Call {
        let known = SHELLS.iter().find_map(|name| self.0.iter().find(|tool| tool.name == *name && !tool.custom));
        let Some(tool) = known else {
            let script = format!("text(await tools.exec_command({}))", json!({ "cmd": command }));
            return self.script(script).unwrap_or_else(|| Call::of("Bash", bash(command)));
        };
        let input = match tool.name.as_str() {
            "Bash" => bash(command),
            "exec_command" => json!({ "cmd": command }),
            "bash" | "shell_command" => json!({ "command": command }),
            _ => json!({"command": ["bash", "-lc", command]}),
        };
        tool.call(Input::Json(input))
    }

    /// The call of the tool whose name is, or ends with, this one.
    pub(crate) fn mcp(&self, name: &str, input: &Value) -> Call {
        let exact = self.0.iter().find(|tool| tool.name == name);
        if let Some(tool) = exact.or_else(|| self.0.iter().find(|tool| tool.name.ends_with(name))) {
            return tool.call(Input::Json(input.clone()));
        }
        let script = format!(
            "const name = ALL_TOOLS.map((tool) => tool.name).find((name) => name.endsWith({})); text(await tools[name]({input}));",
            json!(name)
        );
        self.script(script).unwrap_or_else(|| Call::of(name, input.clone()))
    }

    /// codex's code mode: all other tools are functions of a script.
    fn script(&self, script: String) -> Option<Call> {
        let exec = self.0.iter().find(|tool| tool.custom && tool.name == "exec")?;
        Some(exec.call(Input::Text(script)))
    }
}

impl Tool {
    fn call(&self, input: Input) -> Call {
        Call { name: self.name.clone(), namespace: self.namespace.clone(), input }
    }
}

impl Call {
    /// Exactly this tool.
    pub(crate) fn of(name: &str, input: Value) -> Self {
        Self { name: name.to_owned(), namespace: None, input: Input::Json(input) }
    }
}

impl Input {
    /// As JSON, where nothing else can be said.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Json(value) => value.clone(),
            Self::Text(text) => json!({ "input": text }),
        }
    }
}

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "stand-in"})
}

/// The names of shell tools, as the agents have them.
const SHELLS: [&str; 6] = ["Bash", "bash", "exec_command", "shell_command", "shell", "local_shell"];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Call, Input, Offered};

    #[test]
    fn each_agents_shell_is_called_in_its_own_form() {
        let code_mode =
            json!([{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]);
        let script = Input::Text("text(await tools.exec_command({\"cmd\":\"ls\"}))".into());
        let cases = [
            (json!([]), Call::of("Bash", json!({"command": "ls", "description": "stand-in"}))),
            (json!([{"name": "Read"}, {"name": "bash"}]), Call::of("bash", json!({"command": "ls"}))),
            (json!([{"type": "function", "function": {"name": "bash"}}]), Call::of("bash", json!({"command": "ls"}))),
            (json!([{"type": "function", "name": "exec_command"}]), Call::of("exec_command", json!({"cmd": "ls"}))),
            (json!([{"type": "local_shell"}]), Call::of("local_shell", json!({"command": ["bash", "-lc", "ls"]}))),
            (code_mode, Call { name: "exec".into(), namespace: Some("functions".into()), input: script }),
        ];
        for (tools, expected) in cases {
            assert_eq!(offered(&tools).shell("ls"), expected, "{tools}");
        }
    }

    #[test]
    fn a_tool_of_an_mcp_server_is_found_by_its_end() {
        let tools = json!([{"name": "mcp__lab__echo"}, {"name": "echo"}]);
        assert_eq!(offered(&tools).mcp("echo", &json!({})), Call::of("echo", json!({})));
        assert_eq!(offered(&tools).mcp("lab__echo", &json!({})), Call::of("mcp__lab__echo", json!({})));
        assert_eq!(offered(&json!([])).mcp("other", &json!({})), Call::of("other", json!({})));
    }

    fn offered(tools: &Value) -> Offered {
        let mut offered = Offered::default();
        offered.read(tools);
        offered
    }
}
