//! Pages that hold more than words, against the programs: credentials for each agent, and what is kept quiet of each.

pub(crate) mod manifests;

use anyhow::{Context, Result, ensure};
use box_spec::Agent;
use harness::{Case, Tools, case};

pub(crate) const CASES: &[Case] = &[
    case("pages::which_credential_an_agent_takes_is_told_as_it_is", takes),
    case("pages::what_is_kept_quiet_of_an_agent_is_told_as_it_is", quiet),
];

fn takes() -> Result<()> {
    let page = page("docs/config.md")?;
    for agent in AGENTS {
        let providers: Vec<String> = agent.providers().iter().map(|provider| format!("`{provider}`")).collect();
        let row = format!("| {agent} | {} |", providers.join(", "));
        ensure!(page.lines().any(|line| line == row), "docs/config.md has no line {row}");
    }
    Ok(())
}

/// Every switch of the golden files is in the table, and no switch is in the table alone.
fn quiet() -> Result<()> {
    let page = page("docs/launch.md")?;
    let (_, table) = page.split_once("| agent | switched off by |").context("find the table")?;
    for agent in AGENTS {
        let row =
            table.lines().find(|line| line.starts_with(&format!("| {agent} |"))).context("find the agent's row")?;
        let folder = std::fs::read_dir(Tools::workspace().join("boxd/golden")).context("list the golden files")?;
        let made = folder.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(agent.as_str()));
        let made = made.context("find the agent's golden files")?.path().join("login");
        let read =
            |name: &str| std::fs::read_to_string(made.join(name)).with_context(|| format!("read {name} of {agent}"));
        let plan = read("plan.txt")?;
        let switches: Vec<&str> = plan
            .lines()
            .filter_map(|line| line.strip_prefix("variable "))
            .filter(|pair| pair.contains("DISABLE") || pair.starts_with("PI_") && !pair.contains("_DIR="))
            .collect();
        ensure!(switches.len() == row.matches("=1`").count() + row.matches("=0`").count(), "{agent}: {switches:?}");
        for switch in switches {
            ensure!(row.contains(&format!("`{switch}`")), "{agent}: {switch} is not told");
        }
        for (file, line, told) in
            QUIET_FILES.iter().filter(|(of, ..)| *of == agent).map(|(_, file, line, told)| (file, line, told))
        {
            ensure!(read(file)?.contains(line) && row.contains(told), "{agent}: {told} in {file}");
        }
    }
    Ok(())
}

fn page(name: &str) -> Result<String> {
    std::fs::read_to_string(Tools::workspace().join(name)).with_context(|| format!("read {name}"))
}

const AGENTS: [Agent; 3] = [Agent::Claude, Agent::Codex, Agent::Pi];
/// What stands in an agent's own file, and how it is told.
const QUIET_FILES: [(Agent, &str, &str, &str); 8] = [
    (Agent::Codex, "config.toml", "check_for_update_on_startup = false", "check_for_update_on_startup = false"),
    (Agent::Codex, "config.toml", "[analytics]\nenabled = false", "analytics.enabled = false"),
    (Agent::Codex, "config.toml", "apps = false\nplugins = false", "`features.apps`, `features.plugins`"),
    (Agent::Codex, "config.toml", "unbounded_connection_retries = false", "unbounded_connection_retries = false"),
    (Agent::Codex, "config.toml", "exporter = \"none\"\nmetrics_exporter = \"none\"", "otel.metrics_exporter"),
    (Agent::Codex, "config.toml", "trace_exporter = \"none\"", "otel.trace_exporter = \"none\""),
    (Agent::Pi, "settings.json", "\"enableAnalytics\":false", "enableAnalytics"),
    (Agent::Pi, "settings.json", "\"enableInstallTelemetry\":false", "enableInstallTelemetry"),
];
