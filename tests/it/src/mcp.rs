//! An MCP server of the user's own, in an isolated box with each stock agent: over standard streams, over HTTP on the box's
//! loopback, and there through the proxy, as clients go that do not heed `NO_PROXY`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::{Agent, Provider};
use harness::files::{put, put_deep};
use harness::{BoxRun, Case, House, Need, Tools, case};
use serde_json::{Value, json};
use standin::{Options, Real, StandIn};

pub(crate) const CASES: &[Case] = &[
    case("mcp::claude_has_the_users_server_on_its_streams", || has(Agent::Claude, Way::Streams)).needs(CLAUDE),
    case("mcp::claude_has_the_users_server_on_loopback", || has(Agent::Claude, Way::Loopback)).needs(CLAUDE),
    case("mcp::claude_has_the_users_server_through_the_proxy", || has(Agent::Claude, Way::Proxy)).needs(CLAUDE),
    case("mcp::codex_has_the_users_server_on_its_streams", || has(Agent::Codex, Way::Streams)).needs(CODEX),
    case("mcp::codex_has_the_users_server_on_loopback", || has(Agent::Codex, Way::Loopback)).needs(CODEX),
    case("mcp::codex_has_the_users_server_through_the_proxy", || has(Agent::Codex, Way::Proxy)).needs(CODEX),
    case("mcp::pi_has_the_users_server_on_its_streams", || has(Agent::Pi, Way::Streams)).needs(PI),
    case("mcp::pi_has_the_users_server_on_loopback", || has(Agent::Pi, Way::Loopback)).needs(PI),
    case("mcp::pi_has_the_users_server_through_the_proxy", || has(Agent::Pi, Way::Proxy)).needs(PI),
];

/// How the agent reaches the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// The agent starts it.
    Streams,
    /// It listens on the box's loopback.
    Loopback,
    /// The same by a name that only the shim can follow, and the agent is not told that loopback needs no proxy.
    Proxy,
}

/// The model calls the tool, the server is asked, the model is given what it said, and the house hears nothing of it.
fn has(agent: Agent, way: Way) -> Result<()> {
    let (provider, real) = match agent {
        Agent::Claude | Agent::Pi => (Provider::Anthropic, Real::Bearer("sk-ant-oat01-REAL-of-mcp".into())),
        Agent::Codex => (Provider::OpenaiCodex, Real::chatgpt("account-of-mcp", "REAL-of-mcp")),
    };
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let house = House::builder().agent(agent.as_str()).serve(&standin, provider, real).start()?;
    let prompt = "<<mcp:mcp__own__echo {\"text\": \"from the model\"}>><<text:done>>";
    let launch = BoxRun::new(&house, "one")?.agent(agent.as_str()).isolated().prompt(prompt);
    with_echo(&launch)?;
    let launch = if way == Way::Streams { launch } else { beside_a_server(launch, agent, way)? };
    let ran = told_of(launch.clone(), agent, way)?.run(SOON)?.expect_code(0)?;
    let said = ran.said(agent)?;
    ensure!(said.text == "done" && !said.failed, "{said:?}: {}", ran.text());
    let last = standin.model_calls().pop().context("the model was not asked")?.text();
    ensure!(last.contains("echo: from the model"), "the model was not given the result: {last}");
    let calls = log(&launch, "tools/call")?;
    ensure!(calls.len() == 1 && calls[0]["message"]["params"]["arguments"]["text"] == "from the model", "{calls:?}");
    let lines = house.ledger()?;
    ensure!(!lines.iter().any(|line| line.to_string().contains(":7777")), "the house saw it: {lines:?}");
    Ok(())
}

/// Puts the server where the box can run it.
pub(crate) fn with_echo(launch: &BoxRun) -> Result<()> {
    let to = launch.workspace_folder().join("mcp-echo");
    std::fs::copy(Tools::mcp_echo()?, &to).map(drop).with_context(|| format!("copy to {}", to.display()))
}

/// A script in the agent's place starts the server, and then the agent.
fn beside_a_server(launch: BoxRun, agent: Agent, way: Way) -> Result<BoxRun> {
    let program: Result<Vec<PathBuf>> = Tools::agent(agent)?.iter().map(|path| in_box(path)).collect();
    let program = program?.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    // A box that could follow the name by itself would prove nothing.
    let alone = "getent ahosts own.localhost && exit 99\nunset NO_PROXY no_proxy\n";
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = debug ] && exec {program} \"$@\"\n\
         /workspace/mcp-echo --http 127.0.0.1:7777 --log /workspace/mcp.log > /workspace/mcp.at &\n\
         until [ -s /workspace/mcp.at ]; do sleep 0.02; done\n{}exec {program} \"$@\"\n",
        if way == Way::Proxy { alone } else { "" }
    );
    let folder = launch.workspace_folder().join("bin");
    std::fs::create_dir(&folder).context("make a folder")?;
    put(&folder.join(agent.as_str()), script.as_bytes(), 0o755)?;
    Ok(launch.env("BOXGATE_AGENT_PATH", "/workspace/bin"))
}

/// Where a box shows one of the agents' files.
fn in_box(path: &Path) -> Result<PathBuf> {
    let inside = path.strip_prefix(Tools::agents()).context("the agent is somewhere else")?;
    Ok(Path::new("/opt/boxgate/agents").join(inside))
}

/// The user names the server: claude in an argument, codex and pi in files that stay from one launch to the next.
fn told_of(launch: BoxRun, agent: Agent, way: Way) -> Result<BoxRun> {
    let mut server = match way {
        Way::Streams => json!({"command": "/workspace/mcp-echo", "args": ["--log", "/workspace/mcp.log"]}),
        Way::Loopback => json!({"url": "http://localhost:7777/mcp"}),
        Way::Proxy => json!({"url": "http://own.localhost:7777/mcp"}),
    };
    match agent {
        Agent::Claude => {
            server["type"] = json!(if way == Way::Streams { "stdio" } else { "http" });
            let servers = json!({"mcpServers": {"own": server}}).to_string();
            return Ok(["--mcp-config", &servers, "--strict-mcp-config"].into_iter().fold(launch, BoxRun::argument));
        }
        Agent::Codex => {
            let text = match way {
                Way::Streams => format!("command = {}\nargs = {}\n", server["command"], server["args"]),
                Way::Loopback | Way::Proxy => format!("url = {}\n", server["url"]),
            };
            let file = launch.session_folder().join("codex/config.toml");
            put_deep(&file, format!("[mcp_servers.own]\n{text}").as_bytes(), 0o600)?;
        }
        Agent::Pi => {
            server["exposure"] = json!("direct");
            let servers = json!({"mcpServers": {"own": server}}).to_string();
            put_deep(&launch.session_folder().join("pi/mcp.json"), servers.as_bytes(), 0o600)?;
        }
    }
    Ok(launch)
}

/// What the server was sent with this method.
fn log(launch: &BoxRun, method: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(launch.workspace_folder().join("mcp.log")).context("read the server's log")?;
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    let lines = lines.context("parse the server's log")?;
    Ok(lines.into_iter().filter(|line| line["message"]["method"] == method).collect())
}

const SOON: Duration = Duration::from_secs(60);
const CLAUDE: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces];
const CODEX: &[Need] = &[Need::Gateway, Need::Boxd, Need::Codex, Need::Namespaces];
const PI: &[Need] = &[Need::Gateway, Need::Boxd, Need::Pi, Need::Namespaces];
