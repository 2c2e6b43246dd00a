//! `cargo xtask test`: every check, summed up in the last line.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::build::{self, cargo};
use crate::fuzz::{self, Ended, Fuzzer};
use crate::steps::{Done, MINUTE, installed, must, say, show};

#[derive(Args)]
pub(crate) struct Options {
    /// Run the integration tests whose names contain this, and nothing else.
    filter: Option<String>,
    /// Run the integration tests against the gateway as it is shipped, optimised.
    #[arg(long)]
    release: bool,
}

/// How many went how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    passed: u64,
    failed: u64,
    skipped: u64,
}

#[expect(clippy::print_stdout, reason = "the sum is this task's output")]
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install_missing()?;
    build::agents()?;
    build::programs()?;
    build::boxd()?;
    let mut sum = Sum::default();
    if options.filter.is_none() {
        sum.add(check("cargo fmt", &mut cargo(&["fmt", "--all", "--check"]))?);
        let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        sum.add(check("cargo clippy", &mut cargo(&lints))?);
        sum.add(dependencies()?);
        sum.add(arm64()?);
        sum.add(check("cargo xtask demo", &mut cargo(&["xtask", "demo"]))?);
        sum.add(tests("unit tests", &["test", "--workspace", "--locked", "--lib", "--bins", "--no-fail-fast"])?);
        sum.add(tests("documentation tests", &["test", "--workspace", "--locked", "--doc", "--no-fail-fast"])?);
    }
    if options.filter.is_none() {
        sum.add(fuzzing()?);
    }
    let gateway = options.release.then(build::shipped_gateway).transpose()?;
    sum.add(integration(options.filter.as_deref(), gateway)?);
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped);
    Ok(if sum.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// As root on a machine with apt, installs what tests need; elsewhere they are skipped by name.
fn install_missing() -> Result<()> {
    let missing: Vec<&str> =
        PACKAGES.iter().filter(|(program, _)| !installed(program)).map(|(_, package)| *package).collect();
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    if missing.is_empty() || !root || !installed("apt-get") {
        return Ok(());
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    must("update the package lists", &mut apt(&["update", "-qq"]), 10 * MINUTE)?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&missing);
    must(&format!("install {}", missing.join(", ")), &mut apt(&arguments), 20 * MINUTE)?;
    Ok(())
}

/// A check that passes or fails as one.
fn check(what: &str, command: &mut Command) -> Result<Sum> {
    let done = show(what, command, 30 * MINUTE)?;
    if !done.good {
        say(&format!("{what} failed"));
    }
    Ok(Sum { passed: u64::from(done.good), failed: u64::from(!done.good), skipped: 0 })
}

/// Whether boxd, tests and all, compiles for the other architecture. Its crates are Rust alone: no compiler of C is needed.
fn arm64() -> Result<Sum> {
    let what = format!("cargo check of boxd for {ARM64}");
    if !has_target(ARM64) {
        say(&format!("skipped {what}: the target is not installed (rustup target add {ARM64})"));
        return Ok(Sum { skipped: 1, ..Sum::default() });
    }
    let arguments =
        ["check", "--locked", "--quiet", "--target", ARM64, "-p", "boxd", "-p", "shim", "-p", "box-spec", "--tests"];
    check(&what, &mut cargo(&arguments))
}

/// Every fuzz target for a minute, two at a time; each counts as one.
fn fuzzing() -> Result<Sum> {
    let targets = fuzz::targets()?;
    if let Some(missing) = fuzz::missing() {
        say(&format!("skipped fuzzing of {}: {missing}", targets.join(", ")));
        return Ok(Sum { skipped: targets.len() as u64, ..Sum::default() });
    }
    let ended = Fuzzer::build()?.all(&targets, fuzz::SECONDS, 2)?;
    let broke: Vec<&str> =
        ended.iter().filter(|(_, how)| matches!(how, Ended::Broke)).map(|(target, _)| target.as_str()).collect();
    if !broke.is_empty() {
        say(&format!("fuzzing broke {}; see above", broke.join(", ")));
    }
    let failed = broke.len() as u64;
    Ok(Sum { passed: ended.len() as u64 - failed, failed, skipped: 0 })
}

/// Whether the standard library for a target is among the toolchain's files.
fn has_target(target: &str) -> bool {
    let asked = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let folder =
        asked.ok().filter(|asked| asked.status.success()).and_then(|asked| String::from_utf8(asked.stdout).ok());
    folder.is_some_and(|folder| PathBuf::from(folder.trim()).is_dir())
}

fn dependencies() -> Result<Sum> {
    let Some(deny) = deny()? else {
        say("skipped cargo deny: it is not there and could not be installed; see above");
        return Ok(Sum { skipped: 1, ..Sum::default() });
    };
    // It finds `.deny.toml` by itself. Advisories would fetch a database.
    let mut command = Command::new(deny);
    command.args(["--offline", "check", "bans", "licenses", "sources"]).current_dir(build::workspace());
    check("cargo deny: bans, licenses, sources (not advisories)", &mut command)
}

/// cargo-deny: the user's own, or one that is built once into the target folder.
fn deny() -> Result<Option<PathBuf>> {
    if installed("cargo-deny") {
        return Ok(Some(PathBuf::from("cargo-deny")));
    }
    let root = build::target()?.join("tools");
    let program = root.join("bin/cargo-deny");
    if !program.is_file() {
        let mut command = cargo(&["install", "cargo-deny", "--locked", "--quiet", "--root"]);
        command.arg(&root);
        if !show("install cargo-deny (some minutes the first time)", &mut command, 20 * MINUTE)?.good {
            return Ok(None);
        }
    }
    Ok(Some(program))
}

fn tests(what: &str, arguments: &[&str]) -> Result<Sum> {
    let done = show(what, &mut cargo(arguments), 40 * MINUTE)?;
    Ok(Sum::of_cargo(&done))
}

fn integration(filter: Option<&str>, gateway: Option<PathBuf>) -> Result<Sum> {
    let mut command = Command::new(build::target()?.join("debug/it"));
    command.args(filter).current_dir(build::workspace());
    command.envs(gateway.map(|gateway| ("BOXGATE_TEST_GATEWAY", gateway)));
    let done = show("integration tests", &mut command, 60 * MINUTE)?;
    Sum::of_closing_line(&done).context("the integration tests ended without a sum")
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Adds up the `test result:` lines. What failed without one, such as a build, counts as one failure.
    fn of_cargo(done: &Done) -> Self {
        let mut sum = Self::default();
        for line in done.output.lines().filter_map(|line| line.strip_prefix("test result: ")) {
            let count = |word: &str| {
                let before = line.split(word).next().unwrap_or_default();
                before.trim_end().rsplit(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
            };
            sum.add(Self { passed: count(" passed"), failed: count(" failed"), skipped: count(" ignored") });
        }
        if !done.good && sum.failed == 0 {
            sum.failed = 1;
        }
        sum
    }

    /// Reads `N passed, N failed, N skipped`, the last line.
    fn of_closing_line(done: &Done) -> Option<Self> {
        let line = done.output.lines().rev().find(|line| line.ends_with(" skipped"))?;
        let mut numbers = line.split(", ").map(|part| part.split(' ').next()?.parse::<u64>().ok());
        let mut sum = Self { passed: numbers.next()??, failed: numbers.next()??, skipped: numbers.next()?? };
        if !done.good && sum.failed == 0 {
            sum.failed = 1;
        }
        Some(sum)
    }
}

const ARM64: &str = "aarch64-unknown-linux-gnu";

/// Programs that tests need, and the Debian packages they come in.
const PACKAGES: [(&str, &str); 14] = [
    ("c++", "g++"),
    ("python3", "python3"),
    ("openssl", "openssl"),
    ("curl", "curl"),
    ("git", "git"),
    ("strace", "strace"),
    ("valgrind", "valgrind"),
    ("unshare", "util-linux"),
    ("ip", "iproute2"),
    ("dockerd", "docker.io"),
    ("docker-compose", "docker-compose"),
    ("debootstrap", "debootstrap"),
    ("musl-gcc", "musl-tools"),
    ("busybox", "busybox-static"),
];

#[cfg(test)]
mod tests {
    use super::Sum;
    use crate::steps::Done;

    fn done(good: bool, output: &str) -> Done {
        Done { good, output: output.to_owned() }
    }

    #[test]
    fn the_results_of_all_crates_are_added_up() {
        let output = "running 2 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\nx\ntest result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured\n";
        assert_eq!(Sum::of_cargo(&done(false, output)), Sum { passed: 5, failed: 1, skipped: 1 });
    }

    #[test]
    fn a_failure_without_a_count_is_one_failure() {
        assert_eq!(Sum::of_cargo(&done(false, "error: no build\n")), Sum { failed: 1, ..Sum::default() });
        assert_eq!(
            Sum::of_closing_line(&done(false, "3 passed, 0 failed, 2 skipped\n")),
            Some(Sum { passed: 3, failed: 1, skipped: 2 })
        );
    }

    #[test]
    fn a_run_without_a_closing_line_has_no_sum() {
        assert_eq!(Sum::of_closing_line(&done(true, "nothing\n")), None);
    }
}
