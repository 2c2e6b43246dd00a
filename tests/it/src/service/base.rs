//! What the cases start from: a service, a house with its secret, and an agent in a box that tries things.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::raw::Response;
use harness::{BoxRun, Claimed, House, HouseBuilder, Tunnel, secrets};
use serde_json::Value;
use standin::{Fault, Options, Real, Rule, StandIn};

/// A service that answers everything with 200, for all of these hosts.
pub(super) fn service() -> Result<StandIn> {
    let standin = StandIn::start(named(Options::default()))?;
    standin.rules(vec![Rule::new("", Fault::Status { status: 200, headers: Vec::new(), body: b"fine".to_vec() })]);
    Ok(standin)
}

/// A certificate for the hosts of these cases.
pub(super) fn named(options: Options) -> Options {
    Options { names: HOSTS.map(str::to_owned).to_vec(), ..options }
}

/// A house with a model's secret, which no request here uses, and a service's, sent as these lines say.
pub(super) fn house(standin: &StandIn, secret: &str) -> HouseBuilder {
    House::builder()
        .secret(Real::Bearer(MODEL.into()))
        .file("standin-ca.pem", standin.ca_pem().as_bytes())
        .file("service-secret", REAL.as_bytes())
        .extra(&format!("\n[[secret]]\nname = \"service\"\nfile = \"service-secret\"\n{secret}\n"))
}

/// The lines of a grant of this host, with the service's secret.
pub(super) fn grant(standin: &StandIn, name: &str, host: &str, more: &str) -> String {
    format!(
        "name = \"{name}\"\nhosts = \"{host}\"\nsecret = \"service\"\nunsafe_dial = \"{}\"\nupstream_ca = \"standin-ca.pem\"\n{more}",
        standin.address()
    )
}

/// One request over TLS in a tunnel of this run.
pub(super) fn ask(house: &House, claimed: &Claimed, host: &str, head: &str) -> Result<Response> {
    let tunnel = Tunnel::connect(&house.door("one"), claimed.token(), &format!("{host}:443"))?;
    tunnel.tls(&house.ca_pem()?, host)?.ask(format!("{head}\r\n").as_bytes())
}

/// What a Python agent put into `out` in an isolated box. `run(…)` gives code, output and errors of a program.
pub(super) fn probe(launch: &BoxRun, body: &str) -> Result<Value> {
    let tools = "import json, os, subprocess
out = {}
def run(*words, **more):
    more = dict(os.environ, **more)
    ran = subprocess.run(words, capture_output=True, text=True, timeout=50, env=more)
    return [ran.returncode, ran.stdout, ran.stderr]";
    let fakes = FakeAgents::python(&format!("{tools}\n{body}\nprint(json.dumps(out))"))?;
    let ran = launch.clone().agents(fakes.folder()).prompt("hi").run(SOON)?.expect_code(0)?;
    serde_json::from_slice(&ran.stdout).with_context(|| format!("parse {}", ran.text()))
}

/// Whether a secret is in there, in any form that a client might give it.
pub(super) fn holds(bytes: &[u8], secret: &str) -> bool {
    let forms = secrets::forms(secret);
    let needles: Vec<&str> = forms.iter().map(String::as_str).collect();
    secrets::in_bytes(bytes, &needles)
}

/// Nothing that the box leaves behind holds the secret.
pub(super) fn left_behind(launch: &BoxRun, secret: &str) -> Result<()> {
    let forms = secrets::forms(secret);
    let needles: Vec<&str> = forms.iter().map(String::as_str).collect();
    for folder in [launch.session_folder(), launch.workspace_folder()] {
        let leaks = secrets::in_files(folder, &needles)?;
        ensure!(leaks.is_empty(), "the secret was left behind: {leaks:?}");
    }
    Ok(())
}

pub(super) const REAL: &str = "ghp_REAL-of-the-service-9d21c07ab4";
pub(super) const MODEL: &str = "sk-ant-oat01-REAL-of-the-model-4be1";
pub(super) const SOON: Duration = Duration::from_secs(60);
const HOSTS: [&str; 6] = ["api.test", "git.test", "packages.test", "bot.test", "open.test", "deep.packages.test"];
