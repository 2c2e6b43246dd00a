//! The real secret: nowhere in the box, in no form, neither while the stock claude runs nor after, and in nothing that comes in.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use box_spec::wire::SENTINEL_MARK;
use harness::fakes::FakeAgents;
use harness::files::{give, put};
use harness::process::descendants;
use harness::{BoxRun, Claimed, House, Relay, Tools, Tunnel, secrets, until};
use standin::{Options, Real, StandIn};

use super::{KEY, SECRET, SOON, USER, house, launch, probe};

pub(super) fn nowhere() -> Result<()> {
    searched(Real::Bearer(SECRET.into()), None)?;
    searched(Real::ApiKey(KEY.into()), None)
}

/// All of it belongs to one ordinary user: claude, box, house.
pub(super) fn nowhere_as_user() -> Result<()> {
    searched(Real::Bearer(SECRET.into()), Some(USER))
}

fn searched(real: Real, user: Option<u32>) -> Result<()> {
    let needles = secrets::forms(real.value());
    let needles: Vec<&str> = needles.iter().map(String::as_str).collect();
    let (standin, house) = model(&real, user)?;
    let relay = Relay::recording(&house.door("one"))?;
    let launch = BoxRun::new(&house, "one")?.isolated().door(&relay.socket());
    let mut launch = launch.prompt("<<sh:env; cat /proc/*/environ; until [ -e go ]; do sleep 0.1; done>><<text:done>>");
    let mut _copied = None;
    if let Some(uid) = user {
        give(relay.socket().parent().context("no folder")?, uid)?;
        // The checkout may lie where only root can go.
        let claude = FakeAgents::program(&std::fs::read(Tools::claude()?)?)?;
        launch = launch.agents(claude.folder()).as_user(uid)?;
        _copied = Some(claude);
    }
    let running = launch.start()?;
    standin.wait_seen(1, SOON).with_context(|| running.stderr())?;
    let claude = until("claude's command", SOON, || of_box(running.pid()))?;

    let (looked_at, leaks) = secrets::in_tree(running.pid(), &needles);
    ensure!(looked_at >= 3 && leaks.is_empty(), "looked at {looked_at} processes: {leaks:?}");
    let leaks = in_root(claude, &needles)?;
    ensure!(leaks.is_empty(), "files of the box hold the secret: {leaks:?}");
    // The same search finds what is there.
    let mark = [SENTINEL_MARK];
    ensure!(!secrets::in_tree(running.pid(), &mark).1.is_empty(), "the search sees no memory");
    let marked = in_root(claude, &mark)?;
    let is_login = matches!(real, Real::Bearer(_));
    ensure!(is_login == marked.iter().any(|path| path.ends_with(".credentials.json")), "{marked:?}");

    put(&launch.workspace_folder().join("go"), b"", 0o644)?;
    let ran = running.wait(SOON)?.expect_code(0)?;
    ensure!(ran.result()?["result"] == "done", "{}", ran.text());
    ensure!(standin.seen().iter().all(|seen| seen.real), "the upstream was shown something else");
    let printed = [ran.stdout.as_slice(), ran.stderr.as_bytes()].concat();
    ensure!(!secrets::in_bytes(&printed, &needles), "the secret was printed");
    let received = relay.received();
    ensure!(relay.connections() >= 2 && secrets::in_bytes(&received, &mark), "the relay saw no claim");
    ensure!(!secrets::in_bytes(&received, &needles), "the box received the secret");
    for folder in [launch.session_folder(), launch.workspace_folder(), &launch.home()] {
        let leaks = secrets::in_files(folder, &needles)?;
        ensure!(leaks.is_empty(), "the secret was left behind: {leaks:?}");
    }
    Ok(())
}

/// What comes in through TLS, in clear: answers of the model, of the house itself, and refusals.
pub(super) fn in_no_answer() -> Result<()> {
    for real in [Real::Bearer(SECRET.into()), Real::ApiKey(KEY.into())] {
        let needles = secrets::forms(real.value());
        let needles: Vec<&str> = needles.iter().map(String::as_str).collect();
        let (standin, house) = model(&real, None)?;
        let claimed = Claimed::take(&house.door("one"))?;
        let told = serde_json::to_string(&claimed.spec)?;
        ensure!(!secrets::in_bytes(told.as_bytes(), &needles) && told.contains(SENTINEL_MARK), "{told}");
        let mut statuses = Vec::new();
        for (host, head) in [
            ("api.anthropic.com", "POST /v1/messages HTTP/1.1"),
            ("api.anthropic.com", "POST /v1/messages/count_tokens HTTP/1.1"),
            ("api.anthropic.com", "GET /api/oauth/profile HTTP/1.1"),
            ("api.anthropic.com", "POST /api/event_logging/batch HTTP/1.1"),
            ("api.anthropic.com", "POST /api/oauth/claude_cli/create_api_key HTTP/1.1"),
            ("api.anthropic.com", "TRACE /v1/messages HTTP/1.1"),
            ("platform.claude.com", "POST /v1/oauth/token HTTP/1.1"),
            ("other.test", "GET / HTTP/1.1"),
        ] {
            let tunnel = Tunnel::connect(&house.door("one"), claimed.token(), &format!("{host}:443"))?;
            let mut inside = tunnel.tls(&house.ca_pem()?, host)?;
            let body =
                r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"<<text:hello>>"}]}"#;
            let head = format!("{head}\r\nHost: {host}\r\nContent-Type: application/json\r\nConnection: close\r\n");
            inside.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
            let answer = inside.rest()?;
            ensure!(answer.starts_with(b"HTTP/1.1 "), "{head}: {} bytes", answer.len());
            ensure!(!secrets::in_bytes(&answer, &needles), "{head} was answered with the secret");
            statuses.push(String::from_utf8_lossy(&answer[9..12]).into_owned());
        }
        ensure!(statuses[0] == "200" && statuses[3] == "204" && statuses[7] == "403", "{statuses:?}");
        ensure!(standin.seen().iter().any(|seen| seen.real), "nothing was injected");
    }
    Ok(())
}

pub(super) fn callers_environment() -> Result<()> {
    let house = house()?;
    let planted = "planted-key-of-the-caller-77c1";
    let forms = secrets::forms(planted);
    let needles: Vec<&str> = forms.iter().map(String::as_str).collect();
    for isolated in [false, true] {
        let mut launch = launch(&house, isolated)?;
        for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "GH_TOKEN", "MY_OWN_API_KEY"] {
            launch = launch.env(name, planted);
        }
        let fakes = FakeAgents::shell("echo ready; sleep 2; env; cat /proc/*/environ 2>/dev/null; exit 0")?;
        let running = launch.agents(fakes.folder()).start()?;
        until("the agent", SOON, || running.stdout().starts_with(b"ready\n").then_some(()))?;
        // boxd itself has overwritten them too: the agent may share its uid.
        let (looked_at, leaks) = secrets::in_tree(running.pid(), &needles);
        ensure!(looked_at >= 2 && leaks.is_empty(), "isolated: {isolated}, {looked_at} processes: {leaks:?}");
        // What the agent can read of other processes of this machine is not what is asked here.
        let ran = running.wait(SOON)?.expect_code(0)?;
        ensure!(!isolated || !ran.text().contains(planted), "{}", ran.text());
    }
    let seen = probe(&launch(&house, true)?.env("DATABASE_URL", planted), "out['all'] = dict(os.environ)")?;
    ensure!(!seen.to_string().contains(planted), "{seen}");
    Ok(())
}

fn model(real: &Real, user: Option<u32>) -> Result<(StandIn, House)> {
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let builder = House::builder().model_at(&standin, real.clone());
    let house = if let Some(uid) = user { builder.as_user(uid) } else { builder }.start()?;
    Ok((standin, house))
}

/// claude's process, once it runs a command in the box.
fn of_box(boxd: i32) -> Option<i32> {
    let below = descendants(boxd);
    let runs = |program: &str| {
        let is = |pid: &&i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with(program));
        below.iter().find(is).copied()
    };
    runs("bash").or_else(|| runs("dash"))?;
    runs("claude")
}

/// Searches all files that the box has for itself: everything but the system's own, read-only folders.
fn in_root(pid: i32, needles: &[&str]) -> Result<Vec<PathBuf>> {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(&root).context("read the box's root")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let system = ["proc", "sys", "usr", "opt", "dev"].contains(&name.as_str());
        if !system && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(secrets::in_files(&entry.path(), needles)?);
            seen.push(name);
        }
    }
    let shared = root.join("dev/shm");
    if shared.is_dir() {
        found.extend(secrets::in_files(&shared, needles)?);
    }
    for must in ["tmp", "session", "workspace", "etc", "run"] {
        ensure!(seen.iter().any(|name| name == must), "did not see /{must} of the box: {seen:?}");
    }
    Ok(found)
}
