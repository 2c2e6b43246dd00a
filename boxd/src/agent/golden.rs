//! Golden files: everything that boxd writes, passes and sets, for each agent as it is pinned. `BOXGATE_BLESS=1` writes
//! them anew; a new version in box/package.json needs a folder of its own, made after a look at what changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use box_spec::{Agent, CredentialKind, Provider, Sentinel};

use super::{Content, Place, Plan, Standing, Task, package, plan};
use crate::environment::{Surroundings, Variables, build};

#[test]
fn everything_that_boxd_writes_is_as_it_was() {
    let mut seen = 0;
    for (agent, kind, name) in [
        (Agent::Claude, CredentialKind::Login, "login"),
        (Agent::Claude, CredentialKind::ApiKey, "api-key"),
        (Agent::Codex, CredentialKind::Login, "login"),
        (Agent::Codex, CredentialKind::ApiKey, "api-key"),
        (Agent::Pi, CredentialKind::Login, "login"),
        (Agent::Pi, CredentialKind::ApiKey, "api-key"),
    ] {
        let folder = golden().join(format!("{agent}-{}", pinned(agent))).join(name);
        seen += compare(&folder, &written(agent, &planned(agent, kind, &[], None, &Standing::new())));
    }
    assert!(seen >= 15, "compared only {seen} files");
}

#[test]
fn what_the_user_adds_is_in_its_place() {
    let mcp = b"{\"mcpServers\":{}}".to_vec();
    for (agent, arguments, standing) in [
        (Agent::Claude, &["--model", "opus", "--mcp-config", "/w/mcp.json"][..], Standing::new()),
        (Agent::Codex, &["--model", "gpt"], Standing::from([("config.toml", CONFIG.as_bytes().to_vec())])),
        (
            Agent::Pi,
            &["--thinking", "high", "--approve"],
            Standing::from([("settings.json", SETTINGS.as_bytes().to_vec()), ("mcp.json", mcp)]),
        ),
    ] {
        let folder = golden().join(format!("{agent}-{}", pinned(agent))).join("additions");
        let plan = planned(agent, CredentialKind::Login, arguments, Some("Be kind.\nBe \"brief\"."), &standing);
        assert!(compare(&folder, &written(agent, &plan)) >= 2, "{agent}");
    }
}

/// The plan as files: each one that is written, and one that says the rest.
fn written(agent: Agent, plan: &Plan) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut rest = String::new();
    for argument in &plan.arguments {
        rest += &format!("argument {argument:?}\n");
    }
    rest += &format!("standard input {:?}\n", plan.stdin);
    for (name, value) in variables(plan).iter() {
        rest += &format!("variable {}={}\n", name.display(), value.display());
    }
    for file in &plan.files {
        let place = match file.place {
            Place::AgentHome => format!("{agent}/{}", file.name),
            Place::UserHome => format!("$HOME/{}", file.name),
        };
        match &file.content {
            Content::Whole(text) => {
                rest += &format!("file {place}\n");
                files.insert(file.name.to_owned(), text.clone());
            }
            Content::Merged { key, value } => rest += &format!("file {place} with {key} {value}\n"),
            Content::Absent => rest += &format!("no file {place}\n"),
        }
    }
    files.insert("plan.txt".to_owned(), rest);
    files
}

fn variables(plan: &Plan) -> Variables {
    let around = Surroundings {
        port: 3128,
        ca: Path::new("/session/trust/ca.pem"),
        bundle: Path::new("/session/trust/bundle.pem"),
        home: Path::new("/session/home"),
        session: Path::new("/session"),
        workspace: Some(Path::new("/workspace")),
        run: "0b0e7a52-6d0e-4d0c-8d0b-111111111111",
        ceiling_seconds: Some(900),
        exposed: &[],
    };
    let mut variables = build(&Variables::default(), &Variables::default(), &around);
    for (name, value) in &plan.variables {
        variables.set(*name, value);
    }
    variables
}

fn planned(agent: Agent, kind: CredentialKind, arguments: &[&str], system: Option<&str>, standing: &Standing) -> Plan {
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    let sentinels: Vec<Sentinel> = Provider::ALL
        .into_iter()
        .filter(|provider| kind == CredentialKind::Login || *provider != Provider::OpenaiCodex)
        .map(|provider| {
            // There is no login for the plain API.
            let kind = if provider == Provider::Openai { CredentialKind::ApiKey } else { kind };
            let refresh = (kind == CredentialKind::Login).then(|| format!("{provider}-refresh-sentinel"));
            Sentinel { provider, kind, access: format!("{provider}-access-sentinel"), refresh }
        })
        .collect();
    let home = PathBuf::from("/session").join(agent.as_str());
    let catalog = home.join("models-0.0.0.json");
    let task = Task {
        prompt: "say hi",
        system,
        arguments: &arguments,
        sentinels: &sentinels,
        home: &home,
        uid: 0,
        sandbox_is_set: false,
        standing,
        catalog: Some(&catalog),
        now: "2026-11-30T12:00:00Z",
    };
    plan(agent, &task).expect("a plan")
}

/// Compares a folder with what it should hold, file by file and name by name; gives how many files there are.
#[expect(clippy::disallowed_methods, reason = "a test writes its golden files")]
fn compare(folder: &Path, written: &BTreeMap<String, String>) -> usize {
    if std::env::var_os("BOXGATE_BLESS").is_some() {
        let _none_before = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder).expect("folders");
        for (name, text) in written {
            std::fs::write(folder.join(name), text).expect("written");
        }
    }
    let entries = std::fs::read_dir(folder).unwrap_or_else(|fault| panic!("{}: {fault}", folder.display()));
    let names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    for name in &names {
        assert!(written.contains_key(name), "{} is not written any more", folder.join(name).display());
    }
    for (name, text) in written {
        let path = folder.join(name);
        let want = std::fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
        assert_eq!(&want, text, "{}", path.display());
    }
    written.len()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// The version in box/package.json.
fn pinned(agent: Agent) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../box/package.json");
    let text = std::fs::read_to_string(path).expect("box/package.json");
    let manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    manifest["dependencies"][package(agent)].as_str().expect("pinned").to_owned()
}

/// What a user has chosen stays; what a run before has left goes.
const CONFIG: &str = "model = \"gpt-6.2\"\nmodel_provider = \"gw\"\nsandbox_mode = \"read-only\"\nmodel_reasoning_effort = \"high\"\n[mcp_servers.lab]\ncommand = \"/bin/lab\"\nargs = [\"-x\"]\n[projects.\"/workspace\"]\ntrust_level = \"trusted\"\n";
const SETTINGS: &str = "{\"defaultProvider\":\"openai-codex\",\"defaultModel\":\"gpt-6.2\",\"extensions\":[\"/x.ts\"],\"defaultProjectTrust\":\"always\"}";
