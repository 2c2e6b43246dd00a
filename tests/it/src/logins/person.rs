//! A person logs in: `gateway login`, with a browser of the person's own and a provider that gives a login.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::process::{Ran, Running};
use harness::{door, raw, secrets, until};
use nix::sys::signal::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use standin::{Fault, Rule, StandIn};

use crate::crash::SmallDisk;

use super::base::{CLAUDE, CODEX, FIRST, Host, Kind, bearer, fresh, worked};

/// The first login, and a second one over it, in a house that serves.
pub(super) fn pastes() -> Result<()> {
    let mut host = without_login(CLAUDE)?;
    host.standin.sign_in(fresh(&CLAUDE), &[]);
    let listed = host.house.gateway(&["credential", "list"])?.expect_code(0)?.text();
    ensure!(listed.contains("OUTAGE"), "{listed}");
    let ran = paste(&host, &|shown| shown)?.expect_code(0)?;
    ensure!(ran.text().contains(".credentials.json"), "{}", ran.text());
    says_no_secret(&ran, fresh(&CLAUDE).value())?;
    let found = std::fs::metadata(host.file()).context("look at the login")?;
    ensure!(found.permissions().mode() & 0o7777 == 0o600 && found.len() > 0, "{found:?}");
    let tested = host.house.gateway(&["credential", "test", "host"])?.expect_code(0)?.text();
    ensure!(tested.contains("usable") && tested.contains("login of claude in"), "{tested}");
    worked(&host.once()?)?;
    ensure!(host.carried() == [bearer(&fresh(&CLAUDE))], "{:?}", host.carried());
    // Over a login whose chain is broken: what is not of it stays.
    host.write(&host.text(&super::base::old(&CLAUDE, -99), FIRST, -99))?;
    host.standin.sign_in(fresh(&CLAUDE), &[]);
    let by_address = |shown: String| shown.replacen('#', "&state=", 1);
    let ran = paste(&host, &|shown| format!("https://platform.claude.com/x?code={}", by_address(shown)))?;
    ran.expect_code(0)?;
    let text = host.read()?;
    for part in ["\"mcpOAuth\":{\"n\":1.50}", "\"z\":1e2", "\"subscriptionType\":\"max\"", fresh(&CLAUDE).value()] {
        ensure!(text.contains(part), "{part} is not in the file");
    }
    ensure!(!text.contains(FIRST), "the old refresh token is still there");
    host.house.gateway(&["credential", "test"])?.expect_code(0)?;
    worked(&host.once()?)?;
    // Each is in the ledger, by the house that serves; and by the command where none does.
    ensure!(told(&host)?.len() == 2, "{:?}", told(&host)?);
    host.house.term()?;
    host.standin.sign_in(fresh(&CLAUDE), &[]);
    paste(&host, &|shown| shown)?.expect_code(0)?;
    for line in told(&host)? {
        let wanted =
            serde_json::json!({ "provider": "anthropic", "kind": "login", "login_of": "claude", "secret": "host" });
        ensure!(line["facts"] == wanted, "{line}");
    }
    ensure!(told(&host)?.len() == 3, "{:?}", told(&host)?);
    host.house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    // Where no line can be written no login is kept.
    let before = host.read()?;
    std::fs::rename(host.house.ledger_file(), host.house.state().join("away")).context("take the ledger away")?;
    std::fs::create_dir(host.house.ledger_file()).context("put a folder in its place")?;
    host.standin.sign_in(super::base::hosts(&CLAUDE), &[]);
    let ran = paste(&host, &|shown| shown)?.expect_code(69)?;
    ensure!(ran.stderr.contains("is in no ledger, so it was not kept") && host.read()? == before, "{}", ran.stderr);
    left_over(&host)
}

/// The ledger's lines of logins that a person made.
fn told(host: &Host) -> Result<Vec<serde_json::Value>> {
    Ok(host.house.ledger()?.into_iter().filter(|line| line["kind"] == "login").collect())
}

/// Pending, told to ask more slowly, a connection that is cut meanwhile, and then allowed.
pub(super) fn types() -> Result<()> {
    let host = without_login(CODEX)?;
    let gives = fresh(&CODEX);
    host.standin.sign_in(gives.clone(), &[(403, "{}"), (429, r#"{"error":"slow_down"}"#)]);
    host.standin.rules(vec![Rule::new("/deviceauth/token", Fault::Reset).times(1)]);
    let (running, _input) = host.house.talk(&["login", "openai"])?;
    let shown = until("the code", SOON, || Some(text(&running)).filter(|text| text.contains("ABCD-1234")))?;
    ensure!(shown.contains("https://auth.openai.com/codex/device"), "{shown}");
    let ran = running.wait(MINUTE)?.expect_code(0)?;
    says_no_secret(&ran, gives.value())?;
    let polls: Vec<Instant> =
        host.standin.seen().iter().filter(|s| s.path.ends_with("/deviceauth/token")).map(|s| s.at).collect();
    ensure!(polls.len() == 4, "{} questions", polls.len());
    let pauses: Vec<Duration> = polls.windows(2).map(|pair| pair[1] - pair[0]).collect();
    ensure!(pauses[1] < Duration::from_secs(4) && pauses[2] >= Duration::from_secs(6), "{pauses:?}");
    let file: serde_json::Value = serde_json::from_str(&host.read()?).context("parse the login")?;
    ensure!(file["auth_mode"] == "chatgpt" && file["tokens"]["access_token"] == gives.value(), "the login's form");
    ensure!(file["tokens"]["account_id"].is_string() && file["tokens"]["id_token"].is_string(), "the login's form");
    let tested = host.house.gateway(&["credential", "test"])?.expect_code(0)?.text();
    ensure!(tested.contains("usable") && tested.contains("login of codex in"), "{tested}");
    left_over(&host)
}

pub(super) fn fails() -> Result<()> {
    let host = Host::new(CLAUDE, -99)?;
    let before = host.read()?;
    let unchanged = || -> Result<()> {
        ensure!(host.read()? == before, "a failed login changed the file");
        left_over(&host)
    };
    let cut = || vec![Rule::new("/oauth/token", Fault::Reset)];
    let late = || vec![Rule::status("/oauth/token", 503)];
    for (rules, pasted, code, said) in [
        (vec![], "https://x/?error=access_denied&state=s", 69, "refused the login (access_denied)"),
        (vec![], "code-of-the-stand-in#another-state", 69, "belongs to another login"),
        (vec![], "code-of-the-stand-in", 69, "is no code"),
        (vec![], "guessed#STATE", 69, "no longer good (invalid_grant)"),
        (cut(), "CODE", 69, "platform.claude.com: "),
        (late(), "CODE", 69, "it answered 503"),
        (vec![], "", 64, "nothing was pasted"),
    ] {
        host.standin.sign_in(fresh(&CLAUDE), &[]);
        host.standin.rules(rules);
        let of = |shown: String| {
            let state = shown.split_once('#').map(|(_, state)| state.to_owned()).unwrap_or_default();
            pasted.replace("CODE", &shown).replace("STATE", &state)
        };
        let ran = paste(&host, &of)?.expect_code(code)?;
        ensure!(ran.stderr.contains(said) && ran.stderr.contains("nothing was written"), "{pasted}: {}", ran.stderr);
        says_no_secret(&ran, fresh(&CLAUDE).value())?;
        unchanged()?;
    }
    let wrong = host.house.gateway(&["login", "openai", "--secret", "host"])?.expect_code(64)?;
    ensure!(wrong.stderr.contains("no [[secret]] named host"), "{}", wrong.stderr);
    let unknown = host.house.gateway(&["login", "nobody"])?.expect_code(64)?;
    ensure!(unknown.stderr.contains("anthropic or openai"), "{}", unknown.stderr);
    by_device()
}

fn by_device() -> Result<()> {
    let mut host = without_login(CODEX)?;
    let nobody = Rule::status("/deviceauth/usercode", 404);
    for (rules, before, said) in [
        (vec![], Some((403, r#"{"error":"access_denied"}"#)), "refused the login (access_denied)"),
        (vec![], Some((400, r#"{"error":{"code":"expired_token"}}"#)), "no longer good (expired_token)"),
        (vec![nobody], None, "no login by device code"),
        (vec![Rule::new("/oauth/token", Fault::Hang(Duration::ZERO))], None, "auth.openai.com: "),
    ] {
        host.standin.sign_in(fresh(&CODEX), before.as_slice());
        host.standin.rules(rules);
        let (running, _input) = host.house.talk(&["login", "openai"])?;
        let ran = running.wait(MINUTE)?.expect_code(69)?;
        ensure!(ran.stderr.contains(said) && ran.stderr.contains("nothing was written"), "{said}: {}", ran.stderr);
        ensure!(!host.file().exists(), "a failed login made a file");
        left_over(&host)?;
    }
    // Who is not trusted is told nothing, and who is not there is named.
    let config = std::fs::read_to_string(host.house.config())?;
    harness::files::put(&host.house.config(), config.replace("refresh_ca = \"ca.pem\"\n", "").as_bytes(), 0o600)?;
    let asked = host.standin.seen().len();
    let ran = host.house.gateway(&["login", "openai"])?.expect_code(69)?;
    ensure!(ran.stderr.contains("trusted root") && host.standin.seen().len() == asked, "{}", ran.stderr);
    let gone = StandIn::start(standin::Options::default())?;
    let address = gone.address();
    gone.stop();
    let config = config.replace(&host.standin.address().to_string(), &address.to_string());
    harness::files::put(&host.house.config(), config.as_bytes(), 0o600)?;
    let ran = host.house.gateway(&["login", "openai"])?.expect_code(69)?;
    ensure!(ran.stderr.contains("takes a connection"), "{}", ran.stderr);
    host.house.term().map(drop)
}

/// Told before anybody goes to a browser.
pub(super) fn no_place() -> Result<()> {
    for (kind, provider) in [(CLAUDE, "anthropic"), (CODEX, "openai")] {
        let mut host = without_login(kind)?;
        let folder = host.house.folder().join("login");
        let disk = SmallDisk::mount(&folder)?;
        disk.fill()?;
        let ran = host.house.gateway(&["login", provider])?.expect_code(73)?;
        ensure!(ran.stderr.contains("cannot be replaced") && ran.stderr.contains("begin again"), "{}", ran.stderr);
        ensure!(ran.stdout.is_empty() && host.standin.seen().is_empty(), "{}", ran.text());
        host.house.term()?;
    }
    Ok(())
}

pub(super) fn gives_up() -> Result<()> {
    for (kind, arguments, signal) in
        [(CLAUDE, ["login", "anthropic"], Signal::SIGINT), (CODEX, ["login", "openai"], Signal::SIGTERM)]
    {
        let host = without_login(kind)?;
        host.standin.sign_in(fresh(&host.kind), &[(403, "{}"), (403, "{}"), (403, "{}"), (403, "{}"), (403, "{}")]);
        let (running, _input) = host.house.talk(&arguments)?;
        until("the address", SOON, || Some(()).filter(|()| text(&running).contains("https://")))?;
        std::thread::sleep(Duration::from_millis(300));
        running.signal(signal)?;
        let ran = running.wait(SOON)?.expect_code(130)?;
        ensure!(ran.stderr.contains("nothing was written") && !host.file().exists(), "{}", ran.stderr);
        left_over(&host)?;
    }
    Ok(())
}

/// A house that serves and has no login yet.
fn without_login(kind: Kind) -> Result<Host> {
    let mut host = Host::prepare(kind, 60, |house| house)?;
    std::fs::remove_file(host.file()).context("remove the login")?;
    host.house.start()?;
    Ok(host)
}

/// Opens the address that is shown, allows the login, and pastes what is made of CODE#STATE.
fn paste(host: &Host, made: &dyn Fn(String) -> String) -> Result<Ran> {
    let (running, mut input): (Running, ChildStdin) = host.house.talk(&["login", "anthropic"])?;
    let shown = until("the address", SOON, || Some(text(&running)).filter(|text| text.contains("press Enter")))?;
    let address = shown.split_whitespace().find(|word| word.starts_with("https://")).context("find the address")?;
    let pasted = made(visit(&host.standin, address)?);
    if !pasted.is_empty() {
        writeln!(input, "{pasted}").context("paste")?;
    }
    drop(input);
    running.wait(MINUTE)
}

/// What the provider's page shows to a browser.
#[expect(clippy::disallowed_methods, reason = "the browser is no part of the house")]
fn visit(standin: &StandIn, address: &str) -> Result<String> {
    let target = address.strip_prefix("https://claude.ai").with_context(|| format!("another page: {address}"))?;
    let name = ServerName::try_from("claude.ai").context("read a name")?;
    let session = ClientConnection::new(door::client_config(standin.ca_pem())?, name).context("prepare TLS")?;
    let stream = TcpStream::connect(standin.address()).context("connect the page")?;
    let mut stream = StreamOwned::new(session, stream);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: claude.ai\r\n\r\n").context("ask for the page")?;
    let page = raw::response(&mut stream, true)?;
    let location = page.header("location").with_context(|| format!("the page says {}", page.text()))?;
    let (_, query) = location.split_once("?code=").context("find the code")?;
    Ok(query.replacen("&state=", "#", 1))
}

fn text(running: &Running) -> String {
    String::from_utf8_lossy(&running.stdout()).into_owned()
}

fn says_no_secret(ran: &Ran, token: &str) -> Result<()> {
    let mut needles = secrets::forms(token);
    needles.extend(["rt-stand-in-fresh".to_owned(), FIRST.to_owned(), "verifier-of-the-stand-in".to_owned()]);
    let needles: Vec<&str> = needles.iter().map(String::as_str).collect();
    let said = [&ran.stdout[..], ran.stderr.as_bytes()].concat();
    ensure!(!secrets::in_bytes(&said, &needles), "a token was printed: {}", String::from_utf8_lossy(&said));
    Ok(())
}

/// Beside the login there is a lock at most.
fn left_over(host: &Host) -> Result<()> {
    let folder = host.file();
    let folder = folder.parent().context("find the folder")?;
    for entry in std::fs::read_dir(folder).context("list the login's folder")? {
        let entry = entry.context("list the login's folder")?;
        let is_known = entry.path() == host.file() || entry.file_name() == ".boxgate-refresh.lock";
        ensure!(is_known && entry.metadata()?.mode() & 0o077 == 0, "{:?} was left", entry.file_name());
    }
    Ok(())
}

const SOON: Duration = Duration::from_secs(20);
const MINUTE: Duration = Duration::from_secs(60);
