//! A tool of the user's own: an MCP server in the workspace, of which each agent is told in its own way.

use anyhow::{Context, Result};
use box_spec::Agent;
use harness::files::put_deep;
use harness::{BoxRun, Tools};
use serde_json::{Value, json};

/// The box with an MCP server that writes down what it hears.
pub(super) fn with(launch: BoxRun, agent: Agent) -> Result<BoxRun> {
    let workspace = launch.workspace_folder();
    std::fs::copy(Tools::mcp_echo()?, workspace.join("mcp-echo")).context("put the server into the workspace")?;
    let server = json!({"command": COMMAND, "args": ["--log", LOG]});
    match agent {
        Agent::Claude => Ok(launch.argument("--mcp-config").argument(servers(server).to_string())),
        Agent::Codex => {
            let command = format!("mcp_servers.own.command={COMMAND:?}");
            let arguments = format!("mcp_servers.own.args=[\"--log\", {LOG:?}]");
            Ok(launch.argument("-c").argument(command).argument("-c").argument(arguments))
        }
        Agent::Pi => {
            let mut server = server;
            // Otherwise pi does not tell the model of it.
            server["exposure"] = json!("direct");
            put_deep(&launch.session_folder().join("pi/mcp.json"), servers(server).to_string().as_bytes(), 0o644)?;
            Ok(launch)
        }
    }
}

/// What the server heard.
pub(super) fn heard(launch: &BoxRun) -> Result<String> {
    std::fs::read_to_string(launch.workspace_folder().join("mcp.log")).context("read what the server heard")
}

fn servers(server: Value) -> Value {
    json!({"mcpServers": {"own": server}})
}

/// As all three call it.
pub(super) const TOOL: &str = "mcp__own__echo";
const COMMAND: &str = "/workspace/mcp-echo";
const LOG: &str = "/workspace/mcp.log";
