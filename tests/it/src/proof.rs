//! What a box and a house prove to each other before an agent starts: the certificate is the house's, the box is locked.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::wire::{CLAIM_UPGRADE, Identity, PROTOCOL};
use box_spec::{Agent, Fingerprint, FromHouse, Spec};
use harness::fakes::FakeAgents;
use harness::{BoxRun, Case, House, Need, Tools, case, process};
use standin::Real;

pub(crate) const CASES: &[Case] = &[
    case("proof::a_certificate_that_is_not_the_houses_is_76", another_certificate).needs(BOTH),
    case("proof::a_box_with_a_network_of_its_own_is_77", open_box).needs(ALL),
];

/// Somebody at the door shows the fingerprint of one house and the certificate of another.
fn another_certificate() -> Result<()> {
    let house = House::builder().start()?;
    let folder = tempfile::tempdir()?;
    let door = folder.path().join("door.sock");
    let listener = UnixListener::bind(&door).context("bind a door")?;
    let (certificate, claimed) = (house.ca_pem()?, Fingerprint::from_digest(&[7; 32]));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A box that hangs up has seen enough.
            let _ = impersonate(stream, &certificate, &claimed);
        }
    });
    let ran = started_at(&door)?.expect_code(76)?;
    ensure!(ran.stdout.is_empty(), "the agent started: {}", ran.text());
    ensure!(ran.stderr.contains("certificate") || ran.stderr.contains("house"), "{}", ran.stderr);
    Ok(())
}

fn impersonate(stream: UnixStream, certificate: &str, claimed: &Fingerprint) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            ensure!(reader.read_until(b'\n', &mut head)? > 0, "the box hung up");
        }
        let head = String::from_utf8(head)?.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let mut body = vec![0; length.map_or(Ok(0), str::parse)?];
        reader.read_exact(&mut body)?;
        if head.starts_with("get /healthz") {
            let identity =
                Identity { house: claimed.clone(), box_id: "one".parse()?, protocol: PROTOCOL, challenge: None };
            let body = serde_json::to_string(&identity)?;
            write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
            continue;
        }
        let upgrade = format!("Connection: upgrade\r\nUpgrade: {CLAIM_UPGRADE}");
        let spec = serde_json::to_string(&FromHouse::Spec(Box::new(spec(certificate, claimed)?)))?;
        write!(writer, "HTTP/1.1 101 Switching Protocols\r\n{upgrade}\r\n\r\n{spec}\n")?;
        let mut said = String::new();
        reader.read_to_string(&mut said)?;
        return Ok(());
    }
}

fn spec(certificate: &str, claimed: &Fingerprint) -> Result<Spec> {
    Ok(Spec {
        run: "20260131T235959-0a1b2c3d".parse()?,
        box_id: "one".parse()?,
        token: "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab".parse()?,
        agent: Agent::Claude,
        house: claimed.clone(),
        ca_pem: certificate.to_owned(),
        ceiling_seconds: None,
        sentinels: Vec::new(),
        marks: box_spec::Marks::default(),
        exposed: Vec::new(),
        started: "2026-01-31T23:59:59Z".to_owned(),
    })
}

/// A house that did not allow it takes no box that says it has a network; nothing of such a run is a success.
fn open_box() -> Result<()> {
    let house = House::builder().secret(Real::Bearer("sk-ant-oat01-REAL-of-the-proof".into())).start()?;
    let ran = started_at(&house.door("one"))?.expect_code(77)?;
    ensure!(ran.stdout.is_empty(), "the agent started: {}", ran.text());
    ensure!(ran.stderr.contains("locked"), "which proof failed is not said: {}", ran.stderr);
    let line = house.wait_line("the failure", |line| line["kind"] == "failed")?;
    ensure!(line["inside"].as_str().is_some_and(|inside| inside.contains("locked")), "{line}");
    // Without the word to go on, boxd does not even ask for a run.
    let claims = house.ledger()?.iter().filter(|line| line["kind"] == "claim").count();
    let mut asked = Command::new(Tools::boxd()?);
    let session = tempfile::tempdir()?;
    asked.env_clear().args(["run", "--agent", "claude", "--session"]).arg(session.path());
    let ran = process::run(open_network(asked.arg("--door").arg(house.door("one")).arg("hi")), None, SOON)?;
    let ran = ran.expect_code(77)?;
    ensure!(
        ran.stderr.contains("the network interface other is up") && ran.stderr.contains("network_mode: none"),
        "{}",
        ran.stderr
    );
    ensure!(house.ledger()?.iter().filter(|line| line["kind"] == "claim").count() == claims, "a run was claimed");
    Ok(())
}

/// In a network namespace with an interface that is up, whatever this machine has.
fn open_network(command: &Command) -> Command {
    let mut inside = Command::new("unshare");
    let script = "ip link add other type veth peer name end && ip link set other up && exec \"$@\"";
    inside.args(["--map-root-user", "--net", "sh", "-euc", script, "sh"]);
    inside.arg(command.get_program()).args(command.get_args()).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    inside
}

fn started_at(door: &Path) -> Result<harness::Ran> {
    let fakes = FakeAgents::shell("echo started")?;
    BoxRun::at_door(door.to_owned())?.agents(fakes.folder()).prompt("hi").run(Duration::from_secs(30))
}

const SOON: Duration = Duration::from_secs(30);
const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces];
const BOTH: &[Need] = &[Need::Gateway, Need::Boxd];
