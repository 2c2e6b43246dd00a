//! The state folder: full, damaged, taken, or with half a key. The gateway says which, and makes nothing up.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::ClaimReason;
use harness::claim::{self, Answer};
use harness::files::put;
use harness::{Case, Claimed, House, Ran, Tools, case, process};

use super::{GATEWAY, MOUNTS, SmallDisk, model, state_of};

pub(crate) const CASES: &[Case] = &[
    case("crash::a_claim_on_a_full_state_disk_is_refused_and_leaves_nothing", full_at_claim).needs(MOUNTS),
    case("crash::a_damaged_record_of_a_run_stops_the_start", damaged_record).needs(GATEWAY),
    case("crash::two_gateways_on_one_state_are_refused", two_gateways).needs(GATEWAY),
    case("crash::half_a_ca_is_refused_and_never_replaced", half_a_ca).needs(GATEWAY),
];

fn full_at_claim() -> Result<()> {
    let (_standin, builder) = model()?;
    // The ledger lies elsewhere, so that the record alone finds no place.
    let mut house = builder.ledger("file = \"ledger.jsonl\"").prepare()?;
    let state = house.state();
    std::fs::create_dir(&state)?;
    let disk = SmallDisk::mount(&state)?;
    house.start()?;
    disk.fill()?;
    for _ in 0..2 {
        let Answer::Refused { status, body } = Claimed::ask(&house.door("one"), &claim::claim())? else {
            anyhow::bail!("a run began without a record");
        };
        let body = body.context("no words")?;
        ensure!(status == 503 && body.reason == ClaimReason::LedgerDown, "{status} {body:?}");
        ensure!(body.hint.contains("free space in its state folder"), "{body:?}");
    }
    ensure!(state_of(&house, "one")? == "free");
    let left = std::fs::read_dir(state.join("live"))?.count();
    ensure!(left == 0, "{left} files are left of runs that never were");
    disk.free()?;
    Claimed::take(&house.door("one"))?.report()?;
    Ok(())
}

fn damaged_record() -> Result<()> {
    for (name, bytes) in [("one.json", "{\"run\":"), ("one.json", ""), ("one.shut", "[]")] {
        let (_standin, builder) = model()?;
        let mut house = builder.start()?;
        house.term()?;
        let path = house.state().join("live").join(name);
        put(&path, bytes.as_bytes(), 0o600)?;
        let ran = serve(&house, &house.config())?.expect_code(69)?;
        ensure!(ran.stderr.contains(&path.display().to_string()), "{}", ran.stderr);
        ensure!(ran.stderr.contains("if the run is over, remove the file"), "{}", ran.stderr);
        std::fs::remove_file(path)?;
        house.start()?;
    }
    Ok(())
}

fn two_gateways() -> Result<()> {
    let (_standin, builder) = model()?;
    let mut house = builder.start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let same = serve(&house, &house.config())?.expect_code(69)?;
    // Everything of its own but the state.
    let other = house.folder().join("other.toml");
    let text = std::fs::read_to_string(house.config())?
        .replace("one/door.sock", "other.sock")
        .replace("[ledger]\n", "[ledger]\nfile = \"other.jsonl\"\n[operator]\nsocket = \"operator.sock\"\n");
    put(&other, text.as_bytes(), 0o600)?;
    let sharing = serve(&house, &other)?.expect_code(69)?;
    for ran in [same, sharing] {
        ensure!(ran.stderr.contains("another gateway uses the state folder"), "{}", ran.stderr);
        ensure!(ran.stderr.contains(&house.state().display().to_string()), "{}", ran.stderr);
    }
    ensure!(!house.folder().join("other.sock").exists(), "the second gateway opened a door");
    ensure!(state_of(&house, "one")? == "held", "the first gateway lost its run");
    claimed.report()?;
    house.term()?.expect_code(0)?;
    house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    Ok(())
}

fn half_a_ca() -> Result<()> {
    type Harm = fn(&Path, &Path) -> std::io::Result<()>;
    let table: [(&str, Harm); 5] = [
        ("no key", |_, key| std::fs::remove_file(key)),
        ("no certificate", |pem, _| std::fs::remove_file(pem)),
        ("a damaged key", |_, key| std::fs::OpenOptions::new().write(true).truncate(true).open(key).map(drop)),
        ("a folder for a key", |_, key| std::fs::remove_file(key).and_then(|()| std::fs::create_dir(key))),
        ("the certificate for a key", |pem, key| std::fs::copy(pem, key).map(drop)),
    ];
    for (what, harm) in table {
        let (_standin, builder) = model()?;
        let mut house = builder.start()?;
        house.term()?;
        let (pem, key) = (house.state().join("ca/ca.pem"), house.state().join("ca/ca.key"));
        harm(&pem, &key)?;
        let before = (std::fs::read(&pem).ok(), std::fs::read(&key).ok());
        let ran = serve(&house, &house.config())?.expect_code(69).with_context(|| what.to_owned())?;
        ensure!(ran.stderr.contains(&house.state().join("ca").display().to_string()), "{what}: {}", ran.stderr);
        let after = (std::fs::read(&pem).ok(), std::fs::read(&key).ok());
        ensure!(before == after, "{what}: the files were changed");
        ensure!(!house.door("one").exists(), "{what}: a door was opened");
    }
    Ok(())
}

/// A gateway that should not serve.
fn serve(house: &House, config: &Path) -> Result<Ran> {
    let mut command = Command::new(Tools::gateway()?);
    command.args(["serve", "--config"]).arg(config).env_clear().current_dir(house.folder());
    process::run(command, None, Duration::from_secs(10))
}
