//! Since when: a span before now, or a time.

use std::time::Duration;

use jiff::Timestamp;

use crate::config::duration;

/// `7d`, `12h`, `1d12h`, or a time as RFC 3339 writes it.
pub(super) fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let span = span(text).ok_or_else(|| "write a span as 7d or 12h, or a time as 2026-01-31T00:00:00Z".to_owned())?;
    Timestamp::now().checked_sub(span).map_err(|_| "that is before all time".to_owned())
}

fn span(text: &str) -> Option<Duration> {
    let (days, rest) = text.split_once('d').map_or((0, text), |(days, rest)| (days.parse().unwrap_or(0), rest));
    let rest = match rest {
        "" if days > 0 => Duration::ZERO,
        _ => duration::parse(rest).ok()?,
    };
    rest.checked_add(Duration::from_secs(u64::checked_mul(days, DAY)?))
}

const DAY: u64 = 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{since, span};

    #[test]
    fn a_span_may_have_days_and_a_time_may_stand_for_itself() {
        for (text, hours) in [("7d", 168), ("12h", 12), ("1d12h", 36), ("90m", 1)] {
            assert_eq!(span(text).map(|span| span.as_secs() / 3600), Some(hours), "{text}");
        }
        assert_eq!(span("0h"), Some(Duration::ZERO));
        for text in ["", "7", "d", "-1d", "xd", "1d1d", "99999999999999d", "yesterday"] {
            assert!(since(text).is_err(), "{text}");
        }
        assert_eq!(since("2026-01-31T00:00:00Z").map(|time| time.to_string()).as_deref(), Ok("2026-01-31T00:00:00Z"));
    }
}
