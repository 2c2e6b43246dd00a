//! The house's own files: a secret as an editor leaves it, a ledger as a crash leaves it.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use harness::{Case, House, case};
use standin::{Options, Real, StandIn};

use super::base::{GATEWAY, REAL, Wire, get};
use super::certificates::put;

pub(super) const CASES: &[Case] = &[
    case("wire::r20_a_torn_last_line_swallows_no_record", torn).needs(GATEWAY),
    case("wire::r35_a_secret_ends_where_its_line_ends", newline).needs(GATEWAY),
    case("wire::r35_a_secret_that_is_none_stops_the_start_and_is_not_shown", malformed).needs(GATEWAY),
    case("wire::r35_a_secret_replaced_while_running_is_taken", replaced).needs(GATEWAY),
    case("wire::r61_healthz_tells_the_house_and_nothing_else", healthz).needs(GATEWAY),
];

fn torn() -> Result<()> {
    let mut wire = Wire::start()?;
    wire.answer_all();
    ensure!(wire.inside("api.test")?.ask(&get("api.test", "/zero", ""))?.status == 200);
    wire.house.kill()?;
    let file = wire.house.ledger_file();
    let before = std::fs::read(&file).context("read the ledger")?;
    let whole = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut ledger = std::fs::OpenOptions::new().write(true).open(&file).context("open the ledger")?;
    ledger.set_len(whole as u64).context("cut the ledger")?;
    std::io::Seek::seek(&mut ledger, std::io::SeekFrom::End(0)).context("go to the end")?;
    ledger.write_all(br#"{"ts":1,"host":"a.te"#).context("tear the ledger")?;
    drop(ledger);
    let told = wire.house.gateway(&["ledger", "verify"])?.expect_code(65)?;
    ensure!(format!("{}{}", told.text(), told.stderr).contains("torn-tail"), "{}", told.text());

    wire.house.start()?;
    for path in ["/one", "/two"] {
        ensure!(wire.inside("api.test")?.ask(&get("api.test", path, ""))?.status == 200);
        wire.closed_after_damage(path)?;
    }
    wire.house.term()?.expect_code(0)?;
    let after = std::fs::read(&file).context("read the ledger")?;
    ensure!(after.starts_with(&before[..whole]), "the first lines changed");
    let lines: Vec<_> = after.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let bad: Vec<_> = lines.iter().filter(|line| serde_json::from_slice::<serde_json::Value>(line).is_err()).collect();
    ensure!(bad == [b"{\"ts\":1,\"host\":\"a.te"], "{} lines are no records", bad.len());
    let good =
        |path: &str| lines.iter().filter(|line| super::base::holds(line, &format!("\"path\":\"{path}\""))).count();
    ensure!(good("/one") == 1 && good("/two") == 1, "a record is missing");
    let told = wire.house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    ensure!(format!("{}{}", told.text(), told.stderr).contains("fragment"), "{}", told.text());
    Ok(())
}

impl Wire {
    /// Waits for a request's line, though the ledger holds a line that is none.
    fn closed_after_damage(&self, path: &str) -> Result<()> {
        harness::until("the record", std::time::Duration::from_secs(5), || {
            let bytes = std::fs::read(self.house.ledger_file()).ok()?;
            super::base::holds(&bytes, &format!("\"path\":\"{path}\"")).then_some(())
        })
    }
}

fn newline() -> Result<()> {
    for text in ["sk-real\n", "sk-real\r\n", " sk-real ", "\tsk-real\t\n", "sk-real"] {
        let wire = Wire::with(Options::default(), |house| house)?;
        wire.answer_all();
        put(&wire.house.secret(), text.as_bytes())?;
        let answer = wire.inside("api.test")?.ask(&get("api.test", "/", ""))?;
        ensure!(answer.status == 200, "{text:?}: {answer:?}");
        ensure!(
            wire.standin.seen()[0].header("authorization") == ["Bearer sk-real"],
            "{text:?}: {:?}",
            wire.standin.seen()
        );
    }
    let standin = StandIn::start(Options { real: vec![Real::Bearer("sk-real".into())], ..Options::default() })?;
    let mut house = House::builder().model_at(&standin, Real::Bearer("sk-real\r\n".into())).start()?;
    house.gateway(&["check"])?.expect_code(0)?;
    house.term()?.expect_code(0).map(drop)
}

fn malformed() -> Result<()> {
    let cases: [(&str, &[u8]); 9] = [
        ("a mark of byte order", b"\xef\xbb\xbfsk-HIDDEN-77"),
        ("a line within", b"sk-\nHIDDEN-77"),
        ("a carriage return within", b"sk-\rHIDDEN-77"),
        ("two lines at the end", b"sk-HIDDEN-77\n\n"),
        ("a zero byte", b"sk-HIDDEN-77\0"),
        ("nothing", b""),
        ("blanks", b" \n"),
        ("no text", b"sk-HIDDEN-77\xff"),
        ("a letter outside ASCII", "sk-HIDDEN-77é".as_bytes()),
    ];
    for (what, bytes) in cases {
        let mut house = House::builder().secret(Real::Bearer("x".into())).prepare()?;
        put(&house.secret(), bytes)?;
        refused(&mut house, what)?;
    }
    let mut house = House::builder().secret(Real::Bearer("x".into())).prepare()?;
    std::fs::remove_file(house.secret()).context("remove the secret")?;
    std::fs::create_dir(house.secret()).context("make a folder")?;
    refused(&mut house, "a folder")
}

fn refused(house: &mut House, what: &str) -> Result<()> {
    let told = format!("{:#}", house.start().err().with_context(|| format!("{what}: it started"))?);
    ensure!(told.contains("secret") && !told.contains("HIDDEN"), "{what}: {told}");
    let checked = house.gateway(&["check"])?;
    let told = format!("{}{}", checked.text(), checked.stderr);
    ensure!(checked.code == Some(64), "{what}: check ended with {:?}: {told}", checked.code);
    ensure!(told.contains("secret") && !told.contains("HIDDEN"), "{what}: {told}");
    Ok(())
}

fn replaced() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let ask = |path: &str| wire.inside("api.test")?.ask(&get("api.test", path, ""));
    ensure!(ask("/1")?.status == 200);
    let fresh = wire.house.folder().join("fresh");
    put(&fresh, b"sk-second\n")?;
    std::fs::rename(&fresh, wire.house.secret()).context("replace the secret")?;
    ensure!(ask("/2")?.status == 200);
    // In place, and of the same length.
    put(&wire.house.secret(), b"sk-third!\n")?;
    ensure!(ask("/3")?.status == 200);
    put(&wire.house.secret(), b"sk-\nbroken")?;
    let answer = ask("/4")?;
    ensure!(answer.status == 503 && answer.reason() == Some("credential-outage"), "{answer:?}");
    ensure!(!answer.text().contains("broken") && !wire.house.said().contains("broken"), "{answer:?}");
    put(&wire.house.secret(), REAL.as_bytes())?;
    ensure!(ask("/5")?.status == 200);
    let sent: Vec<_> =
        wire.standin.seen().iter().map(|seen| seen.header("authorization").join("|")).collect::<Vec<String>>();
    let real = format!("Bearer {REAL}");
    ensure!(sent == [real.as_str(), "Bearer sk-second", "Bearer sk-third!", real.as_str()], "{sent:?}");
    Ok(())
}

fn healthz() -> Result<()> {
    let wire = Wire::start()?;
    let answer = harness::Tunnel::open(&wire.house.door("one"))?.ask(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let told = answer.json()?;
    let mut keys: Vec<_> = told.as_object().context("no object")?.keys().map(String::as_str).collect();
    keys.sort_unstable();
    ensure!(answer.status == 200 && keys.len() == 3, "{told}");
    ensure!(!answer.text().contains(REAL) && !answer.text().contains(wire.claimed.token()), "{told}");
    ensure!(answer.text().contains(wire.house.identity("one")?.house.as_str()), "{told}");
    Ok(())
}
