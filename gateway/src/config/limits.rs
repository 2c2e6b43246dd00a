//! The limits: how much of the house one box can take up, and how long anything waits. `docs/limits.md` is the same list.

use std::time::Duration;

use super::duration;
use super::faults::Faults;
use super::reader::Section;

/// Every list, head, buffer, cache and wait that traffic can fill. Per box unless it says otherwise.
///
/// # Defaults
/// Those of [`Limits::default`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Open connections of one door.
    pub connections_per_box: usize,
    /// Open connections of all doors together.
    pub connections_total: usize,
    /// Requests under way at once.
    pub requests_in_flight_per_box: usize,
    /// Requests in a minute, refused ones too: each is a line of the ledger at least.
    pub requests_per_minute_per_box: usize,
    /// Tunnels in a minute: each can cost a certificate.
    pub tunnels_per_minute_per_box: usize,
    /// Bytes of one request head.
    pub head_bytes: usize,
    /// Header fields of one request head.
    pub head_headers: usize,
    /// For a request head to arrive.
    pub head_deadline: Duration,
    /// For a TLS handshake with the box or with the upstream.
    pub tls_deadline: Duration,
    /// How long a connection may be silent between two requests.
    pub idle_tunnel: Duration,
    /// From the first byte of the request to the head of the answer.
    pub response_head_deadline: Duration,
    /// Between two pieces of an answer.
    pub response_idle: Duration,
    /// How long a WebSocket may be silent, both ways.
    pub websocket_idle: Duration,
    /// How long an idle connection to an upstream is kept.
    pub upstream_idle: Duration,
    /// Idle connections kept for one box, credential and target.
    pub upstream_per_target: usize,
    /// Minted leaves kept.
    pub leaf_cache: usize,
    /// For requests under way to end when the house goes down.
    pub drain: Duration,
    /// For a run to be taken up again after the house came back.
    pub reattach: Duration,
    /// For the report after a run was cut.
    pub report_deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_per_box: 512,
            connections_total: 8192,
            requests_in_flight_per_box: 256,
            requests_per_minute_per_box: 60_000,
            tunnels_per_minute_per_box: 20_000,
            head_bytes: 64 * 1024,
            head_headers: 200,
            head_deadline: Duration::from_secs(10),
            tls_deadline: Duration::from_secs(10),
            idle_tunnel: Duration::from_secs(15 * 60),
            response_head_deadline: Duration::from_secs(15 * 60),
            response_idle: Duration::from_secs(15 * 60),
            // Longer than an answer's: an agent keeps its WebSocket while its own tools run.
            websocket_idle: HOUR,
            upstream_idle: Duration::from_secs(60),
            upstream_per_target: 64,
            leaf_cache: 1024,
            drain: Duration::from_secs(20),
            reattach: Duration::from_secs(30),
            report_deadline: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Reads `[limits]`; what is not there, or is a fault, is the default.
    pub(super) fn read(section: Section<'_>, faults: &mut Faults) -> Self {
        let defaults = Self::default();
        let mut limits = Reading { section, faults };
        let read = Self {
            connections_per_box: limits.count("connections_per_box", 1..=65_536, defaults.connections_per_box),
            connections_total: limits.count("connections_total", 1..=1_048_576, defaults.connections_total),
            requests_in_flight_per_box: limits.count(
                "requests_in_flight_per_box",
                1..=65_536,
                defaults.requests_in_flight_per_box,
            ),
            requests_per_minute_per_box: limits.count(
                "requests_per_minute_per_box",
                1..=10_000_000,
                defaults.requests_per_minute_per_box,
            ),
            tunnels_per_minute_per_box: limits.count(
                "tunnels_per_minute_per_box",
                1..=10_000_000,
                defaults.tunnels_per_minute_per_box,
            ),
            // hyper cannot read heads in less than 8 KiB.
            head_bytes: limits.count("head_bytes", 8_192..=1_048_576, defaults.head_bytes),
            head_headers: limits.count("head_headers", 16..=4_096, defaults.head_headers),
            head_deadline: limits.wait("head_deadline", HOUR, defaults.head_deadline),
            tls_deadline: limits.wait("tls_deadline", HOUR, defaults.tls_deadline),
            idle_tunnel: limits.wait("idle_tunnel", DAY, defaults.idle_tunnel),
            response_head_deadline: limits.wait("response_head_deadline", DAY, defaults.response_head_deadline),
            response_idle: limits.wait("response_idle", DAY, defaults.response_idle),
            websocket_idle: limits.wait("websocket_idle", DAY, defaults.websocket_idle),
            upstream_idle: limits.wait("upstream_idle", HOUR, defaults.upstream_idle),
            upstream_per_target: limits.count("upstream_per_target", 1..=1_024, defaults.upstream_per_target),
            leaf_cache: limits.count("leaf_cache", 1..=65_536, defaults.leaf_cache),
            drain: limits.wait("drain", HOUR, defaults.drain),
            reattach: limits.wait("reattach", HOUR, defaults.reattach),
            report_deadline: limits.wait("report_deadline", HOUR, defaults.report_deadline),
        };
        limits.section.finish(limits.faults);
        read
    }
}

struct Reading<'a, 't> {
    section: Section<'t>,
    faults: &'a mut Faults,
}

impl Reading<'_, '_> {
    fn count(&mut self, key: &'static str, fits: std::ops::RangeInclusive<usize>, default: usize) -> usize {
        let Some(given) = self.section.number(key, self.faults) else { return default };
        match usize::try_from(given.value) {
            Ok(count) if fits.contains(&count) => count,
            _ => {
                self.faults.add(given.span, format!("`{key}` must be from {} to {}", fits.start(), fits.end()));
                default
            }
        }
    }

    fn wait(&mut self, key: &'static str, longest: Duration, default: Duration) -> Duration {
        let Some(given) = self.section.text(key, self.faults) else { return default };
        match duration::parse(&given.value) {
            Ok(wait) if wait >= SHORTEST && wait <= longest => wait,
            Ok(_) => {
                self.faults.add(
                    given.span,
                    format!("`{key}` must be from {} to {}", duration::show(SHORTEST), duration::show(longest)),
                );
                default
            }
            Err(fault) => {
                self.faults.add(given.span, format!("`{key}` {fault}"));
                default
            }
        }
    }
}

/// Shorter would refuse what is merely not instant.
const SHORTEST: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
