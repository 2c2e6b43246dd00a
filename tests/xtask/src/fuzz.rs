//! `cargo xtask fuzz`: what reads bytes that others wrote is fed with any bytes, a minute for each target, two at a time.
//!
//! libFuzzer without cargo-fuzz, which would only pass the same flags (`tests/fuzz/rustc.sh`), to all dependencies too.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::build::{self, cargo};
use crate::steps::{MINUTE, installed, must, say};

#[derive(Args)]
pub(crate) struct Options {
    /// Targets, all by default: the folders of `tests/fuzz/corpus`.
    targets: Vec<String>,
    /// For each.
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// Targets at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Take what was found into the corpus, and leave out of it what shows nothing more.
    #[arg(long)]
    keep: bool,
}

/// How a target ended.
pub(crate) enum Ended {
    Held,
    /// The input that broke it, and what was said of it.
    Broke,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    let fuzzer = Fuzzer::build()?;
    let targets = match &options.targets[..] {
        [] => targets()?,
        some => some.to_vec(),
    };
    let ended = fuzzer.all(&targets, options.seconds, options.jobs)?;
    if options.keep {
        targets.iter().try_for_each(|target| fuzzer.keep(target))?;
    }
    let good = ended.iter().all(|(_, ended)| matches!(ended, Ended::Held));
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What this machine lacks for it.
pub(crate) fn missing() -> Option<&'static str> {
    let compiler = std::env::var("CXX").map_or_else(|_| installed("c++"), |_| true);
    let here = cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));
    (!here)
        .then_some("libFuzzer is built for Linux on x86_64 and aarch64 alone")
        .or_else(|| (!compiler).then_some("there is no C++ compiler for libFuzzer (on Debian: apt-get install g++)"))
}

/// Every target.
pub(crate) fn targets() -> Result<Vec<String>> {
    let folder = corpus();
    let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.context("read the corpus")?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn corpus() -> PathBuf {
    build::workspace().join("tests/fuzz/corpus")
}

/// The engine with every target in it.
pub(crate) struct Fuzzer {
    program: PathBuf,
    /// What is found: inputs that show something new, inputs that break a target, what was said.
    folder: PathBuf,
}

impl Fuzzer {
    pub(crate) fn build() -> Result<Self> {
        // All of the workspace, so that its dependencies are those of every other build; of it the one program.
        let arguments = [
            "build",
            "--workspace",
            "--locked",
            "--bin",
            "fuzz",
            "--features",
            "fuzz/libfuzzer",
            "--config",
            "profile.dev.package.gateway.opt-level=1",
            "--config",
            "profile.dev.package.fuzz.opt-level=1",
        ];
        let mut command = cargo(&arguments);
        command.env("RUSTC_WORKSPACE_WRAPPER", build::workspace().join("tests/fuzz/rustc.sh"));
        must("build the fuzz targets (a minute or two the first time)", &mut command, 30 * MINUTE)?;
        let target = build::target()?;
        Ok(Self { program: target.join("debug/fuzz"), folder: target.join("fuzz") })
    }

    /// Each target for so long, so many at a time.
    pub(crate) fn all(&self, targets: &[String], seconds: u64, jobs: usize) -> Result<Vec<(String, Ended)>> {
        let (next, ended) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || -> Result<()> {
            while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                let how = self.one(target, seconds)?;
                ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((target.clone(), how));
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
        })?;
        Ok(ended.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn one(&self, target: &str, seconds: u64) -> Result<Ended> {
        let (found, seeds) = (self.folder.join("found").join(target), corpus().join(target));
        if !seeds.is_dir() {
            bail!("there is no fuzz target {target:?}; there are {}", targets()?.join(", "));
        }
        std::fs::create_dir_all(&found).with_context(|| format!("make {}", found.display()))?;
        let mut command = self.command(target);
        command.args(["-use_value_profile=1", &format!("-max_len={LONGEST}")]);
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(&found).arg(&seeds);
        let output = self.run(target, &mut command, Duration::from_secs(seconds) + 3 * MINUTE)?;
        if output.good {
            say(&format!("fuzz {target}: holds, {} in {seconds} s", last_status(&output.said)));
            return Ok(Ended::Held);
        }
        let said: Vec<&str> = output.said.lines().filter(|line| !line.starts_with('#')).collect();
        say(&format!("fuzz {target}: BROKE\n{}", said[said.len().saturating_sub(LINES)..].join("\n")));
        show_input(&output.said);
        Ok(Ended::Broke)
    }

    /// The corpus and what was found, as few and as small inputs as show the same.
    fn keep(&self, target: &str) -> Result<()> {
        let (kept, seeds) = (self.folder.join("kept").join(target), corpus().join(target));
        if kept.is_dir() {
            std::fs::remove_dir_all(&kept).with_context(|| format!("empty {}", kept.display()))?;
        }
        std::fs::create_dir_all(&kept).with_context(|| format!("make {}", kept.display()))?;
        let mut command = self.command(target);
        // Edges alone: how often each was taken makes ten times as many inputs.
        command.args(["-merge=1", "-use_counters=0", &format!("-max_len={LONGEST_KEPT}")]);
        command.arg(&kept).arg(&seeds).arg(self.folder.join("found").join(target));
        let merged = self.run(target, &mut command, 10 * MINUTE)?;
        if !merged.good {
            bail!("the corpus of {target} could not be minimised:\n{}", merged.said);
        }
        std::fs::remove_dir_all(&seeds).with_context(|| format!("empty {}", seeds.display()))?;
        std::fs::create_dir_all(&seeds).with_context(|| format!("make {}", seeds.display()))?;
        let mut count = 0;
        for entry in std::fs::read_dir(&kept).with_context(|| format!("read {}", kept.display()))? {
            let path = entry.context("read what is kept")?.path();
            let name = path.file_name().context("a name")?;
            // Forty letters of a hash say no more than twelve.
            let short: String = name.to_string_lossy().chars().take(12).collect();
            std::fs::copy(&path, seeds.join(short)).with_context(|| format!("keep {}", path.display()))?;
            count += 1;
        }
        say(&format!("fuzz {target}: {count} inputs kept"));
        Ok(())
    }

    fn command(&self, target: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("BOXGATE_FUZZ", target).env_remove("RUST_BACKTRACE").current_dir(build::workspace());
        let dictionary = build::workspace().join(format!("tests/fuzz/words/{target}"));
        if dictionary.is_file() {
            command.arg(format!("-dict={}", dictionary.display()));
        }
        // Also of a merge: what breaks the target is put there, and not where it was started.
        let broke = self.folder.join(format!("broke-{target}-"));
        command.arg(format!("-artifact_prefix={}", broke.display()));
        command.args(["-timeout=20", "-rss_limit_mb=1024"]);
        command
    }

    #[expect(clippy::disallowed_methods, reason = "a log: nobody reads it half written")]
    fn run(&self, target: &str, command: &mut Command, time: Duration) -> Result<Output> {
        let log = self.folder.join(format!("{target}.log"));
        std::fs::create_dir_all(&self.folder).with_context(|| format!("make {}", self.folder.display()))?;
        let file = std::fs::File::create(&log).with_context(|| format!("write {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .with_context(|| format!("start the fuzzing of {target}"))?;
        let end = Instant::now() + time;
        let status = loop {
            if let Some(status) = child.try_wait().context("wait for a fuzzer")? {
                break status;
            }
            if Instant::now() > end {
                let _gone = child.kill();
                let _reaped = child.wait();
                bail!("the fuzzing of {target} did not end; see {}", log.display());
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let said = std::fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        Ok(Output { good: status.success(), said: String::from_utf8_lossy(&said).into_owned() })
    }
}

struct Output {
    good: bool,
    said: String,
}

/// `#N DONE cov: … exec/s: …`, as far as it is of interest.
fn last_status(said: &str) -> String {
    let line = said.lines().rev().find(|line| line.starts_with('#') && line.contains(" cov: "));
    let line = line.unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |word: &str| words.iter().position(|is| *is == word).and_then(|at| words.get(at + 1)).copied();
    let inputs = words.first().map_or("no", |word| word.trim_start_matches('#'));
    format!("{inputs} inputs, {} edges", after("cov:").unwrap_or("no"))
}

/// The input itself: who reads this may have nothing but the output.
fn show_input(said: &str) {
    let written = said.lines().rev().find_map(|line| line.split_once("Test unit written to ").map(|(_, path)| path));
    let Some(path) = written.map(Path::new) else { return };
    match std::fs::read(path) {
        Ok(input) => {
            let shown = &input[..input.len().min(LONGEST)];
            say(&format!("the input ({} bytes, {}): {}", input.len(), path.display(), shown.escape_ascii()));
        }
        Err(fault) => say(&format!("the input is in {}, which cannot be read: {fault}", path.display())),
    }
}

/// For each target.
pub(crate) const SECONDS: u64 = 60;
/// Of an input, in bytes.
const LONGEST: usize = 4096;
/// Of an input in the corpus.
const LONGEST_KEPT: usize = 1024;
/// Of what a target that broke has said.
const LINES: usize = 40;

#[cfg(test)]
mod tests {
    use super::last_status;

    #[test]
    fn the_last_status_is_told_in_short() {
        let said = "INFO: x\n#2\tINITED cov: 3 ft: 4\n#131072\tDONE   cov: 612 ft: 2310 corp: 210/7b exec/s: 9 rss: 5Mb\n###### End of recommended dictionary. ######\nDone\n";
        assert_eq!(last_status(said), "131072 inputs, 612 edges");
        assert_eq!(last_status(""), "no inputs, no edges");
    }
}
