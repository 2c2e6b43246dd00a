//! The stock git in a box, and a real git server that wants a user name and a password.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::BoxRun;
use standin::{Options, Repositories, StandIn};
use tempfile::TempDir;

use super::base::{REAL, grant, holds, house, left_behind, named, probe};

pub(super) fn clone_and_push() -> Result<()> {
    let (repositories, standin) = server()?;
    let house = house(&standin, "scheme = \"basic\"").grant(&grant(&standin, "git", "git.test", "")).start()?;
    let launch = BoxRun::new(&house, "one")?.isolated();
    let seen = probe(
        &launch,
        "os.environ['GIT_TERMINAL_PROMPT'] = '0'
def git(*words): return run('git', '-c', 'user.name=a', '-c', 'user.email=a@box.test', '-c', 'init.defaultBranch=main', *words)
out['first'] = git('clone', 'https://git.test/it.git', 'first')
open('first/large', 'wb').write(os.urandom(3 << 20))
out['add'] = git('-C', 'first', 'add', 'large')
out['commit'] = git('-C', 'first', 'commit', '--quiet', '-m', 'from the box')
out['push'] = git('-C', 'first', 'push', 'origin', 'HEAD:main')
# What a box says of itself makes no difference: it is overwritten.
out['userinfo'] = git('clone', 'https://me:placeholder@git.test/it.git', 'second')
out['header'] = git('-c', 'http.extraHeader=Authorization: Bearer placeholder', 'clone', 'https://git.test/it.git', 'third')
helper = '!f() { echo username=me; echo password=placeholder; }; f'
out['helper'] = git('-c', 'credential.helper=' + helper, '-C', 'third', 'pull')
out['same'] = run('cmp', 'first/large', 'second/large')
out['env'] = sorted(os.environ.values())",
    )?;
    for step in ["first", "add", "commit", "push", "userinfo", "header", "helper", "same"] {
        ensure!(seen[step][0] == 0, "{step}: {}", seen[step]);
    }
    let told = git(repositories.path(), &["-C", "it.git", "log", "--format=%s", "main"])?;
    ensure!(told.trim() == "from the box\nseed", "{told}");
    let basic = format!("Basic {}", STANDARD.encode(format!("x-access-token:{REAL}")));
    let requests = standin.seen();
    ensure!(requests.len() >= 8, "saw only {} requests", requests.len());
    for request in &requests {
        ensure!(request.header("authorization") == [basic.as_str()] && request.answered == Some(200), "{request:?}");
    }
    ensure!(!holds(seen.to_string().as_bytes(), REAL), "the box was told the secret");
    left_behind(&launch, REAL)
}

/// The right secret sent in the wrong way is rejected: git hears an outage of the house, and asks for no password.
pub(super) fn wrong_way() -> Result<()> {
    let (_repositories, standin) = server()?;
    let house = house(&standin, "scheme = \"bearer\"").grant(&grant(&standin, "git", "git.test", "")).start()?;
    let seen = probe(
        &BoxRun::new(&house, "one")?.isolated(),
        "out['clone'] = run('git', 'clone', 'https://git.test/it.git', 'it', GIT_TERMINAL_PROMPT='0')",
    )?;
    let told = seen["clone"][2].as_str().unwrap_or_default();
    ensure!(seen["clone"][0] == 128 && told.contains("503"), "{seen}");
    ensure!(!told.contains("Username") && !told.contains("terminal prompts"), "git asks for a password: {told}");
    house.wait_line("the outage", |line| line["reason"] == "credential-rejected")?;
    Ok(())
}

/// A server with one repository, `it.git`, of one commit.
fn server() -> Result<(TempDir, StandIn)> {
    let folder = tempfile::Builder::new().prefix("repositories-").tempdir().context("make the repositories' folder")?;
    git(folder.path(), &["init", "--quiet", "--bare", "--initial-branch=main", "it.git"])?;
    git(folder.path(), &["init", "--quiet", "--initial-branch=main", "seed"])?;
    git(folder.path(), &["-C", "seed", "commit", "--quiet", "--allow-empty", "-m", "seed"])?;
    git(folder.path(), &["-C", "seed", "push", "--quiet", "../it.git", "main"])?;
    let served =
        Repositories { root: folder.path().to_owned(), username: "x-access-token".into(), password: REAL.into() };
    let standin = StandIn::start(named(Options { repositories: Some(served), ..Options::default() }))?;
    Ok((folder, standin))
}

/// git as the operator has it, with no settings but its own.
fn git(folder: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=host", "-c", "user.email=host@host.test"]).args(words).current_dir(folder);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let ran = harness::process::run(command, None, super::base::SOON)?.expect_code(0)?;
    Ok(ran.text())
}
