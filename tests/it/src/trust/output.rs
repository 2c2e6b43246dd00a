//! The agent's output: every byte kept, none waited for, and no prompt in any log.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::fakes::{FakeAgents, result_event};
use harness::{BoxRun, secrets};
use sha2::{Digest, Sha256};

use super::{SOON, house, last_facts, launch};

pub(super) fn any_bytes() -> Result<()> {
    let house = house()?;
    let program = "import sys
w = sys.stdout.buffer
w.write(b'\\xff\\xfe\\x00 not utf-8\\n' + b'{\"cut\": ' + b'\\n')
w.write(b'y' * (10 * 1024 * 1024) + b'\\n')
w.write(b'\\r\\r\\n\\xe2\\x80\\xa8 no end of line')";
    let fakes = FakeAgents::python(program)?;
    let ran = launch(&house, false)?.agents(fakes.folder()).run(SOON)?.expect_code(0)?;
    let line = vec![b'y'; 10 * 1024 * 1024];
    let want =
        [b"\xff\xfe\x00 not utf-8\n{\"cut\": \n", line.as_slice(), b"\n\r\r\n\xe2\x80\xa8 no end of line"].concat();
    ensure!(ran.stdout == want, "{} bytes came, not {}", ran.stdout.len(), want.len());
    Ok(())
}

/// The session lies on a disk of 512 KiB; the agent writes two megabytes.
pub(super) fn full_disk() -> Result<()> {
    let house = house()?;
    let launch = launch(&house, false)?;
    let disk = Disk::mount(launch.session_folder().to_owned(), "size=512k")?;
    let text = "z".repeat(99);
    let script = format!("i=0; while [ $i -lt 20000 ]; do echo {text}; i=$((i+1)); done; exit 8");
    let ran = launch.agents(FakeAgents::shell(&script)?.folder()).run(SOON)?.expect_code(8)?;
    ensure!(ran.stdout.len() == 2_000_000, "{} bytes came through", ran.stdout.len());
    let report = &last_facts(&house)?["report"];
    ensure!(report["stdout"]["kept"] == false && report["stdout"]["bytes"] == 2_000_000, "{report}");
    drop(disk);
    Ok(())
}

pub(super) fn reader_gone() -> Result<()> {
    let house = house()?;
    let fakes = FakeAgents::shell(
        "i=0; while [ $i -lt 3000 ]; do echo line $i 0123456789 0123456789 0123456789; i=$((i+1)); done; exit 6",
    )?;
    let launch = launch(&house, false)?.agents(fakes.folder());
    let mut child = launch.command()?.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut first = [0; 10];
    child.stdout.take().context("no output")?.read_exact(&mut first)?;
    let ended = child.wait_with_output()?;
    ensure!(ended.status.code() == Some(6), "{:?}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
    let report = &last_facts(&house)?["report"];
    ensure!(report["stdout"]["kept"] == true && report["stdout"]["bytes"].as_u64() > Some(100_000), "{report}");
    Ok(())
}

pub(super) fn stderr() -> Result<()> {
    let house = house()?;
    let fakes = FakeAgents::shell("echo to the user >&2; printf '\\377' >&2; exit 0")?;
    let ran = launch(&house, false)?.agents(fakes.folder()).run(SOON)?.expect_code(0)?;
    ensure!(ran.stderr.contains("to the user\n\u{fffd}") && ran.stdout.is_empty(), "{:?}", ran.stderr);
    Ok(())
}

pub(super) fn transcript() -> Result<()> {
    let house = house()?;
    let program =
        format!("import sys\nsys.stdout.buffer.write(b'\\xff' * 70000 + b'\\n')\nprint({:?})", result_event("x"));
    let fakes = FakeAgents::python(&program)?;
    for output in ["native", "text"] {
        let launch = launch(&house, false)?.agents(fakes.folder()).output(output);
        launch.run(SOON)?.expect_code(0)?;
        let report = last_facts(&house)?["report"].clone();
        let kept = std::fs::read_dir(launch.session_folder().join("runs"))?.next().context("no run")??.path();
        let bytes = std::fs::read(kept.join("stdout.jsonl"))?;
        let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        ensure!(report["stdout"]["bytes"] == bytes.len() && bytes.len() > 70_000, "{report}, {} bytes", bytes.len());
        ensure!(report["stdout"]["sha256"] == hash && report["stdout"]["kept"] == true, "{report}, {hash}");
    }
    Ok(())
}

/// Neither boxd's words nor the gateway's, nor the ledger, nor a record holds what was asked.
pub(super) fn prompt_unlogged() -> Result<()> {
    let house = house()?;
    let prompt = "prompt-that-nobody-else-should-read-3b71";
    let fakes = FakeAgents::shell("exit 5")?;
    for isolated in [false, true] {
        let launch = BoxRun::new(&house, "one")?.prompt(prompt).agents(fakes.folder());
        let launch = if isolated { launch.isolated() } else { launch };
        let ran = launch.run(SOON)?.expect_code(5)?;
        ensure!(!ran.stderr.contains(prompt), "{}", ran.stderr);
        let ran = launch.option("--env").option("https_proxy=x").run(SOON)?.expect_code(64)?;
        ensure!(!ran.stderr.contains(prompt), "{}", ran.stderr);
    }
    ensure!(!house.said().contains(prompt), "{}", house.said());
    let found = secrets::in_files(&house.state(), &[prompt])?;
    ensure!(found.is_empty(), "{found:?}");
    Ok(())
}

/// The agent answers and does not go: the answer's status counts.
pub(super) fn lingers() -> Result<()> {
    let house = house()?;
    for (is_error, code) in [(false, 0), (true, 1)] {
        let event = result_event("x").replace("\"is_error\":false", &format!("\"is_error\":{is_error}"));
        let fakes = FakeAgents::shell(&format!("echo '{event}'; trap '' TERM; while :; do sleep 0.1; done"))?;
        let began = Instant::now();
        launch(&house, false)?.agents(fakes.folder()).run(SOON)?.expect_code(code)?;
        ensure!(
            began.elapsed() > Duration::from_secs(10) && began.elapsed() < Duration::from_secs(16),
            "{:?}",
            began.elapsed()
        );
        let report = &last_facts(&house)?["report"];
        ensure!(report["lingered"] == true && report["exit_code"] == code, "{report}");
    }
    Ok(())
}

/// A small disk at a folder, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(place: PathBuf, options: &str) -> Result<Self> {
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&place).status()?;
        ensure!(done.success(), "a small disk cannot be mounted at {}", place.display());
        Ok(Self(place))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
