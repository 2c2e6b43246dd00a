//! codex's `config.toml`: what a box wants, and of the user's own what is about models and MCP servers.

use toml::{Table, Value};

use crate::agent::{PlanFault, Task};

pub(in crate::agent) const STANDING: &[&str] = &["config.toml"];

/// The text of the file.
///
/// There is no entry for the workspace under `projects`: trusted, its own `.codex` could start processes; untrusted,
/// codex would not even read its AGENTS.md.
pub(super) fn text(task: &Task<'_>) -> Result<String, PlanFault> {
    let mut table = kept(task)?;
    let mut set = |key: &str, value: Value| table.insert(key.to_owned(), value);
    set("approval_policy", "never".into());
    set("sandbox_mode", "danger-full-access".into());
    set("check_for_update_on_startup", false.into());
    // Offered to every model that the catalog does not know, and the house lets it through only where a grant says so.
    set("web_search", "disabled".into());
    if let Some(catalog) = task.catalog {
        set("model_catalog_json", catalog.display().to_string().into());
    }
    if let Some(system) = task.system {
        set("developer_instructions", system.into());
    }
    let off =
        |keys: &[&str], value: Value| Value::Table(keys.iter().map(|key| ((*key).to_owned(), value.clone())).collect());
    set("analytics", off(&["enabled"], false.into()));
    set("otel", off(&["exporter", "trace_exporter", "metrics_exporter"], "none".into()));
    // The last one would try for ever where the door is gone.
    set("features", off(&["plugins", "apps", "unbounded_connection_retries"], false.into()));
    toml::to_string(&table).map_err(|_| fault(task, "cannot be written as TOML"))
}

/// What stays of the file that is there.
fn kept(task: &Task<'_>) -> Result<Table, PlanFault> {
    let Some(bytes) = task.standing.get(STANDING[0]) else {
        return Ok(Table::new());
    };
    let text = std::str::from_utf8(bytes).map_err(|_| fault(task, "is not UTF-8"))?;
    let mut table: Table = text.parse().map_err(|_| fault(task, "is no TOML"))?;
    table.retain(|key, _| KEPT.contains(&key));
    Ok(table)
}

fn fault(task: &Task<'_>, what: &str) -> PlanFault {
    PlanFault::standing(task.home, STANDING[0], what)
}

/// The user's, from one launch to the next.
const KEPT: [&str; 5] =
    ["model", "model_reasoning_effort", "model_reasoning_summary", "model_verbosity", "mcp_servers"];
