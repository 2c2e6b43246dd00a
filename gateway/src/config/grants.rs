//! Grants: from the words of the file to what the policy matches, and what may never stand in one grant.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use box_spec::Provider;
use http::Method;

use crate::policy::{Boxes, Grant, GrantName, HostPattern, Matching, PathPrefix, Serves, providers};
use crate::tls::UpstreamCa;
use crate::vault::SecretName;

use super::convert::{Known, plain_name, served, unique};
use super::faults::Faults;
use super::raw::{RawGrant, RawMatch, RawSending, Texts};
use super::reader::At;
use super::sending;

pub(super) fn convert(raw: Vec<RawGrant>, base: &Path, known: &Known, faults: &mut Faults) -> Vec<Grant> {
    let mut names = BTreeSet::new();
    let mut grants = Vec::new();
    for grant in raw {
        grants.extend(convert_one(grant, &mut names, base, known, faults));
    }
    grants
}

fn convert_one(
    raw: RawGrant,
    names: &mut BTreeSet<String>,
    base: &Path,
    known: &Known,
    faults: &mut Faults,
) -> Option<Grant> {
    let RawGrant {
        name,
        preset,
        secret,
        sending,
        matches,
        websocket,
        upstream_ca,
        unsafe_dial,
        unsafe_keep_credentials,
        unsafe_secret_hosts,
    } = raw;
    let name = name.and_then(|name| plain_name(name, faults)).and_then(|name| unique(names, name, "grant", faults));
    let preset =
        preset.and_then(|preset| served(&preset, faults).map(|provider| At { value: provider, span: preset.span }));
    let secret = secret.and_then(|secret| known_secret(secret, known, faults));
    let secret = sent_otherwise(secret, sending, faults);
    let hosts = convert_hosts(matches.hosts.as_ref(), preset.as_ref(), faults);
    let (keep, secret_hosts) = (&unsafe_keep_credentials, &unsafe_secret_hosts);
    Rules { preset: &preset, secret: &secret, plain: &matches.plain, keep, secret_hosts }.check(&hosts, faults);
    // Without a name there is no grant, but its other faults are told all the same.
    let grant_name = GrantName::new(name.as_ref().map_or("", |name| &name.value));
    let mut grant = Grant::new(grant_name, matching(matches, &hosts, preset.as_ref(), known, faults));
    grant.websocket = convert_websocket(websocket.as_ref(), &grant, faults);
    grant.serves = secret.as_ref().and_then(|secret| secret.value.serves.clone());
    grant.secret = secret.map(|secret| SecretName::new(&secret.value.name));
    grant.unsafe_dial = unsafe_dial.and_then(|dial| dial_address(&dial, "unsafe_dial", faults));
    grant.upstream_ca = upstream_ca.and_then(|file| roots(&file, base, faults));
    grant.keeps_credentials = unsafe_keep_credentials.is_some_and(|keep| keep.value);
    name.map(|_| grant)
}

fn matching(
    raw: RawMatch,
    patterns: &[At<HostPattern>],
    preset: Option<&At<Provider>>,
    known: &Known,
    faults: &mut Faults,
) -> Matching {
    // The hosts were read before: the rules about secrets need them with their places.
    let RawMatch { boxes, hosts: _, ports, methods, paths, plain } = raw;
    Matching {
        boxes: convert_boxes(boxes, known, faults),
        hosts: patterns.iter().map(|pattern| pattern.value.clone()).collect(),
        ports: ports.map(|ports| convert_ports(ports.value, faults)),
        sockets: sockets(&methods, &paths, preset),
        methods: convert_methods(methods, preset, faults),
        paths: convert_paths(paths, preset, faults),
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
    preset: &'a Option<At<Provider>>,
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
                if let Some(preset) = preset.as_ref().filter(|preset| preset.value != *provider) {
                    faults.add(
                        preset.span.clone(),
                        format!("the preset is {}'s and the secret {provider}'s", preset.value),
                    );
                }
                hosts.iter().for_each(|host| check_secret_host(host, *provider, anywhere, faults));
            }
            Some(Serves::Service(_)) => {
                if let Some(preset) = preset {
                    faults.add(
                        preset.span.clone(),
                        format!(
                            "the preset is {0}'s and the secret a service's: give the [[secret]] `provider = \"{0}\"`",
                            preset.value
                        ),
                    );
                }
                hosts.iter().for_each(|host| check_service_host(host, anywhere, faults));
            }
        }
    }
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

fn convert_hosts(
    hosts: Option<&At<Vec<At<String>>>>,
    preset: Option<&At<Provider>>,
    faults: &mut Faults,
) -> Vec<At<HostPattern>> {
    let given = match (hosts, preset) {
        (Some(hosts), _) => hosts.value.clone(),
        (None, Some(preset)) => {
            let own = providers::facts(preset.value).model_hosts.iter();
            own.map(|host| At { value: (*host).to_owned(), span: preset.span.clone() }).collect()
        }
        (None, None) => Vec::new(),
    };
    let one = |At { value, span }: At<String>| {
        let value = faults.take(&span, HostPattern::parse(&value))?;
        Some(At { value, span })
    };
    given.into_iter().filter_map(one).collect()
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

fn convert_methods(methods: Texts, preset: Option<&At<Provider>>, faults: &mut Faults) -> Option<Vec<Method>> {
    let Some(methods) = methods else {
        let own = providers::facts(preset?.value).model_methods.iter();
        return Some(own.filter_map(|method| method.parse().ok()).collect());
    };
    if methods.value.iter().any(|method| method.value == "*") {
        return None;
    }
    let one = |method: At<String>| match method.value.to_ascii_uppercase().parse::<Method>() {
        Ok(Method::TRACE | Method::CONNECT) => faults.take(&method.span, Err("TRACE and CONNECT are never granted")),
        parsed => faults.take(&method.span, parsed.map_err(|_| "no HTTP method")),
    };
    Some(methods.value.into_iter().filter_map(one).collect())
}

/// Of a preset whose methods are its own. Where the file gives other paths, any of them, each alone, may be a WebSocket's.
fn sockets(methods: &Texts, paths: &Texts, preset: Option<&At<Provider>>) -> Vec<String> {
    let own = preset.map_or(&[][..], |preset| providers::facts(preset.value).model_sockets);
    match paths {
        _ if methods.is_some() || own.is_empty() => Vec::new(),
        Some(paths) => paths.value.iter().map(|path| path.value.clone()).collect(),
        None => own.iter().map(|path| (*path).to_owned()).collect(),
    }
}

fn convert_paths(paths: Texts, preset: Option<&At<Provider>>, faults: &mut Faults) -> Option<Vec<PathPrefix>> {
    let Some(paths) = paths else {
        let own = providers::facts(preset?.value).model_paths.iter();
        return Some(own.filter_map(|path| PathPrefix::parse(path).ok()).collect());
    };
    Some(paths.value.into_iter().filter_map(|path| faults.take(&path.span, PathPrefix::parse(&path.value))).collect())
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
