//! The box's own loopback, asked for through the proxy: it stays in the box, and the house sees nothing of it.

use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::files::put;
use harness::{BoxRun, House, Tools};
use serde_json::{Value, json};
use standin::{Answer, Beat, Options, Real, StandIn};

use super::{SECRET, SOON, house, launch, probe};

/// A server of the box's is asked in each way that a client may ask a proxy.
pub(super) fn server() -> Result<()> {
    let house = house()?;
    let launch = launch(&house, true)?;
    with_echo(&launch)?;
    let seen = probe(&launch, ASKING)?;
    for way in ["127.0.0.1", "localhost", "app.localhost", "[::ffff:127.0.0.1]", "connect"] {
        let answer = seen[way].as_str().unwrap_or_default();
        ensure!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"name\":\"echo\""), "{way}: {answer}");
    }
    match TcpListener::bind("[::1]:0") {
        Ok(_) => ensure!(seen["[::1]"].as_str().is_some_and(|got| got.contains("\"name\":\"echo\"")), "{seen}"),
        Err(_) => ensure!(seen["[::1]"] == "this machine has no such address", "{seen}"),
    }
    for way in ["closed", "closed connect"] {
        let answer = seen[way].as_str().unwrap_or_default();
        ensure!(
            answer.starts_with("HTTP/1.1 502 ") && answer.contains("nothing in this box listens"),
            "{way}: {answer}"
        );
    }
    let own = seen["own"].as_str().unwrap_or_default();
    ensure!(own.starts_with("HTTP/1.1 400 ") && own.contains("this proxy itself"), "{own}");
    streamed(&seen["stream"])?;
    sees_nothing(&house)
}

/// The three events came one by one, with the pauses that the server made.
fn streamed(pieces: &Value) -> Result<()> {
    let pieces = pieces.as_array().context("no stream")?;
    let at = |wanted: &str| {
        let came = pieces.iter().find(|piece| piece[1].as_str().is_some_and(|text| text.contains(wanted)));
        came.and_then(|piece| piece[0].as_f64()).with_context(|| format!("{wanted} did not come: {pieces:?}"))
    };
    let (first, last, answer) = (at("\"data\":1")?, at("\"data\":3")?, at("echo: slowly")?);
    ensure!(last - first > 0.5 && answer - last > 0.2, "held back: {pieces:?}");
    Ok(())
}

/// The house has the run and its end, and not one request.
fn sees_nothing(house: &House) -> Result<()> {
    let lines = house.ledger()?;
    ensure!(lines.iter().any(|line| line["kind"] == "report"), "no run is in the ledger: {lines:?}");
    let asked: Vec<&Value> =
        lines.iter().filter(|line| !line["target"].is_null() || line["kind"] == "refused").collect();
    ensure!(asked.is_empty(), "{asked:?}");
    Ok(())
}

/// The stock claude with a server of the user's own: over HTTP on the box's loopback, connected directly as it is told to,
/// and through the proxy as versions do that do not listen; and over standard streams.
pub(super) fn claude() -> Result<()> {
    let http = json!({"type": "http", "url": "http://localhost:7777/mcp"});
    let lines = json!({"command": "/workspace/mcp-echo", "args": ["--log", "/workspace/mcp.log"]});
    for (config, start) in [(&http, Some("exec")), (&http, Some("unset NO_PROXY no_proxy; exec")), (&lines, None)] {
        let standin = StandIn::start(Options { real: vec![Real::Bearer(SECRET.into())], ..Options::default() })?;
        let house = House::builder().model_at(&standin, Real::Bearer(SECRET.into())).start()?;
        let call = Beat::Tool { name: "mcp__own__echo".into(), input: json!({"text": "from the model"}) };
        standin.script(vec![Answer(vec![call]), Answer::text("done")]);
        let launch = BoxRun::new(&house, "one")?.isolated().prompt("use the tool");
        with_echo(&launch)?;
        let launch = start.map_or(Ok(launch.clone()), |start| beside_a_server(&launch, start))?;
        let servers = json!({"mcpServers": {"own": config}}).to_string();
        let launch = ["--mcp-config", &servers, "--strict-mcp-config"].into_iter().fold(launch, BoxRun::argument);
        let ran = launch.run(SOON)?.expect_code(0)?;
        ensure!(ran.result()?["result"] == "done", "{start:?}: {}", ran.text());
        let results = standin.seen().pop().context("no request")?.text();
        ensure!(results.contains("echo: from the model"), "{start:?}: the model has no result: {}", ran.text());
        let calls = log(&launch, "tools/call")?;
        ensure!(
            calls.len() == 1 && calls[0]["message"]["params"]["arguments"]["text"] == "from the model",
            "{calls:?}"
        );
        // The shim makes each request the last of its connection; claude itself keeps connections.
        let through_shim = calls[0]["how"].to_string().contains(r#"["connection","close"]"#);
        ensure!(through_shim == start.is_some_and(|start| start.starts_with("unset")), "{start:?}: {calls:?}");
        let lines = house.ledger()?;
        ensure!(!lines.iter().any(|line| line.to_string().contains(":7777")), "the house saw it: {lines:?}");
    }
    Ok(())
}

/// Puts the server where the box can run it.
fn with_echo(launch: &BoxRun) -> Result<()> {
    let to = launch.workspace_folder().join("mcp-echo");
    std::fs::copy(Tools::mcp_echo()?, &to).map(drop).with_context(|| format!("copy to {}", to.display()))
}

/// A script in claude's place starts the server, and then claude in this way.
fn beside_a_server(launch: &BoxRun, start: &str) -> Result<BoxRun> {
    let claude = Tools::claude()?;
    let claude = claude.strip_prefix(Tools::agents()).context("claude is not among the agents")?;
    let claude = Path::new("/opt/boxgate/agents").join(claude);
    let script = format!(
        "#!/bin/sh\ncd /workspace\n./mcp-echo --http 127.0.0.1:7777 --log mcp.log > mcp.at &\n\
         until [ -s mcp.at ]; do sleep 0.02; done\n{start} {} \"$@\"\n",
        claude.display()
    );
    let folder = launch.workspace_folder().join("bin");
    std::fs::create_dir(&folder).context("make a folder")?;
    put(&folder.join("claude"), script.as_bytes(), 0o755)?;
    Ok(launch.clone().env("BOXGATE_AGENT_PATH", "/workspace/bin"))
}

/// What the server was sent with this method.
fn log(launch: &BoxRun, method: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(launch.workspace_folder().join("mcp.log")).context("read the server's log")?;
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    Ok(lines
        .context("parse the server's log")?
        .into_iter()
        .filter(|line| line["message"]["method"] == method)
        .collect())
}

/// Asks servers in the box through the shim, by the byte.
const ASKING: &str = r#"
import subprocess
shim = int(os.environ['HTTP_PROXY'].rsplit(':', 1)[1])
def serve(address):
    server = subprocess.Popen(['/workspace/mcp-echo', '--http', address], stdout=subprocess.PIPE, text=True)
    return int(server.stdout.readline().rsplit(':', 1)[1])
def pieces(head):
    s = socket.create_connection(('127.0.0.1', shim), 5); s.settimeout(10); s.sendall(head.encode())
    began, got = time.time(), []
    while piece := s.recv(65536): got.append([time.time() - began, piece.decode()])
    return got
def ask(head): return ''.join(text for _, text in pieces(head))
def post(method, accept='application/json', **params):
    body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params})
    return f'Host: x\r\nAccept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}'
port = serve('127.0.0.1:0')
for host in ('127.0.0.1', 'localhost', 'app.localhost', '[::ffff:127.0.0.1]'):
    out[host] = ask(f'POST http://{host}:{port}/mcp HTTP/1.1\r\n' + post('tools/list'))
try: socket.create_server(('::1', 0), family=socket.AF_INET6).close(); v6 = True
except OSError: v6 = False; out['[::1]'] = 'this machine has no such address'
if v6: out['[::1]'] = ask(f'POST http://[::1]:{serve("[::1]:0")}/mcp HTTP/1.1\r\n' + post('tools/list'))
s = socket.create_connection(('127.0.0.1', shim), 5); s.settimeout(10)
s.sendall(f'CONNECT localhost:{port} HTTP/1.1\r\n\r\n'.encode())
connected = s.recv(65536).decode()
s.sendall(('POST /mcp HTTP/1.1\r\n' + post('tools/list')).encode())
answer = ''
while piece := s.recv(65536): answer += piece.decode()
out['connect'] = answer if connected.startswith('HTTP/1.1 200 ') else connected
spare = socket.create_server(('127.0.0.1', 0)); closed = spare.getsockname()[1]; spare.close()
out['closed'] = ask(f'GET http://127.0.0.1:{closed}/ HTTP/1.1\r\n\r\n')
out['closed connect'] = ask(f'CONNECT 127.0.0.1:{closed} HTTP/1.1\r\n\r\n')
out['own'] = ask(f'GET http://127.0.0.1:{shim}/healthz HTTP/1.1\r\n\r\n')
call = post('tools/call', 'text/event-stream', name='echo', arguments={'text': 'slowly'})
out['stream'] = pieces(f'POST http://127.0.0.1:{port}/mcp HTTP/1.1\r\n' + call)
"#;
