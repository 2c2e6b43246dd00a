//! From what was written to what is believed: defaults, paths, names, and what may stand beside what.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use box_spec::{Agent, BoxId, Provider};

use crate::dial::DialConfig;
use crate::ledger::{Settings, SyncMode};
use crate::policy::Policy;

use super::doors::Doors;
use super::faults::{Faults, Span};
use super::raw::{RawBox, RawConfig, RawDefaults, RawDial, RawLedger, Text};
use super::reader::At;
use super::secrets::Converted;
use super::{BoxConfig, Config, Places, duration, exposures, grants, secrets};

/// What the grants may name. Holds also what has faults of its own, so that one mistake is told once.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) boxes: BTreeSet<String>,
    pub(super) secrets: secrets::Named,
}

/// Where things of this house are, as written or by default; nothing where the file does not say its `state`.
pub(super) fn places(raw: &RawConfig, base: &Path) -> Option<Places> {
    let state = base.join(&raw.state.as_ref()?.value);
    let given = |place: &Text| place.as_ref().map(|place| base.join(&place.value));
    Some(Places {
        operator_socket: given(&raw.operator_socket).unwrap_or_else(|| state.join("operator.sock")),
        ledger: given(&raw.ledger.file).unwrap_or_else(|| state.join("ledger.jsonl")),
        state,
    })
}

pub(super) fn convert(raw: RawConfig, base: &Path, faults: &mut Faults) -> Option<Config> {
    let places = places(&raw, base);
    let RawConfig { state, operator_socket, ledger, defaults, dial, limits, boxes, secrets, grants } = raw;
    let ids = boxes.iter().filter_map(|one| one.id.as_ref().map(|id| id.value.clone())).collect();
    let mut doors = Doors::default();
    if let (Some(places), Some(written)) = (&places, operator_socket.or(state)) {
        doors.add_socket(&places.operator_socket, &written.span, "the operator's socket", faults);
    }
    let ledger = convert_ledger(ledger, places.as_ref(), faults);
    let dial = convert_dial(dial, faults);
    let mut boxes = convert_boxes(boxes, defaults, base, &mut doors, faults);
    let Converted { secrets, named, exposing } = secrets::convert(secrets, base, faults);
    let known = Known { boxes: ids, secrets: named };
    let policy = Policy::new(grants::convert(grants, base, &known, faults));
    let names: Vec<BoxId> = boxes.iter().map(|one| one.id.clone()).collect();
    let exposures = exposures::of_boxes(&names, &exposing, &policy, faults);
    for (one, exposures) in boxes.iter_mut().zip(exposures) {
        one.exposures = exposures;
    }
    let Places { state, operator_socket, ledger: _ } = places?;
    let (file, digest) = Default::default();
    Some(Config { file, digest, state, operator_socket, ledger: ledger?, limits, dial, boxes, secrets, policy })
}

fn convert_ledger(raw: RawLedger, places: Option<&Places>, faults: &mut Faults) -> Option<Settings> {
    let RawLedger { file: _, sync, deadline } = raw;
    let mut settings = Settings::new(places?.ledger.clone());
    match sync.as_ref().map(|sync| sync.value.as_str()) {
        None => {}
        Some("batch") => settings.sync = SyncMode::Batch,
        Some("always") => settings.sync = SyncMode::Always,
        Some(_) => faults.add(span_of(&sync), "`sync` in [ledger] must be \"batch\" or \"always\""),
    }
    settings.deadline = wait("deadline", deadline, Duration::from_millis(10), Duration::from_secs(60), faults)
        .unwrap_or(settings.deadline);
    Some(settings)
}

fn convert_dial(raw: RawDial, faults: &mut Faults) -> DialConfig {
    let RawDial { nameservers, connect_timeout } = raw;
    let mut dial = DialConfig::default();
    for server in nameservers.map(|servers| servers.value).unwrap_or_default() {
        let with_port = server.value.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
        match with_port.or_else(|| server.value.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 53))) {
            Some(address) => dial.nameservers.push(address),
            None => faults
                .add(server.span, "a nameserver is an address with or without port: \"127.0.0.1:53\", \"[::1]:53\""),
        }
    }
    let longest = Duration::from_secs(300);
    dial.connect_timeout = wait("connect_timeout", connect_timeout, Duration::from_millis(10), longest, faults)
        .unwrap_or(dial.connect_timeout);
    dial
}

fn convert_boxes(
    raw: Vec<RawBox>,
    defaults: RawDefaults,
    base: &Path,
    doors: &mut Doors,
    faults: &mut Faults,
) -> Vec<BoxConfig> {
    let RawDefaults { agent, ceiling } = defaults;
    let agent_default =
        agent.and_then(|agent| faults.take(&agent.span, agent.value.parse::<Agent>())).unwrap_or(Agent::Pi);
    let ceiling_default = run_ceiling(ceiling, faults);
    let mut ids = BTreeSet::new();
    let mut boxes = Vec::new();
    for raw in raw {
        let RawBox { id, door, agent, ceiling, unsafe_open_network, unsafe_unhardened, unsafe_secrets_in_box } = raw;
        let agent =
            agent.and_then(|agent| faults.take(&agent.span, agent.value.parse::<Agent>())).unwrap_or(agent_default);
        let ceiling = run_ceiling(ceiling, faults).or(ceiling_default);
        let door = doors.convert(door, base, faults);
        let id = id
            .and_then(|id| unique(&mut ids, id, "box", faults))
            .and_then(|id| faults.take(&id.span, id.value.parse::<BoxId>()));
        if let (Some(id), Some(door)) = (id, door) {
            let is_set = |flag: Option<At<bool>>| flag.is_some_and(|flag| flag.value);
            boxes.push(BoxConfig {
                id,
                door,
                agent,
                ceiling,
                unsafe_open_network: is_set(unsafe_open_network),
                unsafe_unhardened: is_set(unsafe_unhardened),
                unsafe_secrets_in_box: is_set(unsafe_secrets_in_box),
                exposures: Vec::new(),
            });
        }
    }
    boxes
}

/// A provider that this house serves.
pub(super) fn served(provider: &At<String>, faults: &mut Faults) -> Option<Provider> {
    let known = Provider::ALL.into_iter().find(|known| known.as_str() == provider.value);
    if known.is_none() {
        faults.add(provider.span.clone(), "unknown provider: known are anthropic, openai, openai-codex");
    }
    known
}

/// A name of the file's own: for grants and secrets.
pub(super) fn plain_name(name: At<String>, faults: &mut Faults) -> Option<At<String>> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=LONGEST_NAME).contains(&name.value.len()) && name.value.bytes().all(plain) {
        return Some(name);
    }
    faults.add(name.span, format!("a name is 1 to {LONGEST_NAME} lower-case letters, digits, `-`, `_` or `.`"));
    None
}

pub(super) fn unique(
    seen: &mut BTreeSet<String>,
    name: At<String>,
    what: &str,
    faults: &mut Faults,
) -> Option<At<String>> {
    if seen.insert(name.value.clone()) {
        return Some(name);
    }
    faults.add(name.span, format!("a second {what} of the name \"{}\"", name.value));
    None
}

fn run_ceiling(ceiling: Text, faults: &mut Faults) -> Option<Duration> {
    wait("ceiling", ceiling, Duration::from_secs(1), LONGEST_CEILING, faults)
}

fn wait(key: &str, given: Text, shortest: Duration, longest: Duration, faults: &mut Faults) -> Option<Duration> {
    let given = given?;
    match duration::parse(&given.value) {
        Ok(wait) if wait >= shortest && wait <= longest => return Some(wait),
        Ok(_) => faults.add(
            given.span,
            format!("`{key}` must be from {} to {}", duration::show(shortest), duration::show(longest)),
        ),
        Err(fault) => faults.add(given.span, format!("`{key}` {fault}")),
    }
    None
}

pub(super) fn span_of(text: &Text) -> Span {
    text.as_ref().map_or(0..0, |at| at.span.clone())
}

const LONGEST_NAME: usize = 63;
const LONGEST_CEILING: Duration = Duration::from_secs(30 * 24 * 3600);
