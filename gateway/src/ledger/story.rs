//! The story: a ledger told in short lines for people. Nothing a box wrote reaches the terminal as a command to it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::words::is_command;

/// One line of the ledger as one short line of text; none if it is no ledger line.
#[must_use]
pub fn short(line: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let what = match text(&value, "kind")? {
        "closed" => format!("of {} {}", value["of"], ending(&value)),
        _ => beginning(&value),
    };
    Some(row(&value, text(&value, "kind")?, &what))
}

/// The exchanges and events of a run, each opening told together with its closing, in the order of their beginning.
#[derive(Debug, Default)]
pub struct Story {
    told: BTreeMap<u64, Chapter>,
    left_out: u64,
}

#[derive(Debug)]
struct Chapter {
    opened: Value,
    closed: Option<Value>,
}

impl Story {
    /// Takes the next line of the ledger.
    pub fn add(&mut self, line: &[u8]) {
        let Ok(value) = serde_json::from_slice::<Value>(line) else { return };
        if let Some(of) = value["of"].as_u64() {
            if let Some(chapter) = self.told.get_mut(&of) {
                chapter.closed = Some(value);
            }
            return;
        }
        let Some(sequence) = value["seq"].as_u64() else { return };
        if self.told.len() >= CHAPTERS {
            self.told.pop_first();
            self.left_out += 1;
        }
        self.told.insert(sequence, Chapter { opened: value, closed: None });
    }

    /// One line of text for each.
    #[must_use]
    pub fn tell(&self) -> String {
        let mut out = String::new();
        if self.left_out > 0 {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "… {} earlier entries", self.left_out);
        }
        for chapter in self.told.values() {
            out.push_str(&chapter.tell());
            out.push('\n');
        }
        out
    }
}

impl Chapter {
    fn tell(&self) -> String {
        let Self { opened, closed } = self;
        let kind = text(opened, "kind").unwrap_or_default();
        let mut what = beginning(opened);
        match closed {
            Some(closed) => what.push_str(&format!(" → {}", ending(closed))),
            None if opened["open"] == true => what.push_str(" → under way"),
            None => {}
        }
        row(opened, kind, &what)
    }
}

/// Whether a line belongs to the run.
#[must_use]
pub fn is_of_run(line: &[u8], run: &str) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(line) else { return false };
    text(&value, "run") == Some(run)
}

fn row(value: &Value, kind: &str, what: &str) -> String {
    let time = text(value, "time").and_then(|time| time.get(11..23)).unwrap_or("-");
    let box_id = text(value, "box").unwrap_or("-");
    let run = text(value, "run").map_or("-", |run| run.rsplit('-').next().unwrap_or(run));
    plain(format!("{time}  {box_id:<8} {run:<8}  {kind:<9} {what}").trim_end())
}

fn beginning(value: &Value) -> String {
    let mut words = Vec::new();
    words.extend(text(value, "asked").map(str::to_owned));
    words.extend(text(value, "method").map(str::to_owned));
    let place = [text(value, "target"), text(value, "path")].into_iter().flatten().collect::<String>();
    words.push(place);
    words.extend(text(value, "verdict").filter(|verdict| *verdict != "allow").map(str::to_owned));
    words.extend(text(value, "alarm").map(str::to_owned));
    words.extend(text(value, "reason").map(str::to_owned));
    words.extend(text(value, "grant").map(|grant| format!("by grant {grant}")));
    words.extend(text(&value["observed"], "reason").map(|reason| format!("(would be refused: {reason})")));
    words.extend(value["count"].as_u64().map(|count| format!("{count} times more")));
    words.extend(text(value, "inside").map(|inside| format!("({inside})")));
    words.extend(facts(&value["facts"]));
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

fn ending(value: &Value) -> String {
    let mut words = vec![text(value, "ended").unwrap_or("-").to_owned()];
    words.extend(value["status"].as_u64().map(|status| status.to_string()));
    words.extend(text(value, "reason").map(str::to_owned));
    words.extend(text(value, "inside").map(|inside| format!("({inside})")));
    let injected: Vec<_> = value["injected"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !injected.is_empty() {
        words.push(format!("credential set in {}", injected.join(", ")));
    }
    if let (Some(up), Some(down)) = (value["bytes_up"].as_u64(), value["bytes_down"].as_u64()) {
        words.push(format!("{} up, {} down", size(up), size(down)));
    }
    words.extend(value["lasted_us"].as_u64().map(lasted));
    words.join(" ")
}

/// The facts that fit a line: those of one value, and the first level of objects.
fn facts(facts: &Value) -> Option<String> {
    let mut told = String::new();
    for (key, value) in facts.as_object()? {
        match value {
            Value::Object(inner) => inner.iter().for_each(|(key, value)| fact(&mut told, key, value)),
            _ => fact(&mut told, key, value),
        }
    }
    Some(told.trim_end().to_owned())
}

fn fact(told: &mut String, key: &str, value: &Value) {
    // Writing to a String cannot fail.
    let _ = match value {
        Value::String(text) => write!(told, "{key}={text} "),
        Value::Number(_) | Value::Bool(_) => write!(told, "{key}={value} "),
        Value::Null | Value::Array(_) | Value::Object(_) => Ok(()),
    };
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

fn lasted(micros: u64) -> String {
    match micros {
        0..10_000 => format!("in {}.{} ms", micros / 1000, micros % 1000 / 100),
        10_000..1_000_000 => format!("in {} ms", micros / 1000),
        _ => format!("in {}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

/// Without control characters and without those that turn the direction of text.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_command(c) { '\u{fffd}' } else { c }).collect()
}

const CHAPTERS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::{Story, is_of_run, short};

    const OPENED: &str = r#"{"seq":7,"prev":"","time":"2026-01-31T23:59:58.123456Z","kind":"request","open":true,"box":"one","run":"20260131T235959-0a1b2c3d","target":"api.anthropic.com:443","method":"POST","path":"/v1/messages","verdict":"allow","grant":"model"}"#;
    const CLOSED: &str = r#"{"seq":8,"prev":"","time":"2026-01-31T23:59:59.000000Z","kind":"closed","of":7,"box":"one","run":"20260131T235959-0a1b2c3d","ended":"complete","status":200,"bytes_up":2150,"bytes_down":512,"injected":["authorization"],"lasted_us":1912345}"#;
    const CLAIM: &str = r#"{"seq":2,"prev":"","time":"2026-01-31T23:59:57.000000Z","kind":"claim","box":"one","facts":{"agent":"claude","ceiling_seconds":null}}"#;

    #[test]
    fn an_exchange_is_one_line_of_the_story() {
        let mut story = Story::default();
        for line in [CLAIM, OPENED, CLOSED, "no line", OPENED.replace(":7,", ":9,").as_str()] {
            story.add(line.as_bytes());
        }
        let told = story.tell();
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "23:59:57.000  one      -         claim     agent=claude",
                "23:59:58.123  one      0a1b2c3d  request   POST api.anthropic.com:443/v1/messages by grant model → complete 200 credential set in authorization 2.0 KiB up, 512 B down in 1.9 s",
                "23:59:58.123  one      0a1b2c3d  request   POST api.anthropic.com:443/v1/messages by grant model → under way",
            ]
        );
    }

    #[test]
    fn a_box_cannot_write_to_the_terminal() {
        let line = r#"{"kind":"refused","path":"/\u001b[2J\r\n\u202eevil","inside":"\u0007"}"#;
        let told = short(line.as_bytes()).expect("a line");
        assert!(told.chars().all(|c| !c.is_control() && c != '\u{202e}') && told.contains("evil"), "{told:?}");
        assert_eq!(short(b"torn {"), None);
    }

    #[test]
    fn a_line_belongs_to_the_run_it_names_and_not_to_one_it_mentions() {
        assert!(is_of_run(OPENED.as_bytes(), "20260131T235959-0a1b2c3d"));
        let mentioned = OPENED.replace(r#""run":"20260131T235959-0a1b2c3d""#, r#""path":"/20260131T235959-0a1b2c3d""#);
        assert!(!is_of_run(mentioned.as_bytes(), "20260131T235959-0a1b2c3d"));
    }
}
