//! What a grant says of a body: the rules that it is read by, what would be refused in it, and what to write.

use std::sync::Arc;

use http::request::Parts;

use crate::body::Reads;
use crate::body::model;
use crate::echo::Needles;
use crate::host::Target;
use crate::policy::mcp::Glob;
use crate::policy::{Grant, Mcp};
use crate::refusal::{Reason, Refusal};

use super::{Told, quoted};

/// What this body would be refused for, if it is.
pub(super) fn judge(target: &Target, grant: &Arc<Grant>, head: &Parts, body: &[u8]) -> Result<(), Refusal> {
    let mut reading = reads(target, grant, head)?.body(&head.headers)?;
    reading.judge(body)?;
    reading.end()
}

/// The rules by which bodies are read here, where they are.
pub(super) fn rules(target: &Target, grant: &Arc<Grant>, head: &Parts, out: &mut Told) {
    if reads(target, grant, head).is_ok_and(|reads| reads.is_for_a_model()) {
        out.line(format_args!(
            "  a body is read for what it asks of the provider; tools that the agent runs by itself pass"
        ));
        let tools = list(grant.egress.tools.iter().map(|tool| quoted(tool)));
        let fetch = list(grant.egress.fetch.iter().map(|addresses| quoted(&addresses.to_string())));
        rule("tools of the provider", "provider_tools", tools, "\"web_search\"", out);
        rule("addresses that it fetches", "provider_fetch", fetch, "\"https://HOST/*\"", out);
    } else if let Some(Mcp { methods, tools }) = &grant.mcp {
        out.line(format_args!("  a body must be one message of MCP"));
        mcp_rule("methods", "mcp_methods", methods.as_deref(), out);
        mcp_rule("tools", "mcp_tools", tools.as_deref(), out);
    }
}

/// What to write so that this grant lets through what it refused in a body.
pub(super) fn remedy(grant: &Grant, refusal: &Refusal, out: &mut Told) {
    let inside = refusal.inside();
    let line = match refusal.reason() {
        Reason::ProviderEgress => match model::Asked::of_sentence(inside) {
            Some(model::Asked::Tool(name)) => {
                let had = grant.egress.tools.iter().map(|tool| quoted(tool));
                format!("provider_tools = [{}]", list(had.chain([quoted(&name)])))
            }
            Some(model::Asked::Fetch(place)) => {
                let had = grant.egress.fetch.iter().map(|addresses| quoted(&addresses.to_string()));
                format!("provider_fetch = [{}]", list(had.chain([quoted(&format!("{place}/*"))])))
            }
            None => return,
        },
        Reason::McpRefused => {
            let Some(Mcp { methods, tools }) = &grant.mcp else { return };
            let named = |what: &str| Some(inside.strip_prefix(what)?.trim_matches('"').to_owned());
            let (key, had, name) = match (named("MCP: method "), named("MCP: tool ")) {
                (Some(name), _) => ("mcp_methods", methods, name),
                (None, Some(name)) => ("mcp_tools", tools, name),
                (None, None) => return,
            };
            // What no key can name is for nobody to allow.
            let Ok(name) = Glob::parse(&name) else { return };
            let had = had.iter().flatten();
            format!("{key} = [{}]", list(had.chain([&name]).map(|glob| quoted(glob.as_str()))))
        }
        _ => return,
    };
    out.line(format_args!("to allow it by grant {:?}, give that:", grant.name.as_str()));
    out.line(format_args!("    {line}"));
}

fn reads(target: &Target, grant: &Arc<Grant>, head: &Parts) -> Result<Reads, Refusal> {
    // A real secret is looked for by the gateway that has it.
    let none = Needles::of_all([]).map_err(|_| {
        Refusal::new(Reason::BadRequest, "the body cannot be looked through", "no searcher could be made")
    })?;
    Ok(Reads::of(target, grant, head, Arc::new(none)))
}

fn rule(what: &str, key: &str, has: String, example: &str, out: &mut Told) {
    if has.is_empty() {
        out.line(format_args!("    {what}: none; to let one through: {key} = [{example}]"));
    } else {
        out.line(format_args!("    {what}: {key} = [{has}]"));
    }
}

fn mcp_rule(what: &str, key: &str, globs: Option<&[Glob]>, out: &mut Told) {
    match globs {
        None => out.line(format_args!("    {what}: any; `{key}` would name those that pass")),
        Some(globs) => {
            out.line(format_args!("    {what}: {key} = [{}]", list(globs.iter().map(|glob| quoted(glob.as_str())))));
        }
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}
