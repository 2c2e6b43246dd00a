//! The clients that people have in a box, as Debian's two releases have them: a granted host with its certificate
//! verified, a refusal that says whose it is, and roots that do matter. `docs/clients.md` is the table.

mod packages;
mod tries;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::{Case, Engine, House, Need, Tools, case, process};
use serde_json::Value;
use standin::{Options, Real, Repositories, StandIn};
use tempfile::TempDir;

pub(crate) const CASES: &[Case] = &[
    case("docker::clients::of_bookworm_reach_what_is_granted_and_hear_what_is_not", || clients("bookworm", "3.11"))
        .needs(&[
            Need::Clients("bookworm"),
            Need::Gateway,
            Need::Boxd,
            Need::Pi,
            Need::Python,
            Need::Git,
            Need::Npm,
            Need::Rustc,
        ])
        .alone(),
    case("docker::clients::of_trixie_reach_what_is_granted_and_hear_what_is_not", || clients("trixie", "3.13"))
        .needs(&[
            Need::Clients("trixie"),
            Need::Gateway,
            Need::Boxd,
            Need::Pi,
            Need::Python,
            Need::Git,
            Need::Npm,
            Need::Rustc,
        ])
        .alone(),
];

fn clients(release: &'static str, python: &str) -> Result<()> {
    let (engine, image) = Engine::with_clients(release)?;
    let files = StandIn::start(named(Options::default()))?;
    let built = packages::build()?;
    files.rules(packages::pages(built.path())?);
    let (repositories, git) = git_server()?;
    let house = house(&files, &git)?;
    let seen = in_a_box(engine, &image, &house)?;
    ensure!(seen["python"].as_str().is_some_and(|version| version.starts_with(python)), "{}", seen["python"]);
    let faults = faults(&seen);
    ensure!(faults.is_empty(), "in {release}:\n{}", faults.join("\n"));
    pushed(&repositories, &git, &seen)?;
    let refused = house.ledger()?.iter().filter(|line| line["reason"] == "no-grant").count();
    ensure!(refused >= 1, "the ledger has no refusal");
    Ok(())
}

/// What a client did otherwise than it should, all of it.
fn faults(seen: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, what_came) in REACHED {
        let told = &seen[format!("granted {name}")];
        if told[0] != 0 || !text(told).contains(what_came) {
            faults.push(format!("{name} at a granted host: {told}"));
        }
        let told = &seen[format!("distrusting {name}")];
        let said = text(told).to_lowercase();
        if told[0] == 0 || !DISTRUST.iter().any(|word| said.contains(word)) {
            faults.push(format!("{name} with the image's own roots alone: {told}"));
        }
    }
    for (name, what_is_said) in REFUSED {
        let told = &seen[format!("elsewhere {name}")];
        // curl calls any answer good, unless it is told otherwise.
        if (told[0] == 0) != (*name == "curl") || !text(told).contains(what_is_said) {
            faults.push(format!("{name} at a host without a grant: {told}"));
        }
    }
    faults
}

/// 50 MiB went up in one push and came down again, each request with the house's credential.
fn pushed(repositories: &TempDir, git: &StandIn, seen: &Value) -> Result<()> {
    for step in ["clone", "commit", "push", "clone again", "compare"] {
        ensure!(seen[format!("git {step}")][0] == 0, "git {step}: {}", seen[format!("git {step}")]);
    }
    let told = host_git(repositories.path(), &["-C", "it.git", "log", "--format=%s", "main"])?;
    ensure!(told.trim() == "from the box\nseed", "{told}");
    ensure!(git.seen().iter().any(|request| request.body_len > 50 << 20), "no request was as long as the push");
    Ok(())
}

/// Runs `tries` as the agent, as user 1000, without a network, a capability or a root that can be written.
fn in_a_box(engine: &Engine, image: &str, house: &House) -> Result<Value> {
    let door = house.door("one");
    let door = door.parent().context("the door's folder")?;
    std::fs::set_permissions(door, std::fs::Permissions::from_mode(0o755)).context("open the door's folder")?;
    let fakes = FakeAgents::python(tries::PROGRAM)?;
    let mut arguments = vec!["run".to_owned(), "--rm".into()];
    arguments.extend(FLAGS.map(str::to_owned));
    for (from, to) in [
        (Tools::boxd()?, "/boxgate/boxd"),
        (door.to_owned(), "/run/boxgate/door"),
        (fakes.folder().to_owned(), "/opt/boxgate/agents"),
        (node()?, "/opt/node"),
        (npm()?, "/opt/npm"),
        (rust()?, "/opt/rust"),
    ] {
        arguments.extend(["--volume".to_owned(), format!("{}:{to}:ro", from.display())]);
    }
    arguments.extend([image, "run", "--agent", "claude", "hi"].map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ran = process::run(engine.docker(&arguments), None, Duration::from_secs(300))?.expect_code(0)?;
    serde_json::from_slice(&ran.stdout).with_context(|| format!("parse {}", ran.text()))
}

fn house(files: &StandIn, git: &StandIn) -> Result<House> {
    let there =
        |standin: &StandIn, ca: &str| format!("unsafe_dial = \"{}\"\nupstream_ca = \"{ca}\"", standin.address());
    House::builder()
        .secret(Real::Bearer("sk-ant-oat01-REAL-of-the-clients-cases".into()))
        .file("files-ca.pem", files.ca_pem().as_bytes())
        .file("git-ca.pem", git.ca_pem().as_bytes())
        .file("git-secret", PASSWORD.as_bytes())
        .extra("\n[[secret]]\nname = \"git\"\nfile = \"git-secret\"\nscheme = \"basic\"\n")
        .grant(&format!(
            "name = \"files\"\nhosts = [\"files.test\", \"packages.test\"]\n{}",
            there(files, "files-ca.pem")
        ))
        .grant(&format!("name = \"git\"\nhosts = \"git.test\"\nsecret = \"git\"\n{}", there(git, "git-ca.pem")))
        .start()
}

fn git_server() -> Result<(TempDir, StandIn)> {
    let folder = tempfile::Builder::new().prefix("repositories-").tempdir().context("make the repositories' folder")?;
    host_git(folder.path(), &["init", "--quiet", "--bare", "--initial-branch=main", "it.git"])?;
    host_git(folder.path(), &["init", "--quiet", "--initial-branch=main", "seed"])?;
    host_git(folder.path(), &["-C", "seed", "commit", "--quiet", "--allow-empty", "-m", "seed"])?;
    host_git(folder.path(), &["-C", "seed", "push", "--quiet", "../it.git", "main"])?;
    let served =
        Repositories { root: folder.path().to_owned(), username: "x-access-token".into(), password: PASSWORD.into() };
    let standin = StandIn::start(named(Options { repositories: Some(served), keep: 64 << 20, ..Options::default() }))?;
    Ok((folder, standin))
}

fn host_git(folder: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=host", "-c", "user.email=host@host.test"]).args(words).current_dir(folder);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    Ok(process::run(command, None, Duration::from_secs(60))?.expect_code(0)?.text())
}

fn named(options: Options) -> Options {
    Options { names: ["files.test", "packages.test", "git.test"].map(str::to_owned).to_vec(), ..options }
}

/// The pinned node: Debian's own is too old to go through a proxy by the environment.
fn node() -> Result<PathBuf> {
    let program = Tools::pi()?.into_iter().next().context("node")?;
    Ok(program.ancestors().nth(2).context("the folder of node")?.to_owned())
}

fn npm() -> Result<PathBuf> {
    let mut asked = Command::new("npm");
    asked.args(["root", "--global"]);
    let told = process::run(asked, None, Duration::from_secs(60))?.expect_code(0)?.text();
    Ok(Path::new(told.trim()).join("npm"))
}

fn rust() -> Result<PathBuf> {
    let mut asked = Command::new("rustc");
    asked.args(["--print", "sysroot"]);
    let told = process::run(asked, None, Duration::from_secs(60))?.expect_code(0)?.text();
    Ok(PathBuf::from(told.trim()))
}

fn text(told: &Value) -> String {
    format!("{}{}", told[1].as_str().unwrap_or_default(), told[2].as_str().unwrap_or_default())
}

/// What each client brings from a granted host.
const REACHED: &[(&str, &str)] = &[
    ("curl", "hello from the files"),
    ("wget", "hello from the files"),
    ("urllib", "hello from the files"),
    ("requests", "hello from the files"),
    ("httpx", "hello from the files"),
    ("node", "hello from the files"),
    ("git", "Cloning into"),
    ("pip", "greeting"),
    ("npm", "added 1 package"),
    ("cargo", "greeting v1.0.0"),
];
/// What each client says of a host without a grant.
const REFUSED: &[(&str, &str)] = &[
    ("curl", "boxgate refused this (no-grant)"),
    ("wget", "403: Forbidden by boxgate (no-grant)"),
    ("urllib", "HTTP Error 403: Forbidden by boxgate (no-grant)"),
    ("requests", "403 Client Error: Forbidden by boxgate (no-grant)"),
    ("httpx", "403 Forbidden by boxgate (no-grant)"),
    ("node", "boxgate refused this (no-grant)"),
    ("git", "The requested URL returned error: 403"),
    ("pip", "403 Client Error: Forbidden by boxgate (no-grant)"),
    ("npm", "403 Forbidden by boxgate (no-grant)"),
    ("cargo", "boxgate refused this (no-grant)"),
];
/// One of these is in what a client says that does not trust a certificate.
const DISTRUST: [&str; 4] = ["certificate", "issuer", "ssl", "self-signed"];
const PASSWORD: &str = "ghp_REAL-of-the-clients-cases-51c7";
const FLAGS: [&str; 16] = [
    "--network=none",
    "--user=1000:1000",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges:true",
    "--read-only",
    "--tmpfs=/tmp:mode=1777,exec",
    "--tmpfs=/session:mode=1777,exec",
    "--tmpfs=/workspace:mode=1777,exec",
    "--workdir=/workspace",
    "--entrypoint=/boxgate/boxd",
    "--env=PATH=/opt/rust/bin:/opt/node/bin:/usr/local/bin:/usr/bin:/bin",
    "--env=LANG=C.UTF-8",
    "--env=NO_UPDATE_NOTIFIER=1",
    "--env=npm_config_loglevel=error",
    "--env=CARGO_NET_RETRY=0",
    "--env=CARGO_TERM_COLOR=never",
];
