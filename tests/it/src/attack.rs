//! Attack: the agent turns against the door. Each attempt is refused, recorded, and never ends in success.

pub(crate) mod door;
pub(crate) mod claim;
pub(crate) mod flood;
pub(crate) mod lost;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::{BoxRun, House, HouseBuilder};
use serde_json::Value;

/// A house whose boxes may have the network of this machine.
pub(crate) fn open_house() -> HouseBuilder {
    House::builder().secret(standin::Real::ApiKey("sk-ant-api03-REAL-KEY-of-the-attack-aa55".into())).open_network()
}

/// Runs a Python agent in box `one` that knows the door and fills `out`; gives back what it found and the run's record.
pub(crate) fn attack(house: &House, launch: BoxRun, body: &str) -> Result<(Value, Value)> {
    let program = format!("{}{body}\nprint(json.dumps(out), flush=True)", prelude(house));
    let fakes = FakeAgents::python(&program)?;
    let ran = launch.agents(fakes.folder()).prompt("hi").run(Duration::from_secs(60))?;
    let found =
        serde_json::from_slice(&ran.stdout).with_context(|| format!("parse {}\nstderr: {}", ran.text(), ran.stderr))?;
    Ok((found, last_record(house)?))
}

/// What an attacker brings: `talk` sends bytes to the door and gives back what comes.
pub(crate) fn prelude(house: &House) -> String {
    let door = house.door("one").display().to_string();
    format!(
        r#"import base64, errno, json, os, socket, sys, time
out = {{}}
DOOR = {door:?}
def dial():
    s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(DOOR); return s
def talk(data, s=None):
    s = s or dial(); s.sendall(data); got = b''
    while b'\r\n\r\n' not in got:
        piece = s.recv(65536)
        if not piece: break
        got += piece
    return got.decode('latin1')
def claim(token=None):
    body = json.dumps(dict(protocol={protocol}, agent='claude', namespace_init=True, boxd='evil', reattach=token)).encode()
    return talk(b'POST /claim HTTP/1.1\r\nHost: door\r\nConnection: Upgrade\r\nUpgrade: boxgate-claim\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
def connect(token):
    pair = base64.b64encode((token + ':x').encode()).decode()
    return talk(('CONNECT api.anthropic.com:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic %s\r\n\r\n' % pair).encode())
"#,
        protocol = box_spec::wire::PROTOCOL,
    )
}

/// The record of the newest run.
pub(crate) fn last_record(house: &House) -> Result<Value> {
    let lines = house.ledger()?;
    let newest = lines.iter().rev().find(|line| line["kind"] == "claim").context("no run")?;
    crate::crash::record(house, newest["run"].as_str().unwrap_or_default())
}

/// A run that a good end did not make a success.
pub(crate) fn no_success(what: &str, record: &Value) -> Result<()> {
    ensure!(record["exit_code"] == 0, "{what}: the agent was to end well: {record}");
    ensure!(
        record["verdict"]["failed"].as_str().is_some_and(|why| why.contains("its door was opened")),
        "{what}: {record}"
    );
    Ok(())
}
