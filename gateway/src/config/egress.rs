//! Egress: what a grant lets a model's provider do by itself, from the words of the file.

use crate::policy::egress::{Addresses, Tool, tool};
use crate::policy::{Egress, Grant, HostPattern, Serves, providers};

use super::faults::Faults;
use super::raw::RawEgress;
use super::reader::At;

pub(super) fn convert(raw: RawEgress, hosts: &[At<HostPattern>], grant: &Grant, faults: &mut Faults) -> Egress {
    let RawEgress { provider_tools, provider_fetch } = raw;
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
    egress
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
