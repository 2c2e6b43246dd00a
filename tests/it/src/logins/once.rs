//! One refresh for all who need it, whoever they are and whatever happens meanwhile.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Claimed, Tunnel, until};
use standin::{Fault, Rule};

use super::base::{CLAUDE, FIRST, Host, SOON, bearer, builder, call, fresh, hosts, worked};

pub(super) fn two_boxes() -> Result<()> {
    let host = Host::new(CLAUDE, -99)?;
    host.standin.rules(vec![Rule::new("/oauth/token", Fault::None).late(Duration::from_millis(500))]);
    let claims = [("one", Claimed::take(&host.house.door("one"))?), ("two", Claimed::take(&host.house.door("two"))?)];
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4)
            .flat_map(|_| claims.iter())
            .map(|(id, claimed)| {
                let host = &host;
                scope.spawn(move || worked(&host.call(id, claimed)?))
            })
            .collect();
        calls.into_iter().try_for_each(|call| call.join().map_err(|_| anyhow::anyhow!("a call panicked"))?)
    })?;
    let refreshes = host.refreshes();
    ensure!(refreshes.len() == 1, "{} refreshes", refreshes.len());
    ensure!(host.carried() == vec![bearer(&fresh(&CLAUDE)); 8], "{:?}", host.carried());
    // The form is claude's own.
    let asked: serde_json::Value = serde_json::from_slice(&refreshes[0].body)?;
    ensure!(asked["refresh_token"] == FIRST && asked["scope"] == "user:inference user:profile", "{asked}");
    // All that is not the tokens is as it was, to the byte.
    let text = host.read()?;
    ensure!(text.starts_with(r#"{"mcpOAuth":{"n":1.50},"claudeAiOauth":{"accessToken":"#), "{text}");
    ensure!(
        text.ends_with(r#""scopes":["user:inference","user:profile"],"subscriptionType":"max"}, "z":1e2}"#),
        "{text}"
    );
    ensure!(text.contains(r#""refreshToken":"rt-stand-in-1""#) && !text.contains(FIRST), "{text}");
    let lines = host.lines()?;
    let [(opened, closed)] = &lines[..] else { anyhow::bail!("{lines:?}") };
    ensure!(opened["target"] == "platform.claude.com:443" && opened["facts"]["secret"] == "host", "{opened}");
    ensure!(closed["status"] == 200 && closed["ended"] == "complete", "{closed}");
    let ledger = std::fs::read_to_string(host.house.ledger_file())?;
    ensure!(!ledger.contains("rt-") && !ledger.contains("access-token"), "the ledger holds a token");
    ensure!(!host.house.said().contains("rt-") && !host.house.said().contains("access-token"), "the log holds a token");
    host.house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    Ok(())
}

/// `file` beside `folder`: nothing of the login is used or refreshed while the file is there.
pub(super) fn file_first() -> Result<()> {
    let mut host = Host::prepare(CLAUDE, -99, |house| house)?;
    let config = std::fs::read_to_string(host.house.config())?;
    let both = config.replacen("kind = \"login\"\n", "kind = \"auto\"\nfile = \"key\"\n", 1);
    ensure!(both != config, "the secret has another form: {config}");
    harness::files::put(&host.house.config(), both.as_bytes(), 0o600)?;
    let file = host.house.folder().join("key");
    harness::files::put(&file, hosts(&CLAUDE).value().as_bytes(), 0o600)?;
    host.house.start()?;
    worked(&host.once()?)?;
    host.house.gateway(&["credential", "test"])?.expect_code(0)?;
    ensure!(host.refreshes().is_empty(), "a login that is not used was refreshed");
    ensure!(host.carried() == [bearer(&hosts(&CLAUDE))], "{:?}", host.carried());
    std::fs::remove_file(&file)?;
    worked(&host.once()?)?;
    ensure!(host.refreshes().len() == 1, "{} refreshes", host.refreshes().len());
    ensure!(host.carried()[1..] == [bearer(&fresh(&CLAUDE))], "{:?}", host.carried());
    let listed = host.house.gateway(&["credential", "list"])?.expect_code(0)?.text();
    ensure!(listed.contains("login of claude in") && listed.contains("since there is no"), "{listed}");
    // Neither: both places are named.
    std::fs::remove_file(host.file())?;
    let listed = host.house.gateway(&["credential", "list"])?.expect_code(0)?.text();
    ensure!(listed.contains("key is missing, and so is") && listed.contains(".credentials.json"), "{listed}");
    Ok(())
}

/// Across processes: whoever comes second finds it done.
pub(super) fn two_gateways() -> Result<()> {
    let host = Host::new(CLAUDE, -99)?;
    host.standin.rules(vec![Rule::new("/oauth/token", Fault::None).late(Duration::from_secs(1))]);
    let other = builder(&CLAUDE, &host.standin, &host.house.folder().join("login")).start()?;
    std::thread::scope(|scope| {
        let here = scope.spawn(|| worked(&host.once()?));
        let there = scope.spawn(|| worked(&call(&other, "one", &Claimed::take(&other.door("one"))?)?));
        [here, there].into_iter().try_for_each(|call| call.join().map_err(|_| anyhow::anyhow!("a call panicked"))?)
    })?;
    ensure!(host.refreshes().len() == 1, "{} refreshes", host.refreshes().len());
    ensure!(host.carried() == vec![bearer(&fresh(&CLAUDE)); 2], "{:?}", host.carried());
    Ok(())
}

/// The box that caused the refresh is gone before its answer: what the provider gave once is kept all the same.
pub(super) fn box_leaves() -> Result<()> {
    let host = Host::new(CLAUDE, -99)?;
    host.standin.rules(vec![Rule::new("/oauth/token", Fault::None).late(Duration::from_secs(1))]);
    let claimed = Claimed::take(&host.house.door("one"))?;
    let tunnel = Tunnel::connect(&host.house.door("one"), claimed.token(), "api.anthropic.com:443")?;
    let mut inside = tunnel.tls(&host.house.ca_pem()?, "api.anthropic.com")?;
    inside.send(b"POST /v1/messages HTTP/1.1\r\nHost: api.anthropic.com\r\nContent-Length: 2\r\n\r\n{}")?;
    until("the refresh", SOON, || (!host.refreshes().is_empty()).then_some(()))?;
    inside.cut();
    drop(claimed);
    until("the login on disk", SOON, || host.read().ok()?.contains("rt-stand-in-1").then_some(()))?;
    worked(&call(&host.house, "two", &Claimed::take(&host.house.door("two"))?)?)?;
    ensure!(host.refreshes().len() == 1, "{} refreshes", host.refreshes().len());
    Ok(())
}

pub(super) fn adopted() -> Result<()> {
    let host = Host::new(CLAUDE, -99)?;
    let claimed = Claimed::take(&host.house.door("one"))?;
    let renewed = host.text(&hosts(&CLAUDE), "rt-of-the-host", 36_000);
    host.write(&renewed)?;
    worked(&host.call("one", &claimed)?)?;
    ensure!(host.refreshes().is_empty(), "the house refreshed what the host had renewed");
    ensure!(host.carried() == [bearer(&hosts(&CLAUDE))], "{:?}", host.carried());
    ensure!(host.read()? == renewed, "the host's file was changed");
    Ok(())
}

/// Both at the same moment: the file is the host's, and what the house was given is let go.
pub(super) fn host_is_faster() -> Result<()> {
    let host = Host::new(CLAUDE, -99)?;
    host.standin.rules(vec![Rule::new("/oauth/token", Fault::None).late(Duration::from_secs(1))]);
    let renewed = host.text(&hosts(&CLAUDE), "rt-of-the-host", 36_000);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| worked(&host.once()?));
        until("the refresh", SOON, || (!host.refreshes().is_empty()).then_some(()))?;
        host.write(&renewed)?;
        call.join().map_err(|_| anyhow::anyhow!("the call panicked"))?
    })?;
    ensure!(host.carried() == [bearer(&hosts(&CLAUDE))], "{:?}", host.carried());
    ensure!(host.read()? == renewed, "the host's file was changed");
    Ok(())
}

/// What is used is on disk: whenever the gateway dies after a rotation, the next one goes on.
pub(super) fn killed() -> Result<()> {
    let mut host = Host::new(CLAUDE, -99)?;
    let claimed = Claimed::take(&host.house.door("one"))?;
    std::thread::scope(|scope| -> Result<()> {
        let (house, claimed) = (&host.house, &claimed);
        // It may be answered or cut: the gateway dies in that moment.
        let call = scope.spawn(move || call(house, "one", claimed).map(drop));
        until("the login on disk", SOON, || {
            std::fs::read_to_string(house.folder().join("login/.credentials.json"))
                .ok()?
                .contains("rt-stand-in-1")
                .then_some(())
        })?;
        let pid = nix::unistd::Pid::from_raw(house.pid().context("no gateway")?);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL)?;
        let _answered = call.join();
        Ok(())
    })?;
    drop(claimed);
    host.house.kill()?;
    host.house.start()?;
    worked(&call(&host.house, "two", &Claimed::take(&host.house.door("two"))?)?)?;
    ensure!(host.refreshes().len() == 1, "{} refreshes", host.refreshes().len());
    ensure!(host.carried().iter().all(|carried| *carried == bearer(&fresh(&CLAUDE))), "{:?}", host.carried());
    host.house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    Ok(())
}
