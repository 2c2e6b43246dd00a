//! The agent's files: private, replaceable, made at every launch, and never over what is the user's.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::files::{put, put_deep};
use harness::{BoxRun, House};
use serde_json::Value;

use super::{SOON, USER, house, launch, probe};

pub(super) fn replaceable() -> Result<()> {
    let house = house()?;
    for isolated in [false, true] {
        let seen = probe(&launch(&house, isolated)?, REPLACE)?;
        all_good(&seen).with_context(|| format!("isolated: {isolated}"))?;
    }
    Ok(())
}

pub(super) fn as_user() -> Result<()> {
    let house = shared_house()?;
    let launch = launch(&house, false)?.as_user(USER)?;
    let seen = probe(&launch, REPLACE)?;
    all_good(&seen)?;
    ensure!(seen["uid"] == USER, "{}", seen["uid"]);
    ensure!(seen["named"] == false, "the test's user has a name");
    ensure!(seen["home"] == launch.home().display().to_string(), "a good home was moved: {}", seen["home"]);
    Ok(())
}

/// A home that is read-only, another's, missing, or not a folder.
pub(super) fn unusable() -> Result<()> {
    let house = shared_house()?;
    type Spoil = fn(&Path) -> std::io::Result<()>;
    let ways: [(&str, Spoil); 4] = [
        ("read-only", |home| std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o555))),
        ("another's", |home| std::os::unix::fs::chown(home, Some(0), Some(0))),
        ("missing", |home| std::fs::remove_dir(home)),
        ("a link to nowhere", |home| std::fs::remove_dir(home).and_then(|()| symlink("/nowhere", home))),
    ];
    for (what, spoil) in ways {
        let launch = launch(&house, false)?.as_user(USER)?;
        spoil(&launch.home())?;
        let seen = probe(&launch, REPLACE).with_context(|| what.to_owned())?;
        all_good(&seen).with_context(|| what.to_owned())?;
        let moved = launch.session_folder().join("home").display().to_string();
        ensure!(seen["home"] == moved, "{what}: the home is {}", seen["home"]);
    }
    // A session that cannot be used is said at once.
    let launch = launch(&house, false)?.as_user(USER)?;
    std::os::unix::fs::chown(launch.session_folder(), Some(0), Some(0))?;
    let ran = run(&launch, "echo started", 73)?;
    ensure!(ran.took < Duration::from_secs(2) && ran.stdout.is_empty(), "{:?} {}", ran.took, ran.text());
    ensure!(ran.stderr.contains(&launch.session_folder().display().to_string()), "{}", ran.stderr);
    Ok(())
}

pub(super) fn users_own() -> Result<()> {
    let house = house()?;
    let launch = launch(&house, false)?;
    let of_user = r#"{"projects":{"/srv/a":{"hasTrustDialogAccepted":true}},"numStartups":41,"theme":"dark"}"#;
    let files = [launch.home().join(".claude.json"), launch.session_folder().join("claude/.claude.json")];
    for file in &files {
        put_deep(file, of_user.as_bytes(), 0o600)?;
    }
    put(&launch.home().join(".netrc"), b"of the user", 0o600)?;
    std::fs::create_dir_all(launch.session_folder().join("claude/projects/-srv-a"))?;
    let transcript = launch.session_folder().join("claude/projects/-srv-a/s.jsonl");
    put(&transcript, b"{\"a\":1}\n", 0o600)?;
    run(&launch, "exit 0", 0)?;
    for file in &files {
        let mut merged: Value = serde_json::from_slice(&std::fs::read(file)?)?;
        let said = merged.as_object_mut().context("no object")?.remove("hasCompletedOnboarding");
        ensure!(said == Some(Value::Bool(true)), "{}: {said:?}", file.display());
        ensure!(merged == serde_json::from_str::<Value>(of_user)?, "{} lost: {merged}", file.display());
    }
    // A second start changes nothing that the agent made newer.
    let newer = r#"{"hasCompletedOnboarding":true,"numStartups":42}"#;
    put(&files[1], newer.as_bytes(), 0o600)?;
    let before = std::fs::metadata(&files[1])?;
    run(&launch, "exit 0", 0)?;
    let after = std::fs::metadata(&files[1])?;
    ensure!(std::fs::read_to_string(&files[1])? == newer && before.ino() == after.ino(), "the newer file was replaced");
    ensure!(
        std::fs::read(&transcript)? == b"{\"a\":1}\n" && std::fs::read(launch.home().join(".netrc"))? == b"of the user"
    );
    Ok(())
}

pub(super) fn every_time() -> Result<()> {
    let house = house()?;
    let launch = launch(&house, false)?;
    let credentials = launch.session_folder().join("claude/.credentials.json");
    let bundle = launch.session_folder().join("trust/bundle.pem");
    run(&launch, "exit 0", 0)?;
    let first = std::fs::read_to_string(&credentials)?;
    put(&credentials, b"{\"claudeAiOauth\":{\"accessToken\":\"of-a-former-life\"}}", 0o644)?;
    put(&bundle, b"tampered", 0o666)?;
    run(&launch, "exit 0", 0)?;
    let second = std::fs::read_to_string(&credentials)?;
    ensure!(second != first && second.contains("boxgate-sentinel") && !second.contains("former"), "{second}");
    ensure!(std::fs::read_to_string(&bundle)?.contains("BEGIN CERTIFICATE"), "the bundle was not made again");
    for (path, mode) in [(&credentials, 0o600), (&bundle, 0o600), (&launch.session_folder().join("claude"), 0o700)] {
        ensure!(
            std::fs::metadata(path)?.mode() & 0o777 == mode,
            "{} is {:o}",
            path.display(),
            std::fs::metadata(path)?.mode()
        );
    }
    Ok(())
}

pub(super) fn links() -> Result<()> {
    let house = house()?;
    let places = ["claude", "claude/.credentials.json", "claude/.claude.json", "trust", "trust/bundle.pem", "runs"];
    for place in places {
        let launch = launch(&house, false)?;
        let victim = launch.workspace_folder().join("victim");
        std::fs::create_dir(&victim)?;
        put(&victim.join("file"), b"mine", 0o644)?;
        let target = if place.contains('.') { victim.join("file") } else { victim.clone() };
        let path = launch.session_folder().join(place);
        std::fs::create_dir_all(path.parent().context("no folder")?)?;
        symlink(target, &path)?;
        refused(&launch, &path)?;
        ensure!(std::fs::read(victim.join("file"))? == b"mine" && std::fs::read_dir(&victim)?.count() == 1, "{place}");
    }
    let launch = launch(&house, false)?;
    let folder = launch.home().join(".claude.json");
    std::fs::create_dir(&folder)?;
    refused(&launch, &folder)?;
    ensure!(folder.is_dir(), "the user's folder is gone");
    Ok(())
}

fn refused(launch: &BoxRun, path: &Path) -> Result<()> {
    let ran = run(launch, "echo started", 73)?;
    ensure!(ran.stdout.is_empty() && ran.took < Duration::from_secs(2), "{:?} {}", ran.took, ran.text());
    ensure!(ran.stderr.contains(&path.display().to_string()), "{} is not named: {}", path.display(), ran.stderr);
    Ok(())
}

fn run(launch: &BoxRun, script: &str, code: i32) -> Result<harness::Ran> {
    let fakes = FakeAgents::shell(script)?;
    launch.clone().agents(fakes.folder()).run(SOON)?.expect_code(code)
}

fn all_good(seen: &Value) -> Result<()> {
    let files = seen["files"].as_object().context("no files")?;
    ensure!(files.len() == 3, "{files:?}");
    for (name, how) in files {
        ensure!(*how == serde_json::json!(["replaced", 0o600, true]), "{name}: {how}");
    }
    ensure!(seen["folder"] == serde_json::json!([0o700, true]), "{}", seen["folder"]);
    Ok(())
}

/// A house of root's whose door any user may open, as a mounted door is.
fn shared_house() -> Result<House> {
    let house = house()?;
    std::fs::set_permissions(house.folder(), std::fs::Permissions::from_mode(0o711))?;
    Ok(house)
}

/// Replaces each file as claude does: a temporary file beside it, then a rename.
const REPLACE: &str = "import pwd
home, config = os.environ['HOME'], os.environ['CLAUDE_CONFIG_DIR']
def replace(path):
    s = os.lstat(path)
    how = [None, stat.S_IMODE(s.st_mode), s.st_uid == os.getuid()]
    try:
        with open(path + '.tmp', 'w') as f: f.write('x')
        os.rename(path + '.tmp', path)
        how[0] = 'replaced' if open(path).read() == 'x' else 'not replaced'
    except OSError as e: how[0] = errno.errorcode.get(e.errno)
    return how
out['files'] = {p: replace(p) for p in (config + '/.credentials.json', config + '/.claude.json', home + '/.claude.json')}
s = os.lstat(config)
out['folder'] = [stat.S_IMODE(s.st_mode), s.st_uid == os.getuid()]
out['uid'], out['home'] = os.getuid(), home
try: pwd.getpwuid(os.getuid()); out['named'] = True
except KeyError: out['named'] = False";
