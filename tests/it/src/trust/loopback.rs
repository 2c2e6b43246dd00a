//! The box's own loopback, asked for through the proxy: it stays in the box, and the house sees nothing of it.

use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use harness::House;
use serde_json::Value;

use super::{house, launch, probe};
use crate::mcp::with_echo;

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
