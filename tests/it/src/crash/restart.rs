//! A gateway that goes and comes back in the middle of a run: who may take the run up, and what is not forgotten.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use box_spec::{Claim, ClaimReason, EndedBy, FromBox, FromHouse, RunVerdict};
use harness::claim::{self, Answer};
use harness::{Case, Claimed, House, Tunnel, case, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{GATEWAY, ask, inside, lines, model, post, reattach, record, state_of, take_up};

pub(crate) const CASES: &[Case] = &[
    case("crash::a_run_is_taken_up_after_sigterm_and_after_kill_9", taken_up).needs(GATEWAY),
    case("crash::a_reattach_with_another_token_is_refused_and_no_success", other_token).needs(GATEWAY),
    case("crash::the_ceiling_goes_on_while_the_gateway_is_gone", ceiling).needs(GATEWAY),
    case("crash::a_refusal_is_not_forgotten_by_a_restart", refusal_kept).needs(GATEWAY),
    case("crash::a_run_that_nobody_takes_up_is_lost_and_its_token_dead", not_taken_up).needs(GATEWAY),
    case("crash::a_run_that_was_never_told_to_go_leaves_a_free_door", never_began).needs(GATEWAY),
    case("crash::a_drain_lets_an_open_stream_end_and_cuts_one_that_does_not", drain).needs(GATEWAY).alone(),
];

fn taken_up() -> Result<()> {
    let (standin, builder) = model()?;
    let mut house = builder.start()?;
    let mut claimed = Claimed::take(&house.door("one"))?;
    let spec = claimed.spec.clone();
    for gentle in [true, false] {
        ensure!(if gentle { house.term()?.code == Some(0) } else { house.kill()?.signal == Some(9) });
        drop(claimed);
        house.start()?;
        ensure!(state_of(&house, "one")? == "waiting");
        ensure!(ask(&house, "one", spec.token.expose(), MODEL)?.status == 200, "a waiting run's token is dead");
        let Answer::Refused { status, .. } = Claimed::ask(&house.door("one"), &again(None))? else {
            anyhow::bail!("a door whose run is waited for was claimed");
        };
        ensure!(status == 409, "{status}");
        claimed = take_up(&house.door("one"), &spec.token)?;
        ensure!(claimed.spec.run == spec.run && claimed.spec.token == spec.token, "another run");
        ensure!(claimed.spec.sentinels == spec.sentinels && claimed.spec.started == spec.started);
        ensure!(ask(&house, "one", spec.token.expose(), MODEL)?.status == 200);
    }
    ensure!(standin.seen().len() == 4);
    claimed.report()?;
    let all = lines(&house.ledger_file())?;
    ensure!(all.iter().filter(|line| line["kind"] == "reattached").count() == 2);
    // The claims above were not boxd's.
    ensure!(record(&house, spec.run.as_str())?["verdict"]["failed"].is_string());
    house.term()?.expect_code(0)?;
    house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    Ok(())
}

fn other_token() -> Result<()> {
    for guessed in [true, false] {
        let (_standin, builder) = model()?;
        let mut house = builder.add_box("two", "").start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        let (run, token) = (claimed.spec.run.clone(), claimed.spec.token.clone());
        house.kill()?;
        drop(claimed);
        house.start()?;
        if guessed {
            let guess = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab".parse()?;
            let Answer::Refused { status, body } = Claimed::ask(&house.door("one"), &again(Some(guess)))? else {
                anyhow::bail!("a guess took a run up");
            };
            ensure!(
                status == 403 && body.as_ref().is_some_and(|body| body.reason == ClaimReason::NothingToReattach),
                "{body:?}"
            );
            ensure!(body.is_some_and(|body| body.run.is_none()), "the run was named to somebody who guessed");
            house.wait_line("the alarm", |line| line["alarm"] == "reattach-refused")?;
        }
        let claimed = take_up(&house.door("one"), &token)?;
        let Answer::Refused { status, .. } = Claimed::ask(&house.door("two"), &again(Some(token.clone())))? else {
            anyhow::bail!("a run of another box was taken up");
        };
        ensure!(status == 403, "{status}");
        let settled = claimed.report()?;
        ensure!(matches!(settled.verdict, RunVerdict::Failed(_)) == guessed, "{:?}", settled.verdict);
        ensure!(record(&house, run.as_str())?["verdict"].is_object() == guessed);
    }
    Ok(())
}

fn ceiling() -> Result<()> {
    let (standin, builder) = model()?;
    let mut house = builder.ceiling("4s").start()?;
    let began = Instant::now();
    let claimed = Claimed::take(&house.door("one"))?;
    let (run, token) = (claimed.spec.run.clone(), claimed.spec.token.clone());
    house.kill()?;
    drop(claimed);
    house.start()?;
    ensure!(ask(&house, "one", token.expose(), MODEL)?.status == 200);
    house.wait_line("the cut", |line| line["kind"] == "cut" && line["run"] == run.as_str())?;
    let took = began.elapsed();
    ensure!((3500..5500).contains(&took.as_millis()), "cut after {took:?}");
    ensure!(inside(&house, "one", token.expose()).is_err(), "the token outlived the ceiling");
    ensure!(standin.seen().len() == 1);

    let mut claimed = reattach(&house.door("one"), &token)?;
    claimed.say(&FromBox::Attest(claim::attestation()))?;
    let words = [claimed.next(WAIT)?, claimed.next(WAIT)?];
    ensure!(words.iter().any(|word| matches!(word, FromHouse::Cut { ended_by: EndedBy::Ceiling })), "{words:?}");
    // A box that denies it is not believed.
    let settled = claimed.report()?;
    ensure!(matches!(&settled.verdict, RunVerdict::Failed(why) if why.contains("its ceiling")), "{settled:?}");
    let cuts = lines(&house.ledger_file())?.iter().filter(|line| line["kind"] == "cut").count();
    ensure!(cuts == 1, "told {cuts} times");
    Ok(())
}

fn refusal_kept() -> Result<()> {
    let (_standin, builder) = model()?;
    let mut house = builder.start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let token = claimed.spec.token.clone();
    let tunnel = Tunnel::connect(&house.door("one"), token.expose(), "nowhere.test:443")?;
    let answer = tunnel.tls(&house.ca_pem()?, "nowhere.test")?.ask(b"GET / HTTP/1.1\r\nHost: nowhere.test\r\n\r\n")?;
    ensure!(answer.status == 403, "{answer:?}");
    house.kill()?;
    drop(claimed);
    house.start()?;
    let settled = take_up(&house.door("one"), &token)?.report()?;
    ensure!(matches!(&settled.verdict, RunVerdict::Failed(why) if why.contains("refused")), "{settled:?}");
    // A port that no grant opens is told inside the tunnel and counts all the same.
    let claimed = Claimed::take(&house.door("one"))?;
    drop(Tunnel::connect(&house.door("one"), claimed.token(), "api.anthropic.com:22")?);
    let settled = claimed.report()?;
    ensure!(matches!(&settled.verdict, RunVerdict::Failed(why) if why.contains("refused")), "{settled:?}");
    Ok(())
}

fn not_taken_up() -> Result<()> {
    for (init, state) in [(true, "free"), (false, "shut")] {
        let (standin, builder) = model()?;
        let mut house = builder.extra("[limits]\nreattach = \"700ms\"\n").start()?;
        let asked = Claim { namespace_init: init, ..claim::claim() };
        let Answer::Taken(mut claimed) = Claimed::ask(&house.door("one"), &asked)? else {
            anyhow::bail!("the claim was refused");
        };
        claimed.say(&FromBox::Attest(box_spec::Attestation { namespace_init: init, ..claim::attestation() }))?;
        ensure!(matches!(claimed.next(WAIT)?, FromHouse::Go));
        let (run, token) = (claimed.spec.run.clone(), claimed.spec.token.clone());
        house.kill()?;
        drop(claimed);
        house.start()?;
        let line = house.wait_line("the loss", |line| line["kind"] == "lost")?;
        ensure!(line["facts"]["door"] == state && line["run"] == run.as_str(), "{line}");
        ensure!(state_of(&house, "one")? == state);
        ensure!(record(&house, run.as_str())?["verdict"]["lost"].is_string());
        ensure!(reattach(&house.door("one"), &token).is_err() && inside(&house, "one", token.expose()).is_err());
        house.kill()?;
        house.start()?;
        ensure!(state_of(&house, "one")? == state, "a restart changed a door that was {state}");
        ensure!(inside(&house, "one", token.expose()).is_err(), "a restart brought the token back");
        ensure!(standin.seen().is_empty());
    }
    Ok(())
}

fn drain() -> Result<()> {
    for (drip, whole) in [("<<drip:2>>", true), ("<<drip:20>>", false)] {
        let (standin, builder) = model()?;
        let mut house = builder.extra("[limits]\ndrain = \"5s\"\n").start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        let body = format!(r#"{{"stream":true,"messages":[{{"role":"user","content":"{drip}"}}]}}"#);
        let mut stream = inside(&house, "one", claimed.token())?;
        stream.send(post(MODEL, &body).as_bytes())?;
        standin.wait_seen(1, Duration::from_secs(5))?;
        let began = Instant::now();
        signal(&house)?;
        until("the door to shut", Duration::from_secs(2), || (!house.door("one").exists()).then_some(()))?;
        let told = String::from_utf8_lossy(&stream.rest()?).into_owned();
        ensure!(told.contains("message_stop") == whole, "{told}");
        let ran = house.term();
        let took = began.elapsed();
        if whole {
            ensure!(took < Duration::from_millis(4500), "waited for nothing: {took:?}");
        } else {
            ensure!((4500..8000).contains(&took.as_millis()), "{took:?}");
        }
        ran?.expect_code(0)?;
        let all = lines(&house.ledger_file())?;
        let opened = all.iter().find(|line| line["kind"] == "request").map(|line| line["seq"].clone());
        let closed = all.iter().find(|line| line["kind"] == "closed" && Some(&line["of"]) == opened.as_ref());
        let ended = closed.map(|line| line["ended"].clone()).unwrap_or_default();
        ensure!((ended == "complete") == whole && ended.is_string(), "the line was closed as {ended}");
        let told = house.gateway(&["ledger", "verify"])?.expect_code(0)?.text();
        ensure!(!told.contains("never-closed"), "{told}");
    }
    Ok(())
}

/// There was no agent, so there is nothing to wait for and nothing that could live on.
fn never_began() -> Result<()> {
    for gentle in [true, false] {
        let (_standin, builder) = model()?;
        let mut house = builder.start()?;
        let Answer::Taken(mut claimed) = Claimed::ask(&house.door("one"), &claim::claim())? else {
            anyhow::bail!("the claim was refused");
        };
        let (run, token) = (claimed.spec.run.to_string(), claimed.spec.token.clone());
        if gentle {
            house.term()?.expect_code(0)?;
        } else {
            house.kill()?;
        }
        ensure!(claimed.next(WAIT).is_err(), "the house said something");
        house.start()?;
        let line = house.wait_line("its end", |line| line["kind"] == "failed")?;
        ensure!(line["run"] == run.as_str(), "{line}");
        let record = until("the record", WAIT, || record(&house, &run).ok())?;
        ensure!(record["verdict"]["failed"].as_str().is_some_and(|why| why.contains("could not run")), "{record}");
        ensure!(reattach(&house.door("one"), &token).is_err(), "it was taken up");
        until("the door to be free", WAIT, || (state_of(&house, "one").ok()? == "free").then_some(()))?;
        let second = Claimed::take(&house.door("one"))?;
        ensure!(second.report()?.verdict == RunVerdict::Completed);
    }
    Ok(())
}

/// SIGTERM, without waiting for the end. A second one, from [`House::term`], must change nothing.
fn signal(house: &House) -> Result<()> {
    Ok(kill(Pid::from_raw(house.pid().unwrap_or_default()), Signal::SIGTERM)?)
}

fn again(token: Option<box_spec::RunToken>) -> Claim {
    Claim { reattach: token, ..claim::claim() }
}

const MODEL: &str = "/v1/messages";
const WAIT: Duration = Duration::from_secs(5);
