//! Paths: what a pattern covers lies there for every server, whatever it does to the path and in which order.

use gateway::policy::{NormalPath, PathPattern};

use crate::servers;

pub(crate) fn holds(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (raw, pattern) = text.split_once('\n').unwrap_or((text, "/v1/messages"));
    if raw.len() > LONGEST {
        return;
    }
    let Ok(path) = NormalPath::parse(raw) else { return };
    assert_eq!(path.raw(), raw, "what goes on is what came");
    let readings = servers::readings(raw);
    for granted in ["/v1/messages", "/v1/"] {
        let below = PathPattern::parse(granted).expect("a prefix");
        let is_below = |reading: &String| {
            reading
                .strip_prefix(granted)
                .is_some_and(|rest| rest.is_empty() || granted.ends_with('/') || rest.starts_with('/'))
        };
        if below.covers(&path) {
            let other = readings.iter().find(|reading| !is_below(reading));
            assert!(other.is_none(), "{raw:?} is covered by {granted} and could be {other:?}");
        }
    }
    for refused in ["/v1/keys", "/secret"] {
        if readings.iter().any(|reading| reading == refused) {
            assert!(path.could_be(|reading| reading == refused), "{raw:?} could be {refused}");
        }
    }
    let Ok(pattern) = PathPattern::parse(pattern) else { return };
    assert_eq!(PathPattern::parse(pattern.as_str()).as_ref(), Ok(&pattern));
    // A pattern that says `%2F` vouches for what its host does with escaped slashes.
    if pattern.covers(&path) && !pattern.as_str().contains('%') {
        let covers = |reading: &String| NormalPath::parse(&escaped(reading)).map_or(true, |path| pattern.covers(&path));
        let other = readings.iter().find(|reading| !covers(reading));
        assert!(other.is_none(), "{raw:?} is covered by {} and could be {other:?}", pattern.as_str());
    }
}

/// As a path can be sent: what cannot stand in one is escaped.
fn escaped(reading: &str) -> String {
    let mut out = String::new();
    for byte in reading.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'%') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Each step of each server goes over all of it.
const LONGEST: usize = 96;
