//! Claims spoken by the test, byte by byte, at a TCP door.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use box_spec::wire::proof_text;
use box_spec::{Claim, ClaimReason, ClaimRefused};
use harness::claim::{Answer, claim};
use harness::network::Wire;
use harness::{Claimed, House};
use standin::Real;

use super::{KEY, LOGIN, OTHER, kinds, proof, proof_on, somewhere, with_door};

pub(super) fn keys() -> Result<()> {
    let (at, other) = (somewhere()?, somewhere()?);
    let second = format!(
        "[[box]]\nid = \"two\"\nagent = \"claude\"\nlisten = \"{other}\"\nkey_file = \"two.key\"\nunsafe_loopback = true\n"
    );
    let house = with_door(at, &second).file("two.key", OTHER.as_bytes()).start()?;
    // An earlier connection's proof, as one who listens would have it.
    let overheard = std::sync::Mutex::new(None);
    let listen = |identity: &box_spec::wire::Identity| {
        *overheard.lock().ok()? = proof(KEY)(identity);
        None
    };
    let first = refusal(Claimed::ask_at(at, &claim(), listen)?)?;
    let overheard = overheard.into_inner().ok().flatten().context("no challenge was told")?;
    let (here, houses) = ("over".parse()?, house.identity("one")?.house);
    let no_challenge = proof_on(KEY, &proof_text(&houses, &here, ""));
    let refused = [
        ("another's key", Claimed::ask_at(at, &claim(), proof(OTHER))?),
        ("the key of this door at another", Claimed::ask_at(other, &claim(), proof(KEY))?),
        ("an overheard proof", Claimed::ask_at(at, &claim(), |_| Some(overheard.clone()))?),
        ("no challenge", Claimed::ask_at(at, &claim(), |_| no_challenge.clone())?),
        ("the key itself", Claimed::ask_at(at, &claim(), |_| Some(KEY.to_owned()))?),
        ("no hexadecimal", Claimed::ask_at(at, &claim(), |_| Some("z".repeat(64)))?),
        (
            "two proofs",
            Claimed::ask_at(at, &claim(), |identity| {
                let good = proof(KEY)(identity)?;
                Some(format!("{good}\r\n{}: {good}", box_spec::wire::PROOF_HEADER))
            })?,
        ),
    ];
    for (what, answer) in refused {
        let said = refusal(answer).with_context(|| what.to_owned())?;
        ensure!(said == first, "{what} is told otherwise: {said:?}");
    }
    ensure!(first.1.reason == ClaimReason::WrongKey && first.0 == 403, "{first:?}");
    house.wait_line("the refusals", |line| line["reason"] == "key-refused" && line["box"] == "over")?;
    ensure!(house.ledger()?.iter().all(|line| line["kind"] != "alarm"), "a mistake at a free door is an alarm");
    // The right key at each, at the same time: the address says which box.
    let mut one = taken(Claimed::ask_at(at, &claim(), proof(KEY))?)?.attested()?;
    let two = taken(Claimed::ask_at(other, &claim(), proof(OTHER))?)?.attested()?;
    ensure!((one.spec.box_id.as_str(), two.spec.box_id.as_str()) == ("over", "two"));
    // A token is good at its own door alone, and without one everybody is nobody.
    for (door, token, status) in [
        (at, Some(one.token()), "200"),
        (other, Some(one.token()), "407"),
        (at, None, "407"),
        (other, Some(two.token()), "200"),
    ] {
        let said = connect(door, token)?;
        ensure!(said.starts_with(&format!("HTTP/1.1 {status}")), "{door}: {said}");
    }
    ensure!(one.next(Duration::from_millis(50)).is_err(), "the house said more");
    one.report()?;
    two.report()?;
    Ok(())
}

pub(super) fn knocks() -> Result<()> {
    let at = somewhere()?;
    let house = with_door(at, "").start()?;
    let held = taken(Claimed::ask_at(at, &claim(), proof(KEY))?)?.attested()?;
    let run = held.spec.run.to_string();
    ensure!(refusal(Claimed::ask_at(at, &claim(), |_| None)?)?.1.reason == ClaimReason::WrongKey);
    house.wait_line("the alarm", |line| line["kind"] == "alarm" && line["alarm"] == "key-refused")?;
    let settled = held.report()?;
    ensure!(format!("{:?}", settled.verdict).contains("its door was opened"), "{run}: {settled:?}");
    // With the key a held door is taken, as any.
    let held = taken(Claimed::ask_at(at, &claim(), proof(KEY))?)?.attested()?;
    ensure!(refusal(Claimed::ask_at(at, &claim(), proof(KEY))?)?.1.reason == ClaimReason::DoorTaken);
    drop(held);
    Ok(())
}

pub(super) fn taken_up() -> Result<()> {
    let at = somewhere()?;
    let house = with_door(at, "").start()?;
    let first = taken(Claimed::ask_at(at, &claim(), proof(KEY))?)?.attested()?;
    let (run, token) = (first.spec.run.to_string(), first.spec.token.clone());
    let again = Claim { reattach: Some(token.clone()), ..claim() };
    drop(first);
    house.wait_line("the break", |line| line["kind"] == "detached")?;
    // What the run has under way goes on while its claim is away.
    ensure!(connect(at, Some(token.expose()))?.starts_with("HTTP/1.1 200"));
    let second = taken(Claimed::ask_at(at, &again, proof(KEY))?)?;
    ensure!(second.spec.run.to_string() == run && second.spec.token == token);
    // The box knew of a break before the house did: the newer connection is the run's.
    let mut third = taken(Claimed::ask_at(at, &again, proof(KEY))?)?;
    let mut second = second;
    ensure!(second.next(Duration::from_secs(5)).is_err(), "the connection before still speaks for the run");
    ensure!(third.next(Duration::from_millis(200)).is_err(), "the house said something");
    let settled = third.report()?;
    ensure!(settled.verdict == box_spec::RunVerdict::Completed, "{settled:?}");
    let kinds = kinds(&house, &run)?;
    let of = |kind: &str| kinds.iter().filter(|one| *one == kind).count();
    ensure!((of("detached"), of("reattached"), of("lost"), of("report")) == (1, 2, 0, 1), "{kinds:?}");
    // A token without the key, and a key without the token, take nothing up.
    let held = taken(Claimed::ask_at(at, &claim(), proof(KEY))?)?.attested()?;
    let stolen = Claim { reattach: Some(held.spec.token.clone()), ..claim() };
    ensure!(refusal(Claimed::ask_at(at, &stolen, proof(OTHER))?)?.1.reason == ClaimReason::WrongKey);
    ensure!(refusal(Claimed::ask_at(at, &again, proof(KEY))?)?.1.reason == ClaimReason::NothingToReattach);
    let settled = held.report()?;
    ensure!(settled.verdict != box_spec::RunVerdict::Completed, "knocking was not counted: {settled:?}");
    Ok(())
}

pub(super) fn lost() -> Result<()> {
    for (init, door) in [(true, "free"), (false, "shut")] {
        let at = somewhere()?;
        let house = with_door(at, "[limits]\nreattach = \"400ms\"\n").start()?;
        let asked = Claim { namespace_init: init, ..claim() };
        let mut claimed = taken(Claimed::ask_at(at, &asked, proof(KEY))?)?;
        let attestation = box_spec::Attestation { namespace_init: init, ..harness::claim::attestation() };
        claimed.say(&box_spec::FromBox::Attest(attestation))?;
        ensure!(matches!(claimed.next(Duration::from_secs(5))?, box_spec::FromHouse::Go));
        let (run, token) = (claimed.spec.run.to_string(), claimed.spec.token.clone());
        drop(claimed);
        let lost = house.wait_line("the loss", |line| line["kind"] == "lost")?;
        ensure!(lost["run"] == run.as_str() && lost["facts"]["door"] == door, "{lost}");
        ensure!(kinds(&house, &run)?.contains(&"detached".to_owned()));
        ensure!(connect(at, Some(token.expose()))?.starts_with("HTTP/1.1 407"), "the token outlived its run");
        let again = Claim { reattach: Some(token), ..claim() };
        ensure!(refusal(Claimed::ask_at(at, &again, proof(KEY))?)?.1.reason == ClaimReason::NothingToReattach);
        match (init, Claimed::ask_at(at, &claim(), proof(KEY))?) {
            (true, answer) => drop(taken(answer)?),
            (false, answer) => ensure!(refusal(answer)?.1.reason == ClaimReason::DoorShut),
        }
    }
    // Before the word to go there is no agent: nothing waits, and the door is free.
    let at = somewhere()?;
    let house = with_door(at, "").start()?;
    let claimed = taken(Claimed::ask_at(at, &claim(), proof(KEY))?)?;
    drop(claimed);
    house.wait_line("the end", |line| line["kind"] == "failed")?;
    drop(taken(Claimed::ask_at(at, &claim(), proof(KEY))?)?);
    Ok(())
}

pub(super) fn told() -> Result<()> {
    let at = SocketAddr::from(([0, 0, 0, 0], somewhere()?.port()));
    let house = with_door(at, "").start()?;
    let written = std::fs::read_to_string(house.folder().join("over.house")).context("read the fingerprint")?;
    ensure!(written.trim_end() == house.identity("one")?.house.as_str(), "{written}");
    let status = house.gateway(&["status"])?.expect_code(0)?.text();
    ensure!(status.contains(&format!("at {at}, EVERY interface")), "{status}");
    ensure!(house.said().contains("listens on every interface"), "{}", house.said());
    // An address that no interface has is told with its fix.
    let nowhere = House::builder()
        .secret(Real::Bearer(LOGIN.into()))
        .file("k", KEY.as_bytes())
        .extra("\n[[box]]\nid = \"over\"\nagent = \"claude\"\nlisten = \"192.0.2.77:3129\"\nkey_file = \"k\"\n");
    let refused = format!("{:#}", nowhere.start().err().context("it started")?);
    ensure!(refused.contains("no interface of the house has this address"), "{refused}");
    Ok(())
}

fn taken(answer: Answer) -> Result<Claimed> {
    match answer {
        Answer::Taken(claimed) => Ok(*claimed),
        Answer::Refused { status, body } => bail!("refused with {status}: {body:?}"),
    }
}

fn refusal(answer: Answer) -> Result<(u16, ClaimRefused)> {
    match answer {
        Answer::Refused { status, body } => Ok((status, body.context("no reason was told")?)),
        Answer::Taken(claimed) => bail!("taken: {}", claimed.spec.run),
    }
}

/// What a CONNECT to a host of nobody is answered.
fn connect(door: SocketAddr, token: Option<&str>) -> Result<String> {
    use std::io::{Read, Write};
    let mut wire = Wire::to(door)?;
    wire.write_all(harness::door::connect_head("nowhere.test:443", token).as_bytes())?;
    let mut answer = [0; 512];
    let read = wire.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}
