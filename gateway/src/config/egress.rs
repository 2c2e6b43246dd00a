//! Egress: what a grant lets stand in bodies, from the words of the file: what a model's provider may do by itself, and what of
//! MCP may be called.

use crate::policy::egress::{Addresses, Tool, tool};
use crate::policy::mcp::Glob;
use crate::policy::{Egress, Grant, HostPattern, Mcp, Serves, providers};

use super::faults::Faults;
use super::raw::{RawEgress, Texts};
use super::reader::At;

pub(super) fn convert(
    raw: RawEgress,
    hosts: &[At<HostPattern>],
    grant: &Grant,
    faults: &mut Faults,
) -> (Egress, Option<Mcp>) {
    let RawEgress { provider_tools, provider_fetch, mcp_methods, mcp_tools } = raw;
    let mcp = convert_mcp(mcp_methods, mcp_tools, hosts, grant, faults);
    let serves = matches!(grant.serves, Some(Serves::Provider(_)));
    if !serves && !hosts.iter().any(|host| may_be_a_models(&host.value)) {
        for (key, given) in [("provider_tools", &provider_tools), ("provider_fetch", &provider_fetch)] {
            if let Some(given) = given {
                faults.add(given.span.clone(), format!("`{key}` says nothing in a grant that leads to no model"));
            }
        }
    }
    let mut egress = Egress::default();
    for name in provider_tools.map(|tools| tools.value).unwrap_or_default() {
        if !is_a_name(&name.value) {
            faults.add(name.span, "the name of a provider's tool is 1 to 64 letters, digits, `_`, `-` or `.`");
        } else if tool(&name.value) == Tool::Agents {
            faults.add(name.span, format!("{:?} is run by the agent itself, and passes without leave", name.value));
        } else {
            egress.tools.push(name.value);
        }
    }
    for address in provider_fetch.map(|fetch| fetch.value).unwrap_or_default() {
        egress.fetch.extend(faults.take(&address.span, Addresses::parse(&address.value)));
    }
    (egress, mcp)
}

fn convert_mcp(
    methods: Texts,
    tools: Texts,
    hosts: &[At<HostPattern>],
    grant: &Grant,
    faults: &mut Faults,
) -> Option<Mcp> {
    let is_a_models = |host: &At<HostPattern>| matches!(&host.value, HostPattern::Exact(host) if providers::model_host(host).is_some());
    let given = methods.as_ref().or(tools.as_ref())?;
    if matches!(grant.serves, Some(Serves::Provider(_))) || hosts.iter().any(is_a_models) {
        faults.add(
            given.span.clone(),
            "`mcp_methods` and `mcp_tools` go with an MCP server, and not with a model's provider",
        );
    }
    if grant.websocket {
        faults.add(given.span.clone(), "messages in a WebSocket are not read for MCP: take `websocket` or this out");
    }
    let mut globs = |texts: Texts| {
        let texts = texts?.value;
        Some(texts.into_iter().filter_map(|text| faults.take(&text.span, Glob::parse(&text.value))).collect())
    };
    Some(Mcp { methods: globs(methods), tools: globs(tools) })
}

/// What is read of a request is read for a model's provider.
fn may_be_a_models(host: &HostPattern) -> bool {
    match host {
        HostPattern::Exact(host) => providers::model_host(host).is_some(),
        HostPattern::Below(_) | HostPattern::Any => true,
    }
}

fn is_a_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain)
}

const LONGEST_NAME: usize = 64;
