//! Spans of time as they are written in the file: `250ms`, `15s`, `2m`, `1h30m`.

use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("is no span of time: write it like \"250ms\", \"15s\", \"2m\" or \"1h30m\"")]
pub struct DurationFault;

/// Whole numbers, each with its unit, the larger unit first.
pub fn parse(text: &str) -> Result<Duration, DurationFault> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    let mut smaller_than = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, next) = after.split_at(letters);
        let milliseconds =
            UNITS.iter().find(|(name, _)| *name == unit).map(|(_, milliseconds)| *milliseconds).ok_or(DurationFault)?;
        if milliseconds >= smaller_than {
            return Err(DurationFault);
        }
        smaller_than = milliseconds;
        let number: u64 = number.parse().map_err(|_| DurationFault)?;
        let part = number.checked_mul(milliseconds).map(Duration::from_millis).ok_or(DurationFault)?;
        total = total.checked_add(part).ok_or(DurationFault)?;
        rest = next;
    }
    if text.is_empty() { Err(DurationFault) } else { Ok(total) }
}

/// As `parse` would read it, for messages.
#[must_use]
pub fn show(duration: Duration) -> String {
    let mut left = duration.as_millis();
    let mut text = String::new();
    for (unit, milliseconds) in UNITS {
        let number = left / u128::from(milliseconds);
        left %= u128::from(milliseconds);
        if number > 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse, show};

    #[test]
    fn a_span_of_time_is_read_in_one_way() {
        for (text, seconds) in [("15s", 15), ("2m", 120), ("1h30m", 5400), ("1h0m1s", 3601), ("90m", 5400), ("0s", 0)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("1s250ms"), Ok(Duration::from_millis(1250)));
        for bad in [
            "",
            "15",
            "s",
            "-1s",
            "+1s",
            "1.5s",
            "1 s",
            "15S",
            "1m1h",
            "1s1s",
            "1d",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for text in ["1h30m", "15s", "1s250ms", "0s"] {
            assert_eq!(show(parse(text).expect("a span")), text);
        }
    }
}
