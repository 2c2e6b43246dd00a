//! What a run of each stock agent asks for and leaves behind, compared with the files in `tests/it/golden`: a new version that
//! asks for more, sends other fields or keeps other files is noticed. `BOXGATE_BLESS=1` writes them anew, after a look.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use box_spec::{Agent, Provider};
use harness::files::put;
use harness::{BoxRun, Case, House, Need, Tools, case};
use serde_json::Value;
use standin::{Options, Real, Seen, StandIn};

pub(crate) const CASES: &[Case] = &[
    case("known::claude_asks_for_and_leaves_what_is_known", || known(Agent::Claude)).needs(CLAUDE),
    case("known::codex_asks_for_and_leaves_what_is_known", || known(Agent::Codex)).needs(CODEX),
    case("known::pi_asks_for_and_leaves_what_is_known", || known(Agent::Pi)).needs(PI),
];

/// One run with a shell call, in each way that the agent has to log in.
fn known(agent: Agent) -> Result<()> {
    let mut found = BTreeSet::new();
    for (provider, real) in credentials(agent) {
        let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
        let house = House::builder().agent(agent.as_str()).serve(&standin, provider, real).start()?;
        let launch = BoxRun::new(&house, "one")?.agent(agent.as_str()).isolated();
        let ran = launch.clone().prompt("<<sh:true>><<text:done>>").run(SOON)?.expect_code(0)?;
        let said = ran.said(agent)?;
        ensure!(said.text == "done" && !said.failed, "{said:?}: {}", ran.text());
        let with = provider.as_str();
        found.extend(asked(&house)?.into_iter().map(|line| format!("with {with}, asks for {line}")));
        found.extend(standin.seen().iter().flat_map(sent).map(|line| format!("with {with}, sends {line}")));
        found.extend(left(&launch, agent)?.into_iter().map(|line| format!("leaves {line}")));
    }
    ensure!(found.len() > 20, "found only {found:#?}");
    compare(agent, &found)
}

fn credentials(agent: Agent) -> Vec<(Provider, Real)> {
    let login = || (Provider::Anthropic, Real::Bearer("sk-ant-oat01-REAL-known".into()));
    let chatgpt = || (Provider::OpenaiCodex, Real::chatgpt("account-known", "REAL-known"));
    let key = || (Provider::Openai, Real::ApiKey("sk-proj-REAL-known".into()));
    match agent {
        Agent::Claude => vec![login()],
        Agent::Codex => vec![chatgpt(), key()],
        Agent::Pi => vec![login(), chatgpt(), key()],
    }
}

/// Every request that the house heard, whatever it made of it.
fn asked(house: &House) -> Result<Vec<String>> {
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let lines = house.ledger()?.into_iter().filter(|line| line["method"].is_string() && line["path"].is_string());
    Ok(lines
        .map(|line| format!("{} {}{}", text(&line, "method"), text(&line, "target"), text(&line, "path")))
        .collect())
}

/// The names of a request's header fields and of what its body holds, and the types of the tools that it offers the model.
fn sent(seen: &Seen) -> Vec<String> {
    let method = &seen.method;
    let fields = seen.headers.iter().map(|(name, _)| format!("{method} field {}", name.to_ascii_lowercase()));
    let body: Value = serde_json::from_str(&seen.text()).unwrap_or_default();
    let keys = body.as_object().into_iter().flat_map(|body| body.keys());
    let offered = tools(&body).into_iter().map(|kind| format!("{method} tool of type {kind}"));
    fields.chain(keys.map(|key| format!("{method} body {key}"))).chain(offered).collect()
}

/// The type of every tool that stands in a list of that name, wherever it is.
fn tools(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(tools).collect(),
        Value::Object(fields) => {
            let listed = fields.get("tools").and_then(Value::as_array).into_iter().flatten();
            let kinds = listed.map(|tool| match tool["type"].as_str() {
                Some("web_search") => format!("web_search, external_web_access {}", tool["external_web_access"]),
                Some(kind) => kind.to_owned(),
                None => "(none)".to_owned(),
            });
            kinds.chain(fields.values().flat_map(tools)).collect()
        }
        _ => Vec::new(),
    }
}

/// What stands in the agent's home. A database's side files come and go.
fn left(launch: &BoxRun, agent: Agent) -> Result<Vec<String>> {
    let home = launch.session_folder().join(agent.as_str());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&home).with_context(|| format!("read {}", home.display()))? {
        let entry = entry.context("read a folder")?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with("-wal") && !name.ends_with("-shm") {
            let end = if entry.path().is_dir() { "/" } else { "" };
            names.push(format!("{}{end}", without_version(&name)));
        }
    }
    Ok(names)
}

/// The list of models is named for the agent's version.
fn without_version(name: &str) -> String {
    match name.strip_prefix("models-").and_then(|rest| rest.strip_suffix(".json")) {
        Some(version) if version.starts_with(|first: char| first.is_ascii_digit()) => "models-VERSION.json".to_owned(),
        _ => name.to_owned(),
    }
}

fn compare(agent: Agent, found: &BTreeSet<String>) -> Result<()> {
    let file = golden().join(format!("{agent}.txt"));
    if std::env::var_os("BOXGATE_BLESS").is_some() {
        std::fs::create_dir_all(golden()).context("make the golden folder")?;
        let text: String = found.iter().map(|line| format!("{line}\n")).collect();
        return put(&file, text.as_bytes(), 0o644);
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let known: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let list = |lines: Vec<&String>| lines.into_iter().map(|line| format!("\n  {line}")).collect::<String>();
    let (new, gone) = (list(found.difference(&known).collect()), list(known.difference(found).collect()));
    if new.is_empty() && gone.is_empty() {
        return Ok(());
    }
    bail!("{agent} differs from {}\nnew:{new}\ngone:{gone}", file.display())
}

fn golden() -> PathBuf {
    Tools::workspace().join("tests/it/golden")
}

const SOON: Duration = Duration::from_secs(60);
const CLAUDE: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces];
const CODEX: &[Need] = &[Need::Gateway, Need::Boxd, Need::Codex, Need::Namespaces];
const PI: &[Need] = &[Need::Gateway, Need::Boxd, Need::Pi, Need::Namespaces];
