//! The stock claude in an isolated box: what it can do, and that faults and refusals look as they should.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Bare, BoxRun, Case, House, Need, Ran, case};
use nix::sys::signal::Signal;
use standin::{Cut, Fault, Options, Real, Rule, StandIn};

pub(crate) const CASES: &[Case] = &[
    case("claude::a_shell_call_changes_a_file_of_the_workspace", shell_call).needs(ALL),
    case("claude::one_file_is_a_login_or_a_key_by_its_beginning", by_shape).needs(ALL),
    case("claude::a_prompt_of_two_megabytes_arrives_whole", long_prompt).needs(ALL),
    case("claude::twenty_seconds_of_silence_are_no_end", silence).needs(ALL),
    case("claude::r22_150_seconds_of_silence_through_shim_and_gateway_are_no_end", long_silence).needs(ALL).waiting(),
    case("claude::upstream_faults_look_as_they_do_without_us", same_as_bare).needs(ALL),
    case("claude::our_refusals_end_it_soon_and_say_why", refusals).needs(ALL).alone(),
    case("claude::a_rejected_credential_is_told_as_our_outage", rejected).needs(ALL),
    case("claude::a_hang_ends_by_the_ceiling", ceiling).needs(ALL).alone(),
    case("claude::signals_end_it_as_they_do_without_us", signals).needs(ALL),
];

fn shell_call() -> Result<()> {
    for real in [login(), Real::ApiKey("sk-ant-api03-REAL-of-claude".into())] {
        let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
        let house = House::builder().model_at(&standin, real).start()?;
        let launch = BoxRun::new(&house, "one")?.isolated();
        let launch = launch.prompt("<<sh:echo changed > made.txt; uname -n>><<text:made>>").output("text");
        let ran = launch.run(LONG)?.expect_code(0)?;
        ensure!(ran.text().trim_end() == "made", "{}", ran.text());
        ensure!(std::fs::read_to_string(launch.workspace_folder().join("made.txt"))? == "changed\n");
        ensure!(standin.seen().len() == 2 && standin.seen().iter().all(|seen| seen.real), "{:?}", paths(&standin));
    }
    Ok(())
}

/// One file, one configuration and one gateway, without a restart.
fn by_shape() -> Result<()> {
    let (login, key) = (login(), Real::ApiKey("sk-ant-api03-REAL-of-claude".into()));
    let standin = StandIn::start(Options { real: vec![login.clone(), key.clone()], ..Options::default() })?;
    let secret = "[[secret]]\nname = \"either\"\nprovider = \"anthropic\"\nkind = \"auto\"\nfile = \"either\"\n";
    let grant = format!(
        "name = \"model\"\npreset = \"anthropic\"\nsecret = \"either\"\nunsafe_dial = \"{}\"\nupstream_ca = \"ca.pem\"",
        standin.address()
    );
    let builder = House::builder().grant(&grant).extra(secret).file("ca.pem", standin.ca_pem().as_bytes());
    let house = builder.start()?;
    let file = house.folder().join("either");
    let kind = || Ok::<_, anyhow::Error>(house.gateway(&["status"])?.expect_code(0)?.text());
    let status = kind()?;
    ensure!(status.contains("anthropic of either kind") && status.contains("is missing"), "{status}");
    for (real, word, in_file, in_variable, header, other) in [
        (&login, "anthropic login", Some("sk-ant-oat01-boxgate-sentinel"), "none\n", "authorization", "x-api-key"),
        (&key, "anthropic api-key", None, "sk-ant-api03-boxgate-sentinel", "x-api-key", "authorization"),
    ] {
        replace(&file, real.value())?;
        ensure!(kind()?.contains(word), "{}", kind()?);
        standin.forget();
        let script = "echo \"${ANTHROPIC_API_KEY-none}\" > seen.txt";
        let launch = boxed(&house, &format!("<<sh:{script}>><<text:by shape>>"))?.output("text");
        let ran = launch.run(LONG)?.expect_code(0)?;
        ensure!(ran.text().trim_end() == "by shape", "{}", ran.text());
        let seen = std::fs::read_to_string(launch.workspace_folder().join("seen.txt")).context("read what it saw")?;
        ensure!(seen.starts_with(in_variable) && !seen.contains(real.value()), "{word}: the agent has {seen}");
        let seeded = std::fs::read_to_string(launch.session_folder().join("claude/.credentials.json")).ok();
        let fits = match in_file {
            Some(sentinel) => seeded.as_ref().is_some_and(|text| text.contains(sentinel)),
            None => seeded.is_none(),
        };
        ensure!(fits, "{word}: its file holds {seeded:?}");
        let calls = standin.model_calls();
        ensure!(calls.len() == 2 && calls.iter().all(|call| call.real), "{word}: {:?}", paths(&standin));
        for call in &calls {
            let carried = call.header(header);
            ensure!(carried.len() == 1 && carried[0].contains(real.value()), "{word}: {header} is not the real one");
            ensure!(call.header(other).is_empty(), "{word}: {other} was sent too");
        }
    }
    // What is neither is named, never shown, and never sent.
    standin.forget();
    replace(&file, "sk-ant-ort01-REAL-of-claude")?;
    let ran = boxed(&house, "hello")?.run(LONG)?.expect_code(78)?;
    ensure!(ran.stderr.contains("no credential"), "{}", ran.stderr);
    let status = kind()?;
    ensure!(status.contains("neither of what anthropic gives") && !status.contains("ort01"), "{status}");
    ensure!(standin.seen().is_empty(), "{:?}", paths(&standin));
    Ok(())
}

fn replace(file: &std::path::Path, text: &str) -> Result<()> {
    let new = file.with_extension("new");
    harness::files::put(&new, text.as_bytes(), 0o600)?;
    std::fs::rename(&new, file).context("rename the secret into its place")
}

fn long_prompt() -> Result<()> {
    let (standin, house) = house()?;
    let mark = "the-very-end-of-it";
    let prompt = format!("{} {mark} <<text:whole>>", "long ".repeat(400_000));
    let ran = BoxRun::new(&house, "one")?.isolated().long_prompt(&prompt)?.run(LONG)?.expect_code(0)?;
    ensure!(ran.result()?["result"] == "whole", "{}", ran.text());
    let seen = standin.seen();
    ensure!(seen.len() == 1 && seen[0].body_len > 2_000_000 && seen[0].text().contains(mark), "{:?}", paths(&standin));
    Ok(())
}

fn silence() -> Result<()> {
    let (standin, house) = house()?;
    let ran = boxed(&house, "<<sleep:20>><<text:patient>>")?.run(LONG)?.expect_code(0)?;
    ensure!(ran.result()?["result"] == "patient", "{}", ran.text());
    ensure!(standin.seen().len() == 1, "{:?}", paths(&standin));
    Ok(())
}

fn long_silence() -> Result<()> {
    let standin = StandIn::start(Options { real: vec![login()], ..Options::default() })?;
    let house = House::builder().model_at(&standin, login()).ceiling("10m").start()?;
    let ran = boxed(&house, "<<sleep:150>><<text:patient>>")?.run(Duration::from_secs(240))?.expect_code(0)?;
    ensure!(ran.result()?["result"] == "patient", "{}", ran.text());
    ensure!(standin.seen().len() == 1, "{:?}", paths(&standin));
    Ok(())
}

/// Exit code, text and number of requests, with two retries in both.
fn same_as_bare() -> Result<()> {
    let cut = |cut| Rule::new("/v1/messages", Fault::CutAfter { events: 2, cut }).times(1);
    for (what, rule) in [
        ("403", Rule::status("/v1/messages", 403)),
        ("429", Rule::status("/v1/messages", 429)),
        ("500", Rule::status("/v1/messages", 500)),
        ("529", Rule::status("/v1/messages", 529)),
        ("a stream that is reset", cut(Cut::Reset)),
        ("a stream that is closed", cut(Cut::Close)),
        ("a stream that ends early", cut(Cut::Clean)),
    ] {
        let (standin, house) = house()?;
        standin.rules(vec![rule.clone()]);
        let bare = Bare::new(&standin, &login(), "hello")?.env("CLAUDE_CODE_MAX_RETRIES", "2").run(LONG)?;
        let bare_saw = outcome(&bare, &standin)?;
        standin.forget();
        standin.rules(vec![rule]);
        let ran = boxed(&house, "hello")?.env("CLAUDE_CODE_MAX_RETRIES", "2").run(LONG)?;
        let box_saw = outcome(&ran, &standin)?;
        ensure!(box_saw == bare_saw, "{what}: in the box {box_saw:?}, bare {bare_saw:?}\n{}", ran.stderr);
    }
    Ok(())
}

fn refusals() -> Result<()> {
    let ungranted = House::builder().secret(login()).start()?;
    let ran = refused(&ungranted)?;
    ensure!(ran.contains("no grant") && ran.contains("policy"), "no grant: {ran}");

    let (standin, house) = house()?;
    std::fs::remove_file(house.secret())?;
    let missing = refused(&house);
    ensure!(standin.seen().is_empty(), "{:?}", paths(&standin));
    // Refused at the claim or at the request: both must say what is missing.
    let missing = missing?;
    ensure!(missing.contains("anthropic"), "missing secret: {missing}");
    Ok(())
}

/// Runs claude, which must fail within five seconds; gives back all that was said.
fn refused(house: &House) -> Result<String> {
    let ran = boxed(house, "hello")?.run(LONG)?;
    ensure!(ran.code != Some(0), "a refused run ended well: {}", ran.text());
    ensure!(ran.took < Duration::from_secs(5), "took {:?}: {}", ran.took, ran.text());
    let result = ran.result().map(|result| result["result"].to_string()).unwrap_or_default();
    Ok(format!("{result}\n{}", ran.stderr))
}

fn rejected() -> Result<()> {
    let (standin, house) = house()?;
    standin.rules(vec![Rule::status("/v1/messages", 401)]);
    let said = refused(&house)?;
    ensure!(said.contains("outage"), "{said}");
    ensure!(standin.seen().len() == 1, "{:?}", paths(&standin));
    house.wait_line("the outage", |line| line["reason"] == "credential-rejected")?;
    Ok(())
}

fn ceiling() -> Result<()> {
    for rule in [Some(Rule::new("/v1/messages", Fault::Hang(LONG))), None] {
        let real = login();
        let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
        let house = House::builder().model_at(&standin, real).ceiling("15s").start()?;
        standin.rules(rule.into_iter().collect());
        let ran = boxed(&house, "<<sleep:100>>")?.run(LONG)?.expect_code(124)?;
        ensure!(ran.took > Duration::from_secs(14) && ran.took < Duration::from_secs(22), "{:?}", ran.took);
        house.wait_line("the report", |line| line["kind"] == "report" && line.to_string().contains("ceiling"))?;
    }
    Ok(())
}

fn signals() -> Result<()> {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 0)] {
        let (standin, house) = house()?;
        let running = boxed(&house, "<<sleep:60>>")?.start()?;
        standin.wait_seen(1, Duration::from_secs(30)).with_context(|| running.stderr())?;
        running.signal(signal)?;
        running.wait(LONG)?.expect_code(code).with_context(|| signal.to_string())?;
    }
    Ok(())
}

/// What can be compared: exit code, whether it failed, the text, and how many requests the upstream saw.
fn outcome(ran: &Ran, standin: &StandIn) -> Result<(Option<i32>, bool, String, usize)> {
    let result = ran.result()?;
    let text = result["result"].as_str().unwrap_or_default().to_owned();
    Ok((ran.code, result["is_error"] == true, text, standin.seen().len()))
}

fn boxed(house: &House, prompt: &str) -> Result<BoxRun> {
    Ok(BoxRun::new(house, "one")?.isolated().prompt(prompt))
}

fn house() -> Result<(StandIn, House)> {
    let standin = StandIn::start(Options { real: vec![login()], ..Options::default() })?;
    let house = House::builder().model_at(&standin, login()).start()?;
    Ok((standin, house))
}

fn login() -> Real {
    Real::Bearer("sk-ant-oat01-REAL-of-claude".into())
}

fn paths(standin: &StandIn) -> Vec<String> {
    standin.seen().iter().map(|seen| format!("{} {} {:?}", seen.method, seen.path, seen.answered)).collect()
}

const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces];
const LONG: Duration = Duration::from_secs(90);
