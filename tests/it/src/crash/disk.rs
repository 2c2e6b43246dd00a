//! A ledger whose disk is full, or whose file is gone: requests are refused, and flow again when it is there.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use box_spec::ClaimReason;
use harness::claim::{self, Answer};
use harness::fakes::FakeAgents;
use harness::raw::Response;
use harness::{BoxRun, Case, Claimed, House, Need, case, process, until};
use standin::StandIn;

use super::{GATEWAY, MOUNTS, SmallDisk, ask, inside, lines, model, post, record};

pub(crate) const CASES: &[Case] = &[
    case("crash::a_full_disk_under_the_ledger_refuses_and_lets_go_when_there_is_space", full).needs(MOUNTS),
    case("crash::a_disk_that_fills_under_load_tears_no_line", under_load).needs(MOUNTS),
    case("crash::a_run_that_ends_on_a_full_disk_is_not_forgotten", end_on_full).needs(MOUNTS),
    case("crash::a_limit_of_file_sizes_is_a_full_disk_to_the_gateway", limited).needs(GATEWAY),
    case("crash::a_limit_of_file_sizes_takes_no_run_from_boxd", limited_boxd).needs(&[Need::Gateway, Need::Boxd]),
    case("crash::a_ledger_that_was_removed_or_replaced_stops_everything", removed).needs(GATEWAY),
];

fn full() -> Result<()> {
    let (standin, mut house, folder) = on_a_small_disk()?;
    let disk = SmallDisk::mount(&folder)?;
    house.start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    ensure!(ask(&house, "one", claimed.token(), MODEL)?.status == 200);
    let mut opened = inside(&house, "one", claimed.token())?;
    disk.fill()?;

    // What is left of the last page takes a few lines more; each request that goes out has its own.
    let mut seen = 1;
    while ask(&house, "one", claimed.token(), MODEL)?.status == 200 {
        seen += 1;
        ensure!(seen < 50, "the disk does not get full");
    }
    for again in 0..3 {
        is_refused(&ask(&house, "one", claimed.token(), MODEL)?).map_err(|fault| fault.context(again))?;
    }
    is_refused(&opened.ask(post(MODEL, "{}").as_bytes())?)?;
    ensure!(standin.seen().len() == seen, "{} went out, {seen} were let out", standin.seen().len());
    let status = house.status()?;
    ensure!(status["ledger"]["writable"] == false, "{status}");
    let Answer::Refused { status, body } = Claimed::ask(&house.door("two"), &claim::claim())? else {
        anyhow::bail!("a run began unrecorded");
    };
    ensure!(status == 503 && body.as_ref().is_some_and(|body| body.reason == ClaimReason::LedgerDown), "{body:?}");

    disk.free()?;
    until("requests to flow again", Duration::from_secs(3), || {
        ask(&house, "one", claimed.token(), MODEL).is_ok_and(|answer| answer.status == 200).then_some(())
    })?;
    ensure!(opened.ask(post(MODEL, "{}").as_bytes())?.status == 200, "an open tunnel stays refused");
    let second = Claimed::take(&house.door("two"))?;
    let settled = second.report()?;
    drop(claimed);
    house.term()?.expect_code(0)?;
    let receipt = format!("{}:{}", settled.sequence, settled.hash);
    let told = verified(&house, &receipt)?;
    ensure!(!told.contains("torn") && !told.contains("not-a-line"), "{told}");
    let all = lines(&folder.join("ledger.jsonl"))?;
    let requests = all.iter().filter(|line| line["kind"] == "request").count();
    ensure!(requests == standin.seen().len(), "{requests} lines, {} requests", standin.seen().len());
    ensure!(all.iter().any(|line| line["alarm"] == "ledger-down"), "the alarm was not told afterwards");
    ensure!(all.iter().any(|line| line["reason"] == "ledger-down"), "the refusals were not told afterwards");
    Ok(())
}

fn under_load() -> Result<()> {
    let (standin, mut house, folder) = on_a_small_disk()?;
    let disk = SmallDisk::mount(&folder)?;
    house.start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let (done, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| -> Result<()> {
        for thread in 0..3 {
            let (house, token, done, refused) = (&house, claimed.token(), &done, &refused);
            scope.spawn(move || {
                for at in 0.. {
                    if done.load(Ordering::Acquire) {
                        return;
                    }
                    let path = format!("{MODEL}/t{thread}-{at}");
                    if ask(house, "one", token, &path).is_ok_and(|answer| answer.reason() == Some("ledger-down")) {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let toggled = toggle(&disk, &refused);
        done.store(true, Ordering::Release);
        toggled
    })?;
    house.term()?.expect_code(0)?;
    let all = lines(&folder.join("ledger.jsonl"))?;
    let seen = standin.seen();
    for one in &seen {
        let path = one.path.as_str();
        ensure!(all.iter().any(|line| line["kind"] == "request" && line["path"] == path), "{path} has no line");
    }
    ensure!(seen.len() > 10, "only {} went out", seen.len());
    house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    Ok(())
}

/// Fills and frees the disk a few times, and sees that each time requests are refused.
fn toggle(disk: &SmallDisk<'_>, refused: &AtomicUsize) -> Result<()> {
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(300));
        let before = refused.load(Ordering::Relaxed);
        disk.fill()?;
        let more = until("refusals", Duration::from_secs(10), || {
            // Closings that waited may have taken what was free.
            (refused.load(Ordering::Relaxed) > before + 3).then_some(())
        });
        disk.free()?;
        more?;
    }
    Ok(())
}

fn end_on_full() -> Result<()> {
    let (_standin, builder) = model()?;
    let mut house = builder.prepare()?;
    let state = house.state();
    std::fs::create_dir(&state)?;
    let disk = SmallDisk::mount(&state)?;
    house.start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let (run, token) = (claimed.spec.run.clone(), claimed.token().to_owned());
    disk.fill()?;
    while ask(&house, "one", &token, MODEL)?.status == 200 {}
    // The claim breaks: there is no place for the line, and none for the verdict.
    drop(claimed);
    until("the door", Duration::from_secs(10), || (super::state_of(&house, "one").ok()? == "free").then_some(()))?;
    disk.free()?;
    house.wait_line("the loss", |line| line["kind"] == "lost" && line["run"] == run.as_str())?;
    house.kill()?;
    house.start()?;
    ensure!(super::state_of(&house, "one")? == "free", "the run came back: {}", super::state_of(&house, "one")?);
    ensure!(inside(&house, "one", &token).is_err(), "the token of a lost run lives again");
    let second = Claimed::take(&house.door("one"))?;
    let run = second.spec.run.clone();
    second.report()?;
    ensure!(record(&house, run.as_str())?["verdict"] == "completed");
    Ok(())
}

fn removed() -> Result<()> {
    for replaced in [false, true] {
        let (standin, builder) = model()?;
        let mut house = builder.start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        ensure!(ask(&house, "one", claimed.token(), MODEL)?.status == 200);
        let kept = house.folder().join("kept.jsonl");
        std::fs::rename(house.ledger_file(), &kept)?;
        if replaced {
            std::fs::copy(&kept, house.ledger_file())?;
        }
        // Whether the path still leads to the file is looked at once a second.
        std::thread::sleep(Duration::from_millis(1100));
        let before = standin.seen().len();
        for _ in 0..3 {
            is_refused(&ask(&house, "one", claimed.token(), MODEL)?)?;
        }
        ensure!(standin.seen().len() == before, "a request went out unrecorded");
        if replaced {
            std::fs::remove_file(house.ledger_file())?;
        }
        std::fs::rename(&kept, house.ledger_file())?;
        until("requests to flow again", Duration::from_secs(3), || {
            ask(&house, "one", claimed.token(), MODEL).is_ok_and(|answer| answer.status == 200).then_some(())
        })?;
        claimed.report()?;
        house.term()?.expect_code(0)?;
        house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    }
    Ok(())
}

fn limited() -> Result<()> {
    let (standin, builder) = model()?;
    let mut house = builder.start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let limit = |size: &str| -> Result<()> {
        let mut prlimit = Command::new("prlimit");
        prlimit.args(["--pid", &house.pid().unwrap_or_default().to_string(), &format!("--fsize={size}:")]);
        process::run(prlimit, None, Duration::from_secs(5))?.expect_code(0).map(drop)
    };
    limit(&(std::fs::metadata(house.ledger_file())?.len() + 4096).to_string())?;
    let mut seen = 0;
    while ask(&house, "one", claimed.token(), MODEL)?.status == 200 {
        seen += 1;
        ensure!(seen < 50, "nothing limits the ledger");
    }
    is_refused(&ask(&house, "one", claimed.token(), MODEL)?)?;
    ensure!(standin.seen().len() == seen, "{} went out, {seen} were let out", standin.seen().len());
    limit("unlimited")?;
    until("requests to flow again", Duration::from_secs(3), || {
        ask(&house, "one", claimed.token(), MODEL).is_ok_and(|answer| answer.status == 200).then_some(())
    })?;
    claimed.report()?;
    house.term()?.expect_code(0)?;
    house.gateway(&["ledger", "verify"])?.expect_code(0).map(drop)
}

/// Its transcript ends at the limit; the agent's output passes, and the run has its verdict.
fn limited_boxd() -> Result<()> {
    let (_standin, builder) = model()?;
    let house = builder.open_network().start()?;
    let fakes = FakeAgents::python("print('x' * 2_000_000)\nprint('last')")?;
    let launch = BoxRun::new(&house, "one")?.prompt("hi").agents(fakes.folder());
    let boxd = launch.command()?;
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1024; exec \"$@\"", "sh"]).arg(boxd.get_program()).args(boxd.get_args()).env_clear();
    limited.envs(boxd.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = process::run(limited, None, Duration::from_secs(20))?.expect_code(0)?;
    ensure!(ran.stdout.len() == 2_000_006 && ran.text().ends_with("last\n"), "{} bytes came", ran.stdout.len());
    let report = house.wait_line("the report", |line| line["kind"] == "report")?;
    let stdout = &report["facts"]["report"]["stdout"];
    ensure!(stdout["bytes"] == 2_000_006 && stdout["kept"] == false, "{report}");
    Ok(())
}

fn is_refused(answer: &Response) -> Result<()> {
    ensure!(answer.status == 400 && answer.header("x-boxgate-status") == Some("503"), "{answer:?}");
    ensure!(answer.reason() == Some("ledger-down"), "{answer:?}");
    let body = answer.json()?;
    ensure!(body["error"]["message"].as_str().is_some_and(|text| text.contains("ledger-down")), "{body}");
    Ok(())
}

fn verified(house: &House, receipt: &str) -> Result<String> {
    Ok(house.gateway(&["ledger", "verify", "--receipt", receipt])?.expect_code(0)?.text())
}

/// The ledger alone is on the small disk.
fn on_a_small_disk() -> Result<(StandIn, House, PathBuf)> {
    let (standin, builder) = model()?;
    let house = builder.add_box("two", "").ledger("file = \"disk/ledger.jsonl\"").prepare()?;
    let folder = house.folder().join("disk");
    std::fs::create_dir(&folder)?;
    Ok((standin, house, folder))
}

const MODEL: &str = "/v1/messages";
