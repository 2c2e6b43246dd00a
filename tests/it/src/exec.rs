//! `boxd exec`: a command in the agent's place, or beside it; what it is given, what it may not be led to, and a shell at a
//! terminal.

mod full;

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::terminal::{Deed, at_terminal};
use harness::{BoxRun, Case, House, Need, Ran, Running, Tools, case, files, process, until};
use standin::Real;

pub(crate) const CASES: &[Case] = &[
    case("exec::a_command_has_a_run_of_its_own_and_its_own_status", own_run).needs(BOTH),
    case("exec::a_command_joins_the_live_run_with_the_agents_environment", joins).needs(BOTH),
    case("exec::what_the_agent_planted_leads_no_command_past_the_shim", planted).needs(ROOT),
    case("exec::beside_a_run_that_cannot_be_joined_it_is_refused_and_is_no_alarm", refused).needs(ISOLATED),
    case("exec::what_joined_ends_with_the_run", ends_with_the_run).needs(BOTH),
    case("exec::an_agent_that_takes_every_connection_ends_no_command_and_keeps_none_out", full::full).needs(TERMINAL),
    case("exec::a_shell_at_a_terminal_keeps_job_control", job_control).needs(TERMINAL),
    case("exec::a_terminal_is_given_back_as_it_was", given_back).needs(TERMINAL),
];

fn own_run() -> Result<()> {
    let house = house()?;
    let here = Here::new(&house)?;
    let ran = process::run(here.exec(&["sh", "-c", "env; cat; exit 7"]), Some(b"from the caller".to_vec()), SOON)?;
    let ran = ran.expect_code(7)?;
    ensure!(ran.text().ends_with("from the caller"), "{}", ran.text());
    for wanted in ["HTTPS_PROXY=http://127.0.0.1:", "SSL_CERT_FILE=", "BOXGATE_RUN=", "CLAUDE_CONFIG_DIR="] {
        ensure!(ran.text().contains(wanted), "{wanted} is missing: {}", ran.text());
    }
    ensure!(!ran.text().contains("planted-value"), "{}", ran.text());
    let claim = house.wait_line("the claim", |line| line["kind"] == "claim")?;
    ensure!(claim["facts"]["command"] == true && claim["facts"]["agent"] == "claude", "{claim}");
    let report = house.wait_line("the report", |line| line["kind"] == "report")?;
    let facts = &report["facts"];
    ensure!(facts["verdict"] == serde_json::json!({ "failed": "the command ended with 7" }), "{report}");
    ensure!(facts["report"]["exit_code"] == 7 && facts["report"]["agent_spoke"] == true, "{report}");
    let run = report["run"].as_str().context("no run")?;
    let record = std::fs::read_to_string(house.state().join(format!("runs/{run}.json"))).context("read the record")?;
    ensure!(record.contains("\"kind\":\"command\""), "{record}");
    ensure!(here.session().join("claude/.credentials.json").is_file(), "the agent's files were not seeded");
    ensure!(!here.session().join("claude.env").exists(), "the run still tells of itself");
    for (command, code) in [
        (&["/nonexistent/x"][..], 127),
        (&["no-such-command"], 127),
        (&["/etc/passwd"], 126),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["sh", "-c", "sleep 7532 & exit 0"], 0),
    ] {
        process::run(here.exec(command), None, SOON)?.expect_code(code).with_context(|| format!("{command:?}"))?;
    }
    ensure!(process::with_argument("7532").is_empty(), "what the command left is still there");
    let isolated = [&["--isolate", "exec", "--", "true"][..], &["exec"], &["exec", "--unsafe-without=filter", "true"]];
    for wrong in isolated {
        let mut command = Command::new(Tools::boxd()?);
        command.args(wrong);
        process::run(command, None, SOON)?.expect_code(64).with_context(|| format!("{wrong:?}"))?;
    }
    Ok(())
}

fn joins() -> Result<()> {
    let house = house()?;
    let here = Here::new(&house)?;
    let agent = here.agent("env > agent.env")?;
    let ran = process::run(here.exec(&["env"]), None, SOON)?.expect_code(0)?;
    let (agents, commands) = (variables(&here.read("agent.env")?), variables(&ran.text()));
    for (name, value) in &agents {
        // What a shell sets by itself.
        let shells = ["PWD", "OLDPWD", "SHLVL", "_"].contains(&name.as_str());
        ensure!(shells || commands.get(name) == Some(value), "{name} is {:?} and not {value}", commands.get(name));
    }
    let more: Vec<&String> = commands.keys().filter(|name| !agents.contains_key(*name)).collect();
    ensure!(more.is_empty(), "the command has more: {more:?}");
    let script =
        "sleep 1; grep -c -E '^(NoNewPrivs:.1|Seccomp:.2)' /proc/self/status; cat /proc/self/oom_score_adj; exit 9";
    let ran = process::run(here.exec(&["sh", "-c", script]), None, SOON)?.expect_code(9)?;
    ensure!(ran.text() == "2\n500\n", "{}", ran.text());
    let told = here.read_session("claude.env")?;
    let mode = std::fs::metadata(here.session().join("claude.env"))?.permissions().mode() & 0o777;
    ensure!(mode == 0o644, "{mode:o}");
    let token = harness::secrets::in_files(&here.session(), &[SECRET])?;
    ensure!(token.is_empty() && !told.contains("TOKEN"), "{told}");
    let mut sourced = Command::new("sh");
    sourced.args(["-euc", "set -a; . \"$1\"; env", "sh"]).arg(here.session().join("claude.env"));
    let sourced = variables(&process::run(sourced, None, SOON)?.expect_code(0)?.text());
    ensure!(sourced.get("HTTPS_PROXY") == agents.get("HTTPS_PROXY"), "a shell reads {sourced:?}");
    let mut without = here.exec(&["true"]);
    without.env("BOXGATE_HOUSE", format!("sha256:{}", "0".repeat(64)));
    process::run(without, None, SOON)?.expect_code(76)?;
    let refused =
        process::run(here.exec_with(&["--unsafe-without=limits=x"], &["true"]), None, SOON)?.expect_code(64)?;
    ensure!(refused.stderr.contains("the house was told"), "{}", refused.stderr);
    let run = agents.get("BOXGATE_RUN").context("no run")?;
    here.let_go(agent)?.expect_code(0)?;
    let report = house.wait_line("the report", |line| line["kind"] == "report")?;
    ensure!(report["run"] == run.as_str() && report["facts"]["verdict"] == "completed", "{report}");
    let claims = house.ledger()?.iter().filter(|line| line["kind"] == "claim").count();
    ensure!(claims == 1, "{claims} claims");
    Ok(())
}

fn planted() -> Result<()> {
    let house = house()?;
    let here = Here::new(&house)?;
    let agent = here.agent("")?;
    let path = here.session().join("claude.env");
    let good = here.read_session("claude.env")?;
    let (_, port) = good.split_once("BOXGATE_SHIM='127.0.0.1:").context("no shim")?;
    let port = port.split('\'').next().context("no port")?.to_owned();
    let put = |text: &str| -> Result<()> {
        std::fs::remove_file(&path).context("remove")?;
        files::put(&path, text.as_bytes(), 0o644)
    };
    let told = |why: &str| -> Result<()> {
        let ran = process::run(here.exec(&["echo", "ran"]), None, SOON)?.expect_code(77).context(why.to_owned())?;
        ensure!(ran.stdout.is_empty() && ran.stderr.contains(why), "{why}: {}", ran.stderr);
        Ok(())
    };
    for (from, to, why) in [
        (format!("127.0.0.1:{port}"), "203.0.113.7:80".to_owned(), "BOXGATE_SHIM is not 127.0.0.1"),
        (
            format!("HTTPS_PROXY='http://127.0.0.1:{port}'"),
            "HTTPS_PROXY='http://203.0.113.7:1'".into(),
            "something else",
        ),
        ("NO_PROXY='".to_owned(), "NO_PROXY='*,".to_owned(), "something else"),
        ("HOME=".to_owned(), "BASH_ENV='/tmp/x'\nHOME=".to_owned(), "BASH_ENV is no variable"),
    ] {
        let shim = if from.starts_with("127") { format!("BOXGATE_SHIM='{from}") } else { from.clone() };
        let with = if from.starts_with("127") { format!("BOXGATE_SHIM='{to}") } else { to };
        ensure!(good.contains(&shim), "{shim}");
        put(&good.replace(&shim, &with))?;
        told(why)?;
    }
    put(&good)?;
    process::run(here.exec(&["true"]), None, SOON)?.expect_code(0).context("the good file")?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    told("mode 666")?;
    put(&good)?;
    std::os::unix::fs::chown(&path, Some(4242), Some(4242))?;
    told("belongs to user 4242")?;
    let away = here.session().join("away");
    std::fs::rename(&path, &away)?;
    symlink(&away, &path)?;
    told("symbolic link")?;
    std::fs::remove_file(&path)?;
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU)?;
    told("no regular file")?;
    put(&good)?;
    // Another's certificate in the place of the house's would let another than the house read along.
    let other = House::builder().secret(Real::Bearer(SECRET.into())).open_network().start()?;
    let ca = here.session().join("trust/ca.pem");
    let of_the_house = std::fs::read(&ca)?;
    std::fs::remove_file(&ca)?;
    files::put(&ca, other.ca_pem()?.as_bytes(), 0o600)?;
    told("another certificate")?;
    files::put(&ca, &of_the_house, 0o600)?;
    std::fs::remove_file(here.session().join("trust/bundle.pem"))?;
    files::put(&here.session().join("trust/bundle.pem"), other.ca_pem()?.as_bytes(), 0o600)?;
    told("the bundle lacks it")?;
    files::put(&here.session().join("trust/bundle.pem"), &of_the_house, 0o600)?;
    files::put(&here.session().join("trust/wgetrc"), b"check_certificate = off\n", 0o600)?;
    told("the settings of wget")?;
    here.let_go(agent)?.expect_code(0)?;
    let report = house.wait_line("the report", |line| line["kind"] == "report")?;
    ensure!(report["facts"]["verdict"] == "completed", "a command that was refused counts against the run: {report}");
    Ok(())
}

fn refused() -> Result<()> {
    let house = house()?;
    let here = Here::new(&house)?;
    let fakes = FakeAgents::shell(&waiting(""))?;
    let launch = here.launch.clone().agents(fakes.folder()).isolated().prompt("hi");
    let agent = launch.start()?;
    until("the agent", SOON, || here.read("ready").ok()).with_context(|| agent.stderr())?;
    let ran = process::run(here.exec(&["echo", "ran"]), None, SOON)?.expect_code(75)?;
    ensure!(ran.stdout.is_empty() && ran.stderr.contains("a network of its own"), "{}", ran.stderr);
    here.let_go(Waiting { running: agent, _fakes: Some(fakes) })?.expect_code(0)?;
    let report = house.wait_line("the report", |line| line["kind"] == "report")?;
    ensure!(report["facts"]["verdict"] == "completed", "{report}");
    // A file that a dead run left behind is no run.
    let second = here.agent("")?;
    let left = here.read_session("claude.env")?;
    // Nor is a run none that does not tell of itself.
    std::fs::remove_file(here.session().join("claude.env"))?;
    process::run(here.exec(&["true"]), None, SOON)?.expect_code(75)?;
    here.let_go(second)?.expect_code(0)?;
    ensure!(house.ledger()?.iter().all(|line| line["kind"] != "alarm"), "it was asked of the house");
    files::put(&here.session().join("claude.env"), left.as_bytes(), 0o644)?;
    process::run(here.exec(&["true"]), None, SOON)?.expect_code(0)?;
    Ok(())
}

fn ends_with_the_run() -> Result<()> {
    let house = house()?;
    let here = Here::new(&house)?;
    let agent = here.agent("")?;
    let joined = process::start(here.exec(&["sh", "-c", "touch joined; sleep 7533"]), None)?;
    let file = here.launch.workspace_folder().join("joined");
    until("the command", SOON, || file.exists().then_some(())).with_context(|| joined.stderr())?;
    here.let_go(agent)?.expect_code(0)?;
    let began = Instant::now();
    let ran = joined.wait(SOON)?.expect_code(69)?;
    ensure!(ran.stderr.contains("is over") && began.elapsed() < Duration::from_secs(10), "{}", ran.stderr);
    ensure!(process::with_argument("7533").is_empty(), "it is still there");
    Ok(())
}

/// In a run of its own, and beside an agent.
fn job_control() -> Result<()> {
    let house = house()?;
    let here = Here::new(&house)?;
    for joined in [false, true] {
        let agent = if joined { Some(here.agent("")?) } else { None };
        let mut shell = here.exec(&["bash", "--norc", "--noprofile", "-i"]);
        shell.env("PS1", "> ").env("TERM", "dumb");
        let deeds = [
            Deed::See("> "),
            Deed::Type("ps -o pgid=,tpgid= -p $$ | xargs echo ids\n"),
            Deed::See("ids "),
            Deed::See("> "),
            // What is typed before a shell has left the terminal to the program is the shell's.
            Deed::Type("sh -c 'echo on; exec sleep 7534'\n"),
            Deed::See("\non\r\n"),
            Deed::Type("\u{3}"),
            Deed::See("> "),
            Deed::Type("echo code $?\n"),
            Deed::See("code 130"),
            Deed::Type("sh -c 'echo on; exec cat'\n"),
            Deed::See("\non\r\n"),
            Deed::Type("typed\n"),
            Deed::See("typed\r\ntyped"),
            Deed::Type("\u{1a}"),
            Deed::See("Stopped"),
            Deed::See("> "),
            Deed::Type("fg\n"),
            Deed::See("fg\r\n"),
            Deed::See("cat"),
            Deed::See("\r\n"),
            Deed::Type("again\n"),
            Deed::See("again\r\nagain"),
            Deed::Type("\u{4}"),
            Deed::See("> "),
            Deed::Resize(33, 99),
            Deed::Type("stty size\n"),
            Deed::See("33 99"),
            Deed::Type("exit 5\n"),
        ];
        let ran = at_terminal(&shell, &deeds, MINUTE)?.expect_code(5).with_context(|| format!("joined: {joined}"))?;
        for warning in ["cannot set terminal process group", "no job control"] {
            ensure!(!ran.text().contains(warning), "{}", ran.text());
        }
        if let Some(agent) = agent {
            here.let_go(agent)?.expect_code(0)?;
        }
    }
    Ok(())
}

/// By a command that ends by itself, by one that is told to end, and by one that another shell's job control stops.
fn given_back() -> Result<()> {
    let house = house()?;
    let here = Here::new(&house)?;
    let program = here.exec(&["bash", "--norc", "--noprofile", "-i"]);
    let mut idle = program;
    idle.env("PS1", "> ");
    let ran = at_terminal(&idle, &[Deed::See("> "), Deed::Signal(15)], MINUTE)?;
    ensure!(ran.code.is_some_and(|code| code == 129 || code == 143), "{:?}: {}", ran.code, ran.text());
    ensure!(ran.took < Duration::from_secs(8), "an idle shell takes {:?} to end", ran.took);
    // In front of it stands a shell of the host.
    let inner = here.exec(&["sh", "-c", "stty raw -echo; echo is-raw; kill -9 $$"]);
    let script = here.launch.workspace_folder().join("as-typed.sh");
    let words: Vec<String> =
        inner.get_args().map(|word| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''"))).collect();
    let line = format!("{} {}\n", inner.get_program().to_string_lossy(), words.join(" "));
    files::put(&script, line.as_bytes(), 0o755)?;
    let mut outer = here.exec(&["true"]);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "host> ").env("TERM", "dumb");
    for (name, value) in outer.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    if let Some(folder) = outer.get_current_dir() {
        shell.current_dir(folder);
    }
    outer.env_clear();
    let deeds = [
        Deed::See("host> "),
        Deed::Type(". ./as-typed.sh\n"),
        Deed::See("is-raw"),
        Deed::See("host> "),
        Deed::Type("echo code $?; stty -a | grep -o -w -e '-*icanon' -e '-*echo'\n"),
        Deed::See("code 137"),
        Deed::See("\r\nicanon"),
        Deed::See("\r\necho"),
        Deed::Type("exit 3\n"),
    ];
    at_terminal(&shell, &deeds, MINUTE)?.expect_code(3)?;
    Ok(())
}

/// A box, and what runs in it.
struct Here {
    launch: BoxRun,
    boxd: PathBuf,
}

impl Here {
    fn new(house: &House) -> Result<Self> {
        Ok(Self { launch: BoxRun::new(house, "one")?, boxd: Tools::boxd()? })
    }

    fn session(&self) -> PathBuf {
        self.launch.session_folder().to_path_buf()
    }

    fn exec(&self, command: &[&str]) -> Command {
        self.exec_with(&[], command)
    }

    fn exec_with(&self, options: &[&str], command: &[&str]) -> Command {
        let mut exec = Command::new(&self.boxd);
        exec.env_clear().current_dir(self.launch.workspace_folder()).arg("exec").arg("--unsafe-open-network");
        exec.arg("--door").arg(self.launch.door_socket()).arg("--session").arg(self.session()).args(options);
        exec.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", self.launch.home());
        exec.env("LANG", "C.UTF-8").env("ANTHROPIC_API_KEY", "planted-value").env("https_proxy", "planted-value");
        exec.arg("--").args(command);
        exec
    }

    /// An agent that has done this and then waits to be let go.
    fn agent(&self, script: &str) -> Result<Waiting> {
        let fakes = FakeAgents::shell(&waiting(script))?;
        let running = self.launch.clone().agents(fakes.folder()).prompt("hi").start()?;
        let ready = self.launch.workspace_folder().join("ready");
        until("the agent", SOON, || ready.exists().then_some(())).with_context(|| running.stderr())?;
        Ok(Waiting { running, _fakes: Some(fakes) })
    }

    fn let_go(&self, agent: Waiting) -> Result<Ran> {
        let workspace = self.launch.workspace_folder();
        files::put(&workspace.join("go"), b"", 0o644)?;
        let ran = agent.running.wait(MINUTE)?;
        for file in ["go", "ready"] {
            std::fs::remove_file(workspace.join(file)).context("tidy up")?;
        }
        Ok(ran)
    }

    fn read(&self, name: &str) -> Result<String> {
        read(&self.launch.workspace_folder().join(name))
    }

    fn read_session(&self, name: &str) -> Result<String> {
        read(&self.session().join(name))
    }
}

struct Waiting {
    running: Running,
    _fakes: Option<FakeAgents>,
}

fn waiting(script: &str) -> String {
    format!("{script}\ntouch ready; i=0; while [ ! -e go ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; exit 0")
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

fn variables(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

fn house() -> Result<House> {
    House::builder().secret(Real::Bearer(SECRET.into())).open_network().start()
}

const SECRET: &str = "sk-ant-oat01-REAL-of-the-commands";
const BOTH: &[Need] = &[Need::Gateway, Need::Boxd];
const ROOT: &[Need] = &[Need::Gateway, Need::Boxd, Need::Root];
const ISOLATED: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces];
const TERMINAL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python];
const SOON: Duration = Duration::from_secs(30);
const MINUTE: Duration = Duration::from_secs(90);
