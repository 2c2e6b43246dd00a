//! What goes wrong with a login: told, never stormed, never failing open, and nothing of it in a box.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use box_spec::wire::SENTINEL_MARK;
use harness::claim::{Answer, claim};
use harness::files::give;
use harness::{Claimed, Tunnel, secrets};
use standin::{Fault, Options, Rule, StandIn};

use crate::crash::SmallDisk;

use super::base::{CLAUDE, FIRST, Host, bearer, builder, fresh, hosts, old, worked};

pub(super) fn broken() -> Result<()> {
    let host = Host::new(CLAUDE, -99)?;
    host.standin.chain("rt-another", vec![fresh(&CLAUDE)]);
    let claimed = Claimed::take(&host.house.door("one"))?;
    for _ in 0..5 {
        let answer = host.call("one", &claimed)?;
        ensure!(answer.reason() == Some("credential-outage") && answer.status == 400, "{answer:?}");
        ensure!(answer.header("x-boxgate-status") == Some("503"), "{answer:?}");
    }
    ensure!(host.refreshes().len() == 1, "{} refreshes of a token that was refused", host.refreshes().len());
    ensure!(host.standin.model_calls().is_empty(), "it failed open");
    let told = "chain is broken";
    let status = host.house.gateway(&["status"])?.expect_code(0)?.text();
    ensure!(status.contains(told) && status.contains("claude, then /login"), "{status}");
    ensure!(host.house.said().contains(told), "{}", host.house.said());
    let (_, closed) = host.lines()?.remove(0);
    ensure!(closed["reason"] == "credential-outage" && closed["inside"].to_string().contains(told), "{closed}");
    let tested = host.house.gateway(&["credential", "test", "host"])?.expect_code(69)?;
    ensure!(tested.stderr.contains(told) && host.refreshes().len() == 1, "{}", tested.stderr);
    // A run that would only fail does not begin; one after a new login does.
    drop(claimed);
    let refused = Claimed::ask(&host.house.door("two"), &claim())?;
    ensure!(matches!(refused, Answer::Refused { .. }), "a claim without a credential was taken");
    host.write(&host.text(&hosts(&CLAUDE), "rt-of-the-host", 36_000))?;
    worked(&host.call("two", &Claimed::take(&host.house.door("two"))?)?)?;
    host.house.gateway(&["credential", "test"])?.expect_code(0)?;
    ensure!(host.carried() == [bearer(&hosts(&CLAUDE))], "{:?}", host.carried());
    Ok(())
}

pub(super) fn unreachable() -> Result<()> {
    for (ends_in, usable) in [(200, true), (-99, false)] {
        let host = Host::new(CLAUDE, ends_in)?;
        host.standin.rules(vec![Rule::new("/oauth/token", Fault::Reset)]);
        let claimed = Claimed::take(&host.house.door("one"))?;
        let begun = Instant::now();
        for _ in 0..5 {
            let answer = host.call("one", &claimed)?;
            if usable {
                worked(&answer)?;
            } else {
                ensure!(answer.reason() == Some("credential-outage"), "{answer:?}");
            }
        }
        ensure!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        ensure!(host.refreshes().len() == 1, "{} tries at once", host.refreshes().len());
        let expected = if usable { vec![bearer(&old(&CLAUDE, ends_in)); 5] } else { Vec::new() };
        ensure!(host.carried() == expected, "{:?}", host.carried());
        // The host is back: an operator need not wait for the next try, and the same token is good.
        host.standin.rules(Vec::new());
        let tested = host.house.gateway(&["credential", "test", "host"])?.expect_code(0)?.text();
        ensure!(tested.contains("usable"), "{tested}");
        worked(&host.call("one", &claimed)?)?;
        ensure!(host.carried().last() == Some(&bearer(&fresh(&CLAUDE))), "{:?}", host.carried());
    }
    Ok(())
}

/// Without `refresh_ca` the stand-in is a stranger: it gets no request at all.
pub(super) fn untrusted() -> Result<()> {
    let mut host = Host::prepare(CLAUDE, -99, |house| house)?;
    let config = std::fs::read_to_string(host.house.config())?.replace("refresh_ca = \"ca.pem\"\n", "");
    harness::files::put(&host.house.config(), config.as_bytes(), 0o600)?;
    host.house.start()?;
    let answer = host.once()?;
    ensure!(answer.reason() == Some("credential-outage"), "{answer:?}");
    ensure!(host.standin.seen().is_empty(), "{:?}", host.standin.seen());
    let (_, closed) = host.lines()?.remove(0);
    ensure!(closed["ended"] == "failed" && closed["inside"].to_string().contains("trusted root"), "{closed}");
    Ok(())
}

pub(super) fn unkeepable() -> Result<()> {
    for (mode, owner, said) in [(0o555, USER, "cannot write to"), (0o777, 0, "belongs to user 0")] {
        let host = Host::prepare(CLAUDE, -99, |house| house.as_user(USER))?;
        let folder = host.house.folder().join("login");
        give(&folder, USER)?;
        nix::unistd::chown(&host.file(), Some(owner.into()), None)?;
        std::fs::set_permissions(host.file(), std::fs::Permissions::from_mode(0o644))?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode))?;
        for command in ["check", "serve"] {
            let ran = host.house.gateway(&[command])?.expect_code(64)?;
            ensure!(ran.stderr.contains(said) && ran.stderr.contains(".credentials.json"), "{}", ran.stderr);
        }
    }
    Ok(())
}

/// The provider takes a token once: what it gives for it must have a place first.
pub(super) fn full_disk() -> Result<()> {
    let mut host = Host::prepare(CLAUDE, -99, |house| house)?;
    let folder = host.house.folder().join("login");
    let disk = SmallDisk::mount(&folder)?;
    host.write(&host.text(&old(&CLAUDE, -99), FIRST, -99))?;
    disk.fill()?;
    host.house.start()?;
    let answer = host.once()?;
    ensure!(answer.reason() == Some("credential-outage"), "{answer:?}");
    let tested = host.house.gateway(&["credential", "test", "host"])?.expect_code(69)?;
    ensure!(tested.stderr.contains("cannot be replaced"), "{}", tested.stderr);
    ensure!(host.refreshes().is_empty(), "a token was spent: {:?}", host.refreshes());
    host.house.kill()?;
    disk.free()?;
    host.house.start()?;
    worked(&host.once()?)?;
    ensure!(host.carried() == [bearer(&fresh(&CLAUDE))] && host.refreshes().len() == 1, "{:?}", host.carried());
    let left = std::fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.file_name())).collect::<Vec<_>>();
    ensure!(left.len() == 2, "beside the login and its lock there is {left:?}");
    host.house.term().map(drop)
}

/// As in a container: the gateway is the user whose login it is.
pub(super) fn ordinary_user() -> Result<()> {
    let mut host = Host::prepare(CLAUDE, -99, |house| house.as_user(USER))?;
    give(&host.house.folder().join("login"), USER)?;
    host.house.start()?;
    worked(&host.once()?)?;
    ensure!(host.carried() == [bearer(&fresh(&CLAUDE))], "{:?}", host.carried());
    let kept = std::fs::symlink_metadata(host.file())?;
    ensure!(host.read()?.contains("rt-stand-in-1"), "the refreshed login is not on disk");
    ensure!((kept.uid(), kept.mode() & 0o7777) == (USER, 0o600), "{kept:?}");
    Ok(())
}

/// Not in a claim, not in an answer, not for a box that asks for it.
pub(super) fn nowhere() -> Result<()> {
    let host = Host::new(CLAUDE, -99)?;
    let needles: Vec<String> =
        [FIRST, "rt-stand-in-1", fresh(&CLAUDE).value()].iter().flat_map(|text| secrets::forms(text)).collect();
    let needles: Vec<&str> = needles.iter().map(String::as_str).collect();
    let claimed = Claimed::take(&host.house.door("one"))?;
    let told = serde_json::to_string(&claimed.spec)?;
    ensure!(told.contains(SENTINEL_MARK) && !secrets::in_bytes(told.as_bytes(), &needles), "{told}");
    for before in [true, false] {
        for (host_name, path, body) in [
            ("platform.claude.com", "/v1/oauth/token", r#"{"grant_type":"refresh_token","refresh_token":"SENTINEL"}"#),
            ("api.anthropic.com", "/v1/messages", r#"{"model":"m","max_tokens":9,"messages":[]}"#),
        ] {
            let stand_in = claimed.spec.sentinels[0].refresh.as_deref().unwrap_or_default();
            let body = body.replace("SENTINEL", stand_in);
            let tunnel = Tunnel::connect(&host.house.door("one"), claimed.token(), &format!("{host_name}:443"))?;
            let mut inside = tunnel.tls(&host.house.ca_pem()?, host_name)?;
            let head = format!("POST {path} HTTP/1.1\r\nHost: {host_name}\r\nConnection: close\r\n");
            inside.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
            let answer = inside.rest()?;
            ensure!(answer.starts_with(b"HTTP/1.1 200"), "{path}, {before}: {}", String::from_utf8_lossy(&answer));
            ensure!(!secrets::in_bytes(&answer, &needles), "{path} was answered with a token");
        }
    }
    let refreshes = host.refreshes();
    ensure!(refreshes.len() == 1, "{} refreshes", refreshes.len());
    ensure!(!secrets::in_bytes(&refreshes[0].body, &[SENTINEL_MARK]), "the box's own attempt left the house");
    Ok(())
}

pub(super) fn listed() -> Result<()> {
    let host = Host::new(CLAUDE, -99)?;
    let listed = host.house.gateway(&["credential", "list"])?.expect_code(0)?.text();
    for word in ["host", "anthropic", "login", "until 20", "login of claude in", "refreshed with its next use"] {
        ensure!(listed.contains(word), "{word} is not in {listed}");
    }
    ensure!(host.refreshes().is_empty(), "a list refreshed");
    let tested = host.house.gateway(&["credential", "test"])?.expect_code(0)?.text();
    ensure!(tested.contains("usable") && !tested.contains("next use"), "{tested}");
    ensure!(host.refreshes().len() == 1 && host.standin.model_calls().is_empty(), "{:?}", host.standin.seen());
    let unknown = host.house.gateway(&["credential", "test", "nobody"])?.expect_code(69)?;
    ensure!(unknown.stderr.contains("there is no secret nobody"), "{}", unknown.stderr);
    // A folder that is empty yet keeps no house from starting.
    let standin = StandIn::start(Options::default())?;
    let empty = builder(&CLAUDE, &standin, std::path::Path::new("empty")).start()?;
    let listed = empty.gateway(&["credential", "list"])?.expect_code(0)?.text();
    ensure!(listed.contains("OUTAGE") && listed.contains("is missing"), "{listed}");
    Ok(())
}

const USER: u32 = 1000;
