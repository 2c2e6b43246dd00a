//! The stand-in against the real claude, without boxgate: what the other tests compare with.

mod matrix;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Bare, Case, Need, case};
use standin::{Cut, Fault, Options, Real, Rule, StandIn};

pub(crate) const MATRIX: &[Case] = matrix::CASES;

pub(crate) const CASES: &[Case] = &[
    case("bare::claude_takes_the_stand_in_for_real", takes_it_for_real).needs(AGENT),
    case("bare::only_the_real_credential_is_accepted", only_the_real_one).needs(AGENT),
    case("bare::a_shell_call_changes_a_file", shell_call).needs(AGENT),
    case("bare::faults_show_as_measured", faults).needs(AGENT),
    case("bare::long_prompts_arrive_whole", long_prompt).needs(AGENT),
];

fn takes_it_for_real() -> Result<()> {
    for real in [Real::Bearer("sk-ant-oat01-real".into()), Real::ApiKey("sk-ant-api03-real".into())] {
        let standin = standin(&real)?;
        let ran = Bare::new(&standin, &real, "say <<drip:1>><<text:hello>>")?.run(LONG)?.expect_code(0)?;
        ensure!(ran.result()?["result"] == "0 hello", "{}", ran.text());
        let model: Vec<_> = standin.seen().into_iter().filter(|seen| seen.path.starts_with("/v1/messages")).collect();
        ensure!(model.len() == 1 && model[0].real && model[0].complete, "{model:?}");
        let connections = standin.connections();
        let raw = &connections.iter().find(|one| one.id == model[0].connection).context("its connection")?.raw;
        let at = raw.windows(model[0].head.len()).position(|window| window == model[0].head);
        ensure!(at.is_some(), "the head is not among the bytes of its connection");
        ensure!(model[0].body_len == model[0].body.len() as u64 && model[0].body_sha256.len() == 64, "{model:?}");
    }
    Ok(())
}

fn only_the_real_one() -> Result<()> {
    let standin = standin(&Real::ApiKey("sk-ant-api03-real".into()))?;
    let other = Real::ApiKey("sk-ant-api03-other".into());
    let ran = Bare::new(&standin, &other, "hello")?.env("CLAUDE_CODE_MAX_RETRIES", "1").run(LONG)?.expect_code(1)?;
    ensure!(ran.result()?["is_error"] == true, "{}", ran.text());
    ensure!(standin.seen().iter().all(|seen| !seen.real && seen.answered == Some(401)), "{:?}", standin.seen());
    Ok(())
}

fn shell_call() -> Result<()> {
    let real = Real::Bearer("sk-ant-oat01-real".into());
    let standin = standin(&real)?;
    let bare = Bare::new(&standin, &real, "<<sh:echo changed > made.txt>><<text:made>>")?;
    let ran = bare.run(LONG)?.expect_code(0)?;
    ensure!(ran.result()?["result"] == "made", "{}", ran.text());
    ensure!(std::fs::read_to_string(bare.workspace().join("made.txt"))? == "changed\n", "the file is another");
    ensure!(standin.seen().len() == 2, "{} requests", standin.seen().len());
    Ok(())
}

/// Exit code and number of requests, with two retries.
fn faults() -> Result<()> {
    let cut = |cut| Rule::new("/v1/messages", Fault::CutAfter { events: 2, cut }).times(1);
    for (what, rule, code, requests) in [
        ("403", Rule::status("/v1/messages", 403), 1, 1),
        ("500", Rule::status("/v1/messages", 500), 1, 3),
        ("529 once", Rule::status("/v1/messages", 529).times(1), 0, 2),
        ("a reset", cut(Cut::Reset), 0, 2),
        ("a close", cut(Cut::Close), 0, 2),
    ] {
        let real = Real::Bearer("sk-ant-oat01-real".into());
        let standin = standin(&real)?;
        standin.rules(vec![rule]);
        let bare = Bare::new(&standin, &real, "hello")?.env("CLAUDE_CODE_MAX_RETRIES", "2");
        let ran = bare.run(LONG)?.expect_code(code).with_context(|| what.to_owned())?;
        ensure!(standin.seen().len() == requests, "{what}: {} requests\n{}", standin.seen().len(), ran.text());
    }
    Ok(())
}

fn long_prompt() -> Result<()> {
    let real = Real::Bearer("sk-ant-oat01-real".into());
    let standin = standin(&real)?;
    // The longest that one argument can hold.
    let prompt = format!("{}<<text:whole>>", "long ".repeat(25_000));
    let ran = Bare::new(&standin, &real, &prompt)?.run(LONG)?.expect_code(0)?;
    ensure!(ran.result()?["result"] == "whole", "{}", ran.text());
    Ok(())
}

fn standin(real: &Real) -> Result<StandIn> {
    StandIn::start(Options { real: vec![real.clone()], ..Options::default() })
}

const AGENT: &[Need] = &[Need::Agent];
const LONG: Duration = Duration::from_secs(60);
