//! What codex and pi find when they start, and what boxd makes of what they say: with fakes.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use box_spec::{Agent, Provider};
use harness::fakes::{FakeAgents, result_event};
use harness::files::put;
use harness::{BoxRun, Case, House, HouseBuilder, Need, case};
use serde_json::{Value, json};
use standin::Real;

pub(crate) const CASES: &[Case] = &[
    case("seeds::every_file_is_private_and_written_anew", private_and_new).needs(BOTH),
    case("seeds::links_in_the_place_of_files_are_refused", links).needs(BOTH),
    case("seeds::a_broken_file_of_the_users_ends_the_launch", broken).needs(BOTH),
    case("seeds::a_strict_decoder_reads_the_login_of_codex_and_pi", strict_jwt).needs(BOTH),
    case("seeds::odd_paths_make_sound_files", odd_paths).needs(BOTH),
    case("seeds::the_list_of_models_is_asked_for_once_per_version", catalog_once).needs(BOTH),
    case("seeds::without_a_list_of_models_codex_starts_with_a_warning", catalog_broken).needs(BOTH),
    case("seeds::pi_is_run_by_the_node_beside_it_else_by_its_first_line", nodes).needs(BOTH),
    case("seeds::an_answer_and_an_error_of_each_agent_are_told", answers).needs(BOTH),
    case("seeds::each_agent_that_lingers_after_its_answer_is_ended", lingers).needs(BOTH).waiting(),
    case("seeds::r17_an_open_pipe_on_standard_input_does_not_hold_codex", open_pipe).needs(BOTH),
];

fn private_and_new() -> Result<()> {
    let house = house()?;
    for (agent, files) in [
        (Agent::Codex, &["auth.json", "config.toml", "models-0.0.7-fake.json"][..]),
        (Agent::Pi, &["auth.json", "settings.json", "boxgate-system.md"]),
    ] {
        // A fake that replaces its files, as agents do.
        let fakes = fake(
            agent,
            "for f in \"$CODEX_HOME$PI_CODING_AGENT_DIR\"/*.*; do stat -c '%a %n' \"$f\"; done; for f in auth.json settings.json boxgate-system.md; do echo '{}' > x; cat x > \"$CODEX_HOME$PI_CODING_AGENT_DIR/$f\"; done",
        )?;
        let launch = launch(&house, agent)?.agents(fakes.folder()).option("--system").option("be kind");
        launch.run(SOON)?.expect_code(0)?;
        let home = launch.session_folder().join(agent.as_str());
        if agent == Agent::Codex {
            put(&home.join("config.toml"), "sandbox_mode = \"read-only\"\nmodel = \"kept\"\n".as_bytes(), 0o644)?;
        }
        let first = std::fs::read_to_string(home.join("auth.json"))?;
        let ran = launch.run(SOON)?.expect_code(0)?;
        for file in files {
            ensure!(ran.text().contains(&format!("600 {}", home.join(file).display())), "{file}: {}", ran.text());
        }
        ensure!(home.metadata()?.mode() & 0o777 == 0o700, "the home of {agent} is open");
        // What the fake saw on the second launch is new: its own `{}` was replaced before it started.
        let seen = fake(agent, "cat \"$CODEX_HOME$PI_CODING_AGENT_DIR\"/*.*")?;
        let told = launch.agents(seen.folder()).run(SOON)?.expect_code(0)?.text();
        ensure!(first.trim() == "{}" && told.contains("boxgate-sentinel"), "{agent}: {told}");
        if agent == Agent::Codex {
            ensure!(told.contains("danger-full-access"), "{told}");
        }
    }
    Ok(())
}

fn links() -> Result<()> {
    let house = house()?;
    for (agent, name) in WRITTEN.into_iter().chain(READ) {
        let (launch, home) = homed(&house, agent)?;
        let victim = launch.workspace_folder().join("victim");
        put(&victim, "{}".as_bytes(), 0o644)?;
        symlink(&victim, home.join(name))?;
        let ran = launch.clone().agents(fake(agent, "echo started")?.folder()).run(SOON)?.expect_code(73)?;
        ensure!(ran.stdout.is_empty() && ran.stderr.contains(name), "{name}: {}", ran.stderr);
        ensure!(std::fs::read_to_string(&victim)? == "{}", "{name} led to the victim");
    }
    Ok(())
}

fn broken() -> Result<()> {
    let house = house()?;
    let kept = [(Agent::Codex, "config.toml"), (Agent::Pi, "settings.json")];
    for (agent, name) in kept.into_iter().chain(READ) {
        let (launch, home) = homed(&house, agent)?;
        put(&home.join(name), "{ \"cut".as_bytes(), 0o644)?;
        let ran = launch.clone().agents(fake(agent, "echo started")?.folder()).run(SOON)?.expect_code(73)?;
        ensure!(ran.stdout.is_empty() && ran.stderr.contains(name), "{name}: {}", ran.stderr);
        ensure!(std::fs::read_to_string(home.join(name))? == "{ \"cut", "{name} was replaced");
    }
    // Sound, and sound too where it would be cut.
    let long = "model = \"x\"\n".to_owned() + &"# long\n".repeat(200_000);
    let launch = launch(&house, Agent::Codex)?;
    harness::files::put_deep(&launch.session_folder().join("codex/config.toml"), long.as_bytes(), 0o600)?;
    let ran = launch.agents(fake(Agent::Codex, "echo started")?.folder()).run(SOON)?.expect_code(73)?;
    ensure!(ran.stdout.is_empty() && ran.stderr.contains("longer than 1048576 bytes"), "{}", ran.stderr);
    Ok(())
}

fn strict_jwt() -> Result<()> {
    let house = house()?;
    for (agent, file, pointer) in [
        (Agent::Codex, "auth.json", "/tokens/id_token"),
        (Agent::Codex, "auth.json", "/tokens/access_token"),
        (Agent::Pi, "auth.json", "/openai-codex/access"),
    ] {
        let fakes = fake(agent, &format!("cat \"$CODEX_HOME$PI_CODING_AGENT_DIR/{file}\""))?;
        let written: Value =
            serde_json::from_str(&launch(&house, agent)?.agents(fakes.folder()).run(SOON)?.expect_code(0)?.text())?;
        let token = written.pointer(pointer).and_then(Value::as_str).context("no token")?;
        let parts: Vec<&str> = token.split('.').collect();
        ensure!(parts.len() == 3, "{token}");
        let [head, claims] = [parts[0], parts[1]].map(|part| URL_SAFE_NO_PAD.decode(part));
        let (head, claims): (Value, Value) = (serde_json::from_slice(&head?)?, serde_json::from_slice(&claims?)?);
        URL_SAFE_NO_PAD.decode(parts[2]).with_context(|| format!("the third part of {token}"))?;
        ensure!(head["alg"].is_string() && claims["exp"].as_u64().is_some_and(|exp| exp > 4_000_000_000), "{claims}");
        let account = &claims["https://api.openai.com/auth"]["chatgpt_account_id"];
        ensure!(account == "00000000-0000-4000-8000-000000000000", "{claims}");
        ensure!(written.pointer("/tokens/account_id").is_none(), "{written}");
    }
    Ok(())
}

fn odd_paths() -> Result<()> {
    let house = house()?;
    for odd in ["with space", "it's \"quoted\"", "back\\slash\\u0041", "größe-日本", "tab\there"] {
        for agent in [Agent::Codex, Agent::Pi] {
            let launch = launch(&house, agent)?;
            let session = launch.session_folder().join(odd);
            let reader = "import sys, os, json, tomllib\nhome = os.environ.get('CODEX_HOME') or os.environ['PI_CODING_AGENT_DIR']\nfor name in os.listdir(home):\n    text = open(os.path.join(home, name), 'rb').read()\n    if name.endswith('.json'): json.loads(text)\n    if name.endswith('.toml'): print(tomllib.loads(text.decode())['model_catalog_json'])\n";
            let fakes = fake(agent, &format!("exec python3 -c '{}'", reader.replace('\'', "'\\''")))?;
            let ran = launch.session(&session).agents(fakes.folder()).run(SOON)?.expect_code(0)?;
            if agent == Agent::Codex {
                let want = session.join("codex/models-0.0.7-fake.json").display().to_string();
                ensure!(ran.text().trim_end() == want, "{odd}: {}", ran.text());
            }
        }
    }
    Ok(())
}

fn catalog_once() -> Result<()> {
    let house = house()?;
    let count = tempfile::NamedTempFile::new()?;
    let script = format!(
        "if [ \"$1\" = debug ]; then echo \"$* $OPENAI_API_KEY\" >> {}; echo '{{\"models\":[{{\"slug\":\"x\"}}]}}'; exit 0; fi; cat \"$CODEX_HOME/config.toml\"",
        count.path().display()
    );
    let fakes = FakeAgents::shell_as(Agent::Codex, &script)?;
    let launch = launch(&house, Agent::Codex)?.agents(fakes.folder()).env("OPENAI_API_KEY", "planted");
    let file = launch.session_folder().join("codex/models-0.0.7-fake.json");
    for spoil in [None, None, Some("{\"models\":["), Some("[]")] {
        if let Some(text) = spoil {
            put(&file, text.as_bytes(), 0o644)?;
        }
        let ran = launch.run(SOON)?.expect_code(0)?;
        ensure!(ran.text().contains(&file.display().to_string()), "{}", ran.text());
        ensure!(
            std::fs::read_to_string(&file)? == "{\"models\":[{\"slug\":\"x\"}]}\n",
            "the list is not what codex printed"
        );
    }
    let asked = std::fs::read_to_string(count.path())?;
    ensure!(asked == "debug models --bundled \n".repeat(3), "asked: {asked}");
    Ok(())
}

fn catalog_broken() -> Result<()> {
    let house = house()?;
    for (what, told) in [
        ("echo no json", "no list of models"),
        ("exit 3", "no list of models"),
        ("head -c 17000000 /dev/zero", "more than 16777216 bytes"),
        ("sleep 60", "longer than 10 s"),
    ] {
        let script = format!("[ \"$1\" != debug ] || {{ {what}; exit; }}; cat \"$CODEX_HOME/config.toml\"");
        let fakes = FakeAgents::shell_as(Agent::Codex, &script)?;
        let ran = launch(&house, Agent::Codex)?.agents(fakes.folder()).run(SOON)?.expect_code(0)?;
        ensure!(ran.stderr.contains("WARNING") && ran.stderr.contains(told), "{what}: {}", ran.stderr);
        ensure!(!ran.text().contains("model_catalog_json"), "{}", ran.text());
    }
    Ok(())
}

fn nodes() -> Result<()> {
    let house = house()?;
    let entry = "#!/usr/bin/env node\nnot shell\n";
    let fakes = FakeAgents::program_as(Agent::Pi, entry.as_bytes())?;
    let say = |path: &Path, name: &str| -> Result<()> {
        std::fs::create_dir_all(path.parent().context("no folder")?)?;
        put(path, format!("#!/bin/sh\necho {name} \"$@\"\n").as_bytes(), 0o755)
    };
    let on_path = fakes.folder().join("elsewhere");
    say(&on_path.join("node"), "path-node")?;
    let path = format!("{}:/usr/bin:/bin", on_path.display());
    let run = || launch(&house, Agent::Pi)?.agents(fakes.folder()).env("PATH", &path).run(SOON)?.expect_code(0);
    let told = run()?.text();
    ensure!(told.starts_with("path-node ") && told.contains("/pi -p --mode json"), "{told}");
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    say(&fakes.folder().join(format!("node_modules/node-linux-{arch}/bin/node")), "own-node")?;
    let told = run()?.text();
    ensure!(told.starts_with("own-node /") && told.contains("dist/bundle/cli.js -p --mode json"), "{told}");
    // A node that is too old is refused before it shows a syntax error that names nothing.
    let asking = FakeAgents::program_as(Agent::Pi, entry.as_bytes())?;
    let manifest = asking.folder().join("node_modules/@earendil-works/pi-coding-agent/package.json");
    put(&manifest, br#"{"version":"1.6.0","engines":{"node":">=22.19.0"}}"#, 0o644)?;
    for (version, code) in [("v22.9.0", 126), ("v22.19.0", 0), ("v100.0.0", 0), ("none", 0)] {
        put(&on_path.join("node"), format!("#!/bin/sh\necho {version}\n").as_bytes(), 0o755)?;
        let ran = launch(&house, Agent::Pi)?.agents(asking.folder()).env("PATH", &path).run(SOON)?;
        let ran = ran.expect_code(code).with_context(|| version.to_owned())?;
        ensure!(code == 0 || ran.stderr.contains("22.19.0") && ran.stderr.contains(version), "{}", ran.stderr);
    }
    // A pi that is a program of its own needs no node.
    let native = FakeAgents::shell_as(Agent::Pi, "echo native \"$@\"")?;
    say(&native.folder().join(format!("node_modules/node-linux-{arch}/bin/node")), "own-node")?;
    let told = launch(&house, Agent::Pi)?.agents(native.folder()).run(SOON)?.expect_code(0)?.text();
    ensure!(told.starts_with("native -p --mode json"), "{told}");
    Ok(())
}

fn answers() -> Result<()> {
    let house = house()?;
    for (agent, events, code, text, error) in said() {
        let script = format!("cat <<'END'\n{events}\nEND\nexit {code}");
        let ran = launch(&house, agent)?.agents(fake(agent, &script)?.folder()).output("text").run(SOON)?;
        let ran = ran.expect_code(code).with_context(|| format!("{agent}: {events}"))?;
        ensure!(ran.text().trim_end() == text, "{agent}: {}", ran.text());
        ensure!(ran.stderr.contains(error), "{agent}: {}", ran.stderr);
        let report = last_report(&house)?;
        let told = report["agent_error"].as_str().unwrap_or_default();
        ensure!(told == error, "{agent}: {report}");
    }
    Ok(())
}

/// Agent, output, exit code, the text on standard output, the error in the report.
fn said() -> Vec<(Agent, String, i32, &'static str, &'static str)> {
    let codex =
        |text: &str| json!({"type": "item.completed", "item": {"type": "agent_message", "text": text}}).to_string();
    let pi = |stop: &str, text: &str| {
        json!({"type": "message_end", "message": {"role": "assistant", "stopReason": stop, "errorMessage": (stop == "error").then_some(text),
            "content": [{"type": "text", "text": text}]}})
        .to_string()
    };
    let settled = r#"{"type":"agent_settled","aborted":false}"#;
    let lost = r#"{"type":"error","message":"Reconnecting... 1/5"}"#;
    vec![
        (
            Agent::Codex,
            codex("first") + "\n" + &codex("the answer") + "\n{\"type\":\"turn.completed\"}",
            0,
            "the answer",
            "",
        ),
        (
            Agent::Codex,
            format!("{lost}\n{{\"type\":\"turn.failed\",\"error\":{{\"message\":\"no luck\"}}}}"),
            1,
            "",
            "no luck",
        ),
        (Agent::Codex, lost.to_owned(), 1, "", "Reconnecting... 1/5"),
        (Agent::Pi, format!("{}\n{}\n{settled}", pi("error", "500"), pi("stop", "the answer")), 0, "the answer", ""),
        (Agent::Pi, format!("{}\n{settled}", pi("error", "500 no luck")), 0, "", "500 no luck"),
        (Agent::Pi, settled.to_owned(), 0, "", "pi has asked no model"),
        (Agent::Claude, result_event("the answer"), 0, "the answer", ""),
    ]
}

fn lingers() -> Result<()> {
    let house = house()?;
    let deaf = |agent: Agent, events: &str, code: i32| -> Result<()> {
        let script = format!("cat <<'END'\n{events}\nEND\ntrap '' TERM; while :; do sleep 0.1; done");
        let began = Instant::now();
        launch(&house, agent)?.agents(fake(agent, &script)?.folder()).run(SOON)?.expect_code(code)?;
        let took = began.elapsed();
        ensure!(took > Duration::from_secs(10) && took < Duration::from_secs(16), "{agent}: {took:?}");
        Ok(())
    };
    // pi's own code would be 0 in both cases.
    let failed = r#"{"type":"message_end","message":{"role":"assistant","stopReason":"error","content":[]}}"#;
    let settled = format!("{failed}\n{{\"type\":\"agent_settled\"}}");
    let runs = [
        (Agent::Claude, result_event("x"), 0),
        (Agent::Codex, "{\"type\":\"turn.completed\"}".to_owned(), 0),
        (Agent::Pi, settled, 1),
    ];
    std::thread::scope(|scope| {
        let deaf = &deaf;
        let started: Vec<_> =
            runs.iter().map(|(agent, events, code)| scope.spawn(move || deaf(*agent, events, *code))).collect();
        started.into_iter().try_for_each(|run| run.join().map_err(|_| anyhow::anyhow!("a run panicked"))?)
    })?;
    let ledger = house.ledger()?;
    let reports: Vec<&Value> = ledger.iter().filter(|line| line["kind"] == "report").collect();
    let lingered = reports.iter().all(|line| line["facts"]["report"]["lingered"] == true);
    ensure!(reports.len() == 3 && lingered, "{reports:?}");
    Ok(())
}

fn open_pipe() -> Result<()> {
    let house = house()?;
    let fakes = fake(Agent::Codex, "readlink /proc/self/fd/0; cat > /dev/null; echo '{\"type\":\"turn.completed\"}'")?;
    let told = with_open_input(&launch(&house, Agent::Codex)?.agents(fakes.folder()), Duration::from_secs(5))?;
    ensure!(told.starts_with("/dev/null\n"), "{told}");
    Ok(())
}

/// Runs boxd with a pipe on its standard input that stays open, and gives its output.
pub(super) fn with_open_input(launch: &BoxRun, time: Duration) -> Result<String> {
    let mut command = launch.command()?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn().context("start boxd")?;
    let held = child.stdin.take();
    let ended = harness::until("boxd", SOON, || child.try_wait().ok().flatten());
    if ended.is_err() {
        child.kill().context("end boxd")?;
    }
    let output = child.wait_with_output().context("wait for boxd")?;
    drop(held);
    ensure!(ended?.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(began.elapsed() < time, "{:?}", began.elapsed());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A fake that gives a list of models when it is asked for one, as codex does.
fn fake(agent: Agent, script: &str) -> Result<FakeAgents> {
    FakeAgents::shell_as(
        agent,
        &format!("[ \"$1\" != debug ] || {{ echo '{{\"models\":[{{\"slug\":\"x\"}}]}}'; exit 0; }}\n{script}"),
    )
}

pub(super) fn launch(house: &House, agent: Agent) -> Result<BoxRun> {
    Ok(BoxRun::new(house, agent.as_str())?.agent(agent.as_str()).prompt("hi"))
}

/// The same, and the agent's home in its session, empty.
pub(super) fn homed(house: &House, agent: Agent) -> Result<(BoxRun, PathBuf)> {
    let launch = launch(house, agent)?;
    let home = launch.session_folder().join(agent.as_str());
    std::fs::create_dir(&home)?;
    Ok((launch, home))
}

/// The files that a launch writes into the homes of codex and pi.
pub(super) const WRITTEN: [(Agent, &str); 5] = [
    (Agent::Codex, "auth.json"),
    (Agent::Codex, "config.toml"),
    (Agent::Codex, "models-0.0.7-fake.json"),
    (Agent::Pi, "auth.json"),
    (Agent::Pi, "settings.json"),
];
/// The user's own, which it reads and leaves.
pub(super) const READ: [(Agent, &str); 2] = [(Agent::Pi, "models.json"), (Agent::Pi, "mcp.json")];

pub(super) fn house() -> Result<House> {
    builder().start()
}

/// A house with a credential of each provider and a box for each agent.
pub(super) fn builder() -> HouseBuilder {
    let house = House::builder().secret_for(Provider::Anthropic, anthropic());
    boxes(house.secret_for(Provider::OpenaiCodex, login()).secret_for(Provider::Openai, key()))
}

/// A box for each agent.
pub(super) fn boxes(house: HouseBuilder) -> HouseBuilder {
    let each = |house: HouseBuilder, agent: &Agent| house.add_box(agent.as_str(), &format!("agent = \"{agent}\"\n"));
    Agent::ALL.iter().fold(house.no_boxes(), each).open_network()
}

pub(super) fn anthropic() -> Real {
    Real::Bearer("sk-ant-oat01-REAL-of-the-seeds".into())
}

pub(super) fn login() -> Real {
    Real::Login { token: "REAL-login-of-the-seeds".into(), account: "11111111-2222-4333-8444-555555555555".into() }
}

pub(super) fn key() -> Real {
    Real::ApiKey("sk-proj-REAL-of-the-seeds".into())
}

/// The newest report in the ledger.
fn last_report(house: &House) -> Result<Value> {
    house.wait_line("a report", |line| line["kind"] == "report")?;
    let last = house.ledger()?.into_iter().rev().find(|line| line["kind"] == "report");
    Ok(last.context("no report")?["facts"]["report"].clone())
}

const BOTH: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python];
const SOON: Duration = Duration::from_secs(30);
