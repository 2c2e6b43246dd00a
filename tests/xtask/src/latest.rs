//! `cargo xtask agents --latest`: the cases that need an agent, with the newest published versions, and what drifted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::build;
use crate::steps::{MINUTE, installed, show};

#[expect(clippy::print_stdout, reason = "the table is this task's output")]
pub(crate) fn run() -> Result<ExitCode> {
    build::agents()?;
    build::programs()?;
    build::boxd()?;
    let pinned = build::workspace().join("box");
    let latest = install(&pinned)?;
    let drift = Drift::find(&latest)?;
    println!("\n| agent | pinned | latest | drifted |\n| --- | --- | --- | --- |");
    let mut steady = drift == Drift::default();
    let mut unsteady = drift.new.clone();
    for (agent, package) in AGENTS {
        let (old, new) = (version(&pinned, package)?, version(&latest, package)?);
        let mut drifted = drift.of(agent, old != new);
        if old != new {
            drifted.extend(options_changed(&options(&pinned, agent)?, &options(&latest, agent)?));
        }
        steady &= drifted.is_empty();
        unsteady.retain(|case| !drifted.iter().any(|told| told.contains(case)));
        let drifted = match drifted.join("; ") {
            none if none.is_empty() && old == new => "nothing newer is published".to_owned(),
            none if none.is_empty() => "nothing".to_owned(),
            some => some,
        };
        println!("| {agent} | {old} | {new} | {drifted} |");
    }
    for case in &unsteady {
        println!("failed once and passed once, with the same versions: {case}");
    }
    for case in &drift.both {
        println!("failed with the pinned versions, too: {case}");
    }
    Ok(if steady { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Installs the newest agents into a folder of their own; what is pinned in `box/` stays.
fn install(pinned: &Path) -> Result<PathBuf> {
    let folder = build::target()?.join("agents-latest");
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    for name in [".npmrc", "package.json", "package-lock.json"] {
        let stale = folder.join(name);
        if stale.exists() {
            std::fs::remove_file(&stale).with_context(|| format!("remove {}", stale.display()))?;
        }
    }
    std::fs::copy(pinned.join(".npmrc"), folder.join(".npmrc")).context("copy npm's settings")?;
    if !installed("npm") {
        bail!("npm is not installed: install Node.js with npm (on Debian: apt-get install npm)");
    }
    let node = format!("node-linux-{ARCH}");
    let mut npm = Command::new("npm");
    npm.args(["install", "--fetch-retries=1", "--loglevel=error"]).current_dir(&folder);
    npm.args(AGENTS.map(|(_, package)| format!("{package}@latest")));
    // Not the newest node: the one that a box gets.
    npm.arg(format!("{node}@{}", version(pinned, &node)?));
    let done = show("install the newest agents (about 450 MB, unless npm has them)", &mut npm, 15 * MINUTE)?;
    if !done.good {
        bail!(
            "the newest agents could not be installed; npm has said why. Without a network there is nothing to compare: \
             `cargo xtask test` checks the pinned ones"
        );
    }
    Ok(folder)
}

/// The cases that fail with the newest agents.
#[derive(Default, PartialEq, Eq, Debug)]
struct Drift {
    /// The pinned ones pass them.
    new: Vec<String>,
    /// The pinned ones fail them, too.
    both: Vec<String>,
}

impl Drift {
    fn find(latest: &Path) -> Result<Self> {
        let mut command = cases();
        command.env("BOXGATE_TEST_AGENTS", latest);
        let done = show("the cases that need an agent, with the newest", &mut command, 60 * MINUTE)?;
        let failed = failed(&done.output);
        if passed(&done.output) + failed.len() as u64 == 0 || !done.good && failed.is_empty() {
            bail!("no case was run with the newest agents; see above");
        }
        let mut drift = Self::default();
        for case in failed {
            let mut command = cases();
            command.args(["--exact", &case]);
            let again = show(&format!("{case}, with the pinned ones"), &mut command, 30 * MINUTE)?;
            let passes = again.good && passed(&again.output) > 0;
            if passes { drift.new.push(case) } else { drift.both.push(case) }
        }
        Ok(drift)
    }

    /// The cases that name this agent, and where it is `newer` also those that name none, since they look at several.
    fn of(&self, agent: &str, newer: bool) -> Vec<String> {
        let named = |case: &str, agent: &str| case.split(|letter: char| !letter.is_alphanumeric()).any(|w| w == agent);
        let nobodys = |case: &str| !AGENTS.iter().any(|(agent, _)| named(case, agent));
        let of = self.new.iter().filter(|case| named(case, agent) || newer && nobodys(case));
        of.map(|case| format!("`{case}` fails")).collect()
    }
}

fn cases() -> Command {
    let target = build::target().unwrap_or_default();
    let mut command = Command::new(target.join("debug/it"));
    command.current_dir(build::workspace());
    command
}

/// The names in the lines `test NAME ... FAILED`.
fn failed(output: &str) -> Vec<String> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix("FAILED"));
    lines.filter_map(|line| Some(line.split_once(" ... ")?.0.trim().to_owned())).collect()
}

/// The first number of the closing line, `N passed, N failed, N skipped`.
fn passed(output: &str) -> u64 {
    let line = output.lines().rev().find(|line| line.ends_with(" skipped"));
    line.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// What an installed package says of its version.
fn version(folder: &Path, package: &str) -> Result<String> {
    let file = folder.join("node_modules").join(package).join("package.json");
    let mut node = Command::new("node");
    node.args(["--print", "require(process.argv[1]).version"]).arg(&file).stderr(Stdio::null());
    let said = node.output().with_context(|| format!("read the version of {package}"))?;
    let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    if !said.status.success() || version.is_empty() {
        bail!("{package} is not installed: {} says no version", file.display());
    }
    Ok(version)
}

/// The options that an agent's help names: those that boxd passes are among them.
fn options(folder: &Path, agent: &str) -> Result<BTreeSet<String>> {
    let home = tempfile::Builder::new().prefix("boxgate-help-").tempdir().context("make a folder")?;
    let modules = folder.join("node_modules");
    let mut command = match agent {
        "claude" => Command::new(modules.join(format!("@anthropic-ai/claude-code-linux-{ARCH}/claude"))),
        "codex" => {
            let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
            let mut codex = Command::new(modules.join(format!("@openai/codex-linux-{ARCH}/vendor/{triple}/bin/codex")));
            codex.arg("exec");
            codex
        }
        _ => {
            let mut pi = Command::new(modules.join(format!("node-linux-{ARCH}/bin/node")));
            pi.arg(modules.join("@earendil-works/pi-coding-agent/dist/bundle/cli.js"));
            pi
        }
    };
    command.arg("--help").env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path()).stdin(Stdio::null());
    let said = command.output().with_context(|| format!("ask {agent} for its options"))?;
    let options = options_in(&String::from_utf8_lossy(&said.stdout));
    if options.is_empty() {
        bail!("{agent} in {} tells no options", folder.display());
    }
    Ok(options)
}

fn options_in(help: &str) -> BTreeSet<String> {
    let words = help.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let words = words.map(|word| word.trim_end_matches('-'));
    words.filter(|word| word.len() > 3 && word.starts_with("--")).map(str::to_owned).collect()
}

fn options_changed(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Vec<String> {
    let told = |what: &str, some: Vec<&String>| {
        let names: Vec<String> = some.into_iter().map(|name| format!("`{name}`")).collect();
        (!names.is_empty()).then(|| format!("options {what}: {}", names.join(" ")))
    };
    let gone = told("gone", old.difference(new).collect());
    let added = told("added", new.difference(old).collect());
    gone.into_iter().chain(added).collect()
}

/// The agents, and the packages that they come in.
const AGENTS: [(&str, &str); 3] =
    [("claude", "@anthropic-ai/claude-code"), ("codex", "@openai/codex"), ("pi", "@earendil-works/pi-coding-agent")];
const ARCH: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };

#[cfg(test)]
mod tests {
    use super::{Drift, failed, options_changed, options_in, passed};

    #[test]
    fn failed_cases_are_read_from_every_round() {
        let output = "test a::one  ... ok\ntest claude::two ... FAILED\nfailures:\n    claude::two\n\ntest pi::long_name ... FAILED\ntest x ... ignored\n3 passed, 2 failed, 1 skipped\n";
        assert_eq!((failed(output), passed(output)), (vec!["claude::two".to_owned(), "pi::long_name".to_owned()], 3));
        assert_eq!(passed("error: nothing was run\n"), 0);
    }

    #[test]
    fn a_case_belongs_to_the_agent_that_it_names() {
        let new = ["matrix::codex_login_plain", "trust::pi_x", "house::a_run", "claude::y", "trust::copies"];
        let drift = Drift { new: new.map(str::to_owned).into(), both: Vec::new() };
        assert_eq!(drift.of("claude", true), ["`house::a_run` fails", "`claude::y` fails", "`trust::copies` fails"]);
        assert_eq!(drift.of("codex", false), ["`matrix::codex_login_plain` fails"]);
        assert_eq!(drift.of("pi", false), ["`trust::pi_x` fails"]);
    }

    #[test]
    fn options_that_came_and_went_are_named() {
        let old = options_in("  -p, --print     print\n  --model <x>, --old-one=<y>  like --print --");
        let new = options_in("--print, --model[=x] --new. ----");
        assert_eq!(options_changed(&old, &new), ["options gone: `--old-one`", "options added: `--new`"]);
        assert!(options_changed(&old, &old).is_empty());
    }
}
