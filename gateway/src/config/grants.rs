//! Grants: from the words of the file to what the policy matches, and what may never stand in one grant.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use box_spec::Provider;
use http::{HeaderName, Method};

use crate::hops;
use crate::policy::{Boxes, Grant, GrantName, HostPattern, Matching, PathPattern, QueryKeys, Serves, providers};
use crate::tls::UpstreamCa;
use crate::vault::SecretName;

use super::convert::{Known, plain_name, unique};
use super::effects;
use super::egress;
use super::faults::Faults;
use super::presets::{self, Preset};
use super::raw::{RawGrant, RawMatch, RawSending, Texts};
use super::reader::At;
use super::sending;

pub(super) fn convert(raw: Vec<RawGrant>, base: &Path, known: &Known, faults: &mut Faults) -> Vec<Grant> {
    let mut names = BTreeSet::new();
    let mut grants = Vec::new();
    for mut grant in raw {
        let name = grant.name.take().and_then(|name| plain_name(name, faults));
        let name = name.and_then(|name| unique(&mut names, name, "grant", faults));
        // Without a name there is no grant, but its other faults are told all the same.
        let grant_name = GrantName::new(name.as_ref().map_or("", |name| &name.value));
        let (parts, preset) = presets::expand(grant, faults);
        for part in parts {
            let converted = convert_one(part, &grant_name, preset.as_ref(), base, known, faults);
            grants.extend(name.as_ref().map(|_| converted));
        }
    }
    grants
}

fn convert_one(
    raw: RawGrant,
    name: &GrantName,
    preset: Option<&At<&Preset>>,
    base: &Path,
    known: &Known,
    faults: &mut Faults,
) -> Grant {
    let (denies, observes) = effects::check(&raw, faults);
    let RawGrant {
        name: part,
        preset: _,
        deny: _,
        observe: _,
        secret,
        sending,
        matches,
        websocket,
        websocket_paths,
        egress,
        max_body,
        upstream_ca,
        unsafe_dial,
        unsafe_keep_credentials,
        unsafe_secret_hosts,
    } = raw;
    let secret = secret.and_then(|secret| known_secret(secret, known, faults));
    let secret = match (preset, secret) {
        (Some(preset), Some(secret)) if is_strangers(&secret.value, preset.value) => {
            let (name, of) = (preset.value.name, &secret.value.name);
            let said = format!("the preset {name} takes a token of its service, and \"{of}\" is a model provider's");
            faults.add(preset.span.clone(), said);
            None
        }
        (_, secret) => sent_otherwise(secret, sending, faults),
    };
    let hosts = convert_hosts(matches.hosts.clone(), faults);
    let (keep, secret_hosts) = (&unsafe_keep_credentials, &unsafe_secret_hosts);
    Rules { preset, secret: &secret, plain: &matches.plain, keep, secret_hosts }.check(&hosts, faults);
    let matching = matching(matches, &hosts, websocket_paths, denies, known, faults);
    let mut grant = Grant::new(name.clone(), matching);
    (grant.denies, grant.observes) = (denies, observes);
    grant.part = part.map(|part| Arc::from(part.value));
    grant.websocket = convert_websocket(websocket.as_ref(), &grant, faults);
    grant.serves = secret.as_ref().and_then(|secret| secret.value.serves.clone());
    (grant.egress, grant.mcp) = egress::convert(egress, &hosts, &grant, faults);
    grant.max_body = max_body.map(|most| most.value);
    grant.secret = secret.map(|secret| SecretName::new(&secret.value.name));
    grant.unsafe_dial = unsafe_dial.and_then(|dial| dial_address(&dial, "unsafe_dial", faults));
    grant.upstream_ca = upstream_ca.and_then(|file| roots(&file, base, faults));
    grant.keeps_credentials = unsafe_keep_credentials.is_some_and(|keep| keep.value);
    grant
}

fn matching(
    raw: RawMatch,
    patterns: &[At<HostPattern>],
    sockets: Texts,
    denies: bool,
    known: &Known,
    faults: &mut Faults,
) -> Matching {
    // The hosts were read before: the rules about secrets need them with their places.
    let RawMatch { boxes, hosts: _, ports, methods, paths, query, headers, plain } = raw;
    Matching {
        boxes: convert_boxes(boxes, known, faults),
        hosts: patterns.iter().map(|pattern| pattern.value.clone()).collect(),
        ports: ports.map(|ports| convert_ports(ports.value, faults)),
        methods: methods.and_then(|methods| convert_methods(methods.value, faults)),
        paths: paths.map(|paths| convert_paths(paths.value, denies, faults)),
        query: query.map(|keys| convert_query(keys.value, denies, faults)),
        headers: headers.map(|names| convert_headers(names.value, faults)).unwrap_or_default(),
        sockets: sockets.map(|paths| convert_sockets(paths.value, faults)).unwrap_or_default(),
        plain: plain.is_some_and(|plain| plain.value),
    }
}

/// A secret that a grant names. Whose it is, is `None` where the secret itself has a fault.
struct NamedSecret {
    name: String,
    serves: Option<Serves>,
}

/// What may not stand beside what.
struct Rules<'a> {
    preset: Option<&'a At<&'a Preset>>,
    secret: &'a Option<At<NamedSecret>>,
    plain: &'a Option<At<bool>>,
    keep: &'a Option<At<bool>>,
    secret_hosts: &'a Option<At<bool>>,
}

impl Rules<'_> {
    fn check(&self, hosts: &[At<HostPattern>], faults: &mut Faults) {
        let Self { preset, secret, plain, keep, secret_hosts } = self;
        let Some(secret) = secret else {
            if let Some(at) = secret_hosts {
                faults.add(at.span.clone(), "`unsafe_secret_hosts` says nothing in a grant without `secret`");
            }
            return;
        };
        if let Some(plain) = plain.as_ref().filter(|plain| plain.value) {
            faults.add(
                plain.span.clone(),
                "a secret is never sent over plain http: take `plain` or `secret` out of this grant",
            );
        }
        if let Some(keep) = keep.as_ref().filter(|keep| keep.value) {
            faults.add(keep.span.clone(), "a grant with a secret overwrites what the box sent: `unsafe_keep_credentials` cannot stand beside `secret`");
        }
        let anywhere = secret_hosts.as_ref().is_some_and(|at| at.value);
        match &secret.value.serves {
            None => {}
            Some(Serves::Provider(provider)) => {
                if let Some(preset) = preset.filter(|preset| preset.value.provider != Some(*provider)) {
                    let whose = preset.value.provider.map_or(preset.value.name, Provider::as_str);
                    faults.add(preset.span.clone(), format!("the preset is {whose}'s and the secret {provider}'s"));
                }
                hosts.iter().for_each(|host| check_secret_host(host, *provider, anywhere, faults));
            }
            Some(Serves::Service(_)) => {
                if let Some((preset, provider)) = preset.and_then(|preset| Some((preset, preset.value.provider?))) {
                    faults.add(
                        preset.span.clone(),
                        format!("the preset is {provider}'s and the secret a service's: give the [[secret]] `provider = \"{provider}\"`"),
                    );
                }
                hosts.iter().for_each(|host| check_service_host(host, anywhere, faults));
            }
        }
    }
}

/// Whether a provider's secret stands beside the preset of a service.
const fn is_strangers(secret: &NamedSecret, preset: &Preset) -> bool {
    matches!(secret.serves, Some(Serves::Provider(_))) && preset.provider.is_none()
}

/// A secret goes to hosts that are spelled out, and to its provider's own unless the operator says otherwise.
fn check_secret_host(host: &At<HostPattern>, provider: Provider, anywhere: bool, faults: &mut Faults) {
    match &host.value {
        HostPattern::Any | HostPattern::Below(_) => spell_out(host, faults),
        HostPattern::Exact(exact) if !anywhere && providers::model_host(exact) != Some(provider) => faults.add(
            host.span.clone(),
            format!("{exact} is none of {provider}'s hosts, and would be given its secret: only `unsafe_secret_hosts = true` allows that"),
        ),
        HostPattern::Exact(_) => {}
    }
}

/// A service's secret goes where the grant says; to all below a host, or to a provider's, only where the operator says so twice.
fn check_service_host(host: &At<HostPattern>, anywhere: bool, faults: &mut Faults) {
    match &host.value {
        HostPattern::Any => spell_out(host, faults),
        HostPattern::Below(_) if !anywhere => faults.add(
            host.span.clone(),
            format!("\"{}\" is a pattern, and every host that it matches would be given the secret: spell them out, or say `unsafe_secret_hosts = true`", host.value),
        ),
        HostPattern::Exact(exact) if !anywhere => {
            if let Some(provider) = providers::model_host(exact) {
                faults.add(
                    host.span.clone(),
                    format!("{exact} is {provider}'s, and the secret a service's: give the [[secret]] its `provider`; only `unsafe_secret_hosts = true` allows another's"),
                );
            }
        }
        HostPattern::Below(_) | HostPattern::Exact(_) => {}
    }
}

fn spell_out(host: &At<HostPattern>, faults: &mut Faults) {
    faults.add(
        host.span.clone(),
        format!("a grant with a secret must spell its hosts out, and \"{}\" is a pattern", host.value),
    );
}

/// One secret can be sent in several ways: what the grant says of it replaces all that the secret says.
fn sent_otherwise(
    secret: Option<At<NamedSecret>>,
    sending: RawSending,
    faults: &mut Faults,
) -> Option<At<NamedSecret>> {
    let given: Vec<_> = sending::given(&sending).collect();
    if given.is_empty() {
        return secret;
    }
    if let Some(At { value: NamedSecret { name, serves: Some(Serves::Service(_)) }, span }) = secret {
        let serves = sending::convert(sending, faults).map(Serves::Service);
        return Some(At { value: NamedSecret { name, serves }, span });
    }
    let is_faulty = secret.as_ref().is_some_and(|secret| secret.value.serves.is_none());
    for (key, stray) in given.into_iter().filter(|_| !is_faulty) {
        faults.add(stray, format!("`{key}` in [[grant]] goes with the `secret` of a service, which has no `provider`"));
    }
    secret
}

fn convert_hosts(hosts: Texts, faults: &mut Faults) -> Vec<At<HostPattern>> {
    let one = |At { value, span }: At<String>| {
        let value = faults.take(&span, HostPattern::parse(&value))?;
        Some(At { value, span })
    };
    hosts.map(|hosts| hosts.value).unwrap_or_default().into_iter().filter_map(one).collect()
}

fn convert_boxes(boxes: Texts, known: &Known, faults: &mut Faults) -> Boxes {
    let Some(boxes) = boxes else { return Boxes::All };
    let mut ids = BTreeSet::new();
    for id in boxes.value {
        if id.value == "*" {
            return Boxes::All;
        }
        if known.boxes.contains(&id.value) {
            // One that is no box id has had its fault where it is defined.
            ids.extend(id.value.parse().ok());
        } else {
            faults.add(id.span, format!("there is no box \"{}\"", id.value));
        }
    }
    Boxes::Only(ids)
}

fn convert_ports(ports: Vec<At<u64>>, faults: &mut Faults) -> BTreeSet<u16> {
    let one = |port: At<u64>| {
        let number = u16::try_from(port.value).ok().filter(|number| *number != 0);
        faults.take(&port.span, number.ok_or("a port is from 1 to 65535"))
    };
    ports.into_iter().filter_map(one).collect()
}

fn convert_methods(methods: Vec<At<String>>, faults: &mut Faults) -> Option<Vec<Method>> {
    if methods.iter().any(|method| method.value == "*") {
        return None;
    }
    let one = |method: At<String>| match method.value.to_ascii_uppercase().parse::<Method>() {
        Ok(Method::TRACE | Method::CONNECT) => faults.take(&method.span, Err("TRACE and CONNECT are never granted")),
        parsed => faults.take(&method.span, parsed.map_err(|_| "no HTTP method")),
    };
    Some(methods.into_iter().filter_map(one).collect())
}

fn convert_paths(paths: Vec<At<String>>, denies: bool, faults: &mut Faults) -> Vec<PathPattern> {
    let parse = if denies { PathPattern::of_denial } else { PathPattern::parse };
    paths.into_iter().filter_map(|path| faults.take(&path.span, parse(&path.value))).collect()
}

fn convert_query(keys: Vec<At<String>>, denies: bool, faults: &mut Faults) -> QueryKeys {
    let mut query = QueryKeys::default();
    for At { value, span } in keys {
        // A denial holds in any case.
        let key = if denies { value.to_ascii_lowercase() } else { value };
        let _added = faults.take(&span, query.add(&key));
    }
    query
}

fn convert_headers(names: Vec<At<String>>, faults: &mut Faults) -> Vec<HeaderName> {
    let one = |At { value, span }: At<String>| {
        let name = faults.take(&span, value.parse::<HeaderName>().map_err(|_| "no name of a header"))?;
        if hops::is_of_one_hop(&name) {
            faults.add(span, format!("{name} concerns one connection or the length of a body, and says nothing of a request: no grant can ask for it"));
            return None;
        }
        Some(name)
    };
    names.into_iter().filter_map(one).collect()
}

/// Each is one path alone, so that it is no pattern.
fn convert_sockets(paths: Vec<At<String>>, faults: &mut Faults) -> Vec<String> {
    let one = |path: At<String>| {
        let parsed = faults.take(&path.span, PathPattern::parse(&path.value))?;
        match parsed {
            PathPattern::Below(_) => Some(path.value),
            PathPattern::Only(_) | PathPattern::Shape(_) => {
                faults.add(path.span, "`websocket_paths` are paths, each alone: they hold no `*` and no `$`");
                None
            }
        }
    };
    paths.into_iter().filter_map(one).collect()
}

/// Where nothing is said, a WebSocket is let through on the models of a provider that serves them so. A grant with methods of
/// its own says what it wants.
fn convert_websocket(given: Option<&At<bool>>, grant: &Grant, faults: &mut Faults) -> bool {
    let Some(given) = given else {
        return grant.has_sockets();
    };
    if given.value && !grant.takes_handshakes() {
        faults.add(given.span.clone(), "a WebSocket begins with GET, which is none of this grant's `methods`");
    }
    given.value
}

fn known_secret(secret: At<String>, known: &Known, faults: &mut Faults) -> Option<At<NamedSecret>> {
    let At { value: name, span } = secret;
    match known.secrets.get(&name) {
        Some(serves) => Some(At { value: NamedSecret { name, serves: serves.clone() }, span }),
        None => {
            faults.add(span, format!("there is no secret \"{name}\""));
            None
        }
    }
}

pub(super) fn dial_address(dial: &At<String>, key: &str, faults: &mut Faults) -> Option<SocketAddr> {
    let address = dial.value.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
    faults.take(
        &dial.span,
        address.ok_or_else(|| format!("`{key}` must be an address with its port: \"127.0.0.1:8443\"")),
    )
}

pub(super) fn roots(file: &At<String>, base: &Path, faults: &mut Faults) -> Option<UpstreamCa> {
    let roots = UpstreamCa::read(&base.join(&file.value));
    faults.take(&file.span, roots.map_err(|fault| whole(&fault)))
}

/// An error and what caused it, in one line.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
