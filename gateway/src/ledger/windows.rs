//! Windows: the first refusal of a likeness is a line at once, those that follow within ten seconds are counted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use box_spec::{BoxId, RunId};

use crate::host::Target;
use crate::refusal::Reason;

use super::entry::{Entry, Repeats};

/// Noise of one box, folded. Its size depends on the number of boxes alone, not on what they do.
#[derive(Debug, Default)]
pub(super) struct Windows(HashMap<Option<BoxId>, HashMap<Likeness, Window>>);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Likeness {
    One {
        run_id: Option<RunId>,
        reason: Option<Reason>,
        alarm: Option<&'static str>,
        target: Option<Target>,
        /// Method and path.
        asked: Option<(String, String)>,
    },
    /// Everything that found no window of its own.
    Other,
}

#[derive(Debug)]
struct Window {
    ends: Instant,
    sample: Entry,
    /// Those not written; none as long as only the first has come.
    repeats: Option<Repeats>,
}

impl Windows {
    /// Gives the entry back if it is to be written now; otherwise it has been counted.
    pub(super) fn meet(&mut self, entry: Entry, now: Instant) -> Option<Entry> {
        let windows = self.0.entry(entry.caller().box_id.clone()).or_default();
        let (reason, alarm) = entry.likeness();
        let (run_id, target) = (entry.caller().run_id.clone(), entry.target_asked().cloned());
        let asked = entry.method_and_path();
        let likeness = Likeness::One { run_id, reason, alarm, target, asked };
        if let Some(window) = windows.get_mut(&likeness) {
            window.count(&entry);
            return None;
        }
        let ends = now + WINDOW;
        if windows.len() < PER_BOX {
            windows.insert(likeness, Window { ends, sample: entry.clone(), repeats: None });
            return Some(entry);
        }
        // Noise must not hide an alarm: where the windows are full each kind of alarm still has one, whatever its target.
        if alarm.is_some() {
            let likeness = Likeness::One { run_id: None, reason, alarm, target: None, asked: None };
            if let Some(window) = windows.get_mut(&likeness) {
                window.count(&entry);
                return None;
            }
            windows.insert(likeness, Window { ends, sample: entry.clone(), repeats: None });
            return Some(entry);
        }
        let sample = entry.clone().without_details();
        windows.entry(Likeness::Other).or_insert(Window { ends, sample, repeats: None }).count(&entry);
        None
    }

    /// The `repeated` lines of windows that have ended.
    pub(super) fn ended(&mut self, now: Instant) -> Vec<Entry> {
        let mut told = Vec::new();
        for windows in self.0.values_mut() {
            let over = windows.extract_if(|_, window| window.ends <= now);
            told.extend(over.filter_map(|(_, window)| window.tell()));
        }
        self.0.retain(|_, windows| !windows.is_empty());
        told
    }

    /// Those of all windows, ended or not.
    pub(super) fn close(&mut self) -> Vec<Entry> {
        self.0.drain().flat_map(|(_, windows)| windows.into_values()).filter_map(Window::tell).collect()
    }

    pub(super) fn next_end(&self) -> Option<Instant> {
        self.0.values().flat_map(HashMap::values).map(|window| window.ends).min()
    }
}

impl Window {
    fn count(&mut self, entry: &Entry) {
        let time = entry.time();
        let repeats = self.repeats.get_or_insert(Repeats { count: 0, first: time, last: time });
        repeats.count += 1;
        repeats.last = time;
    }

    fn tell(self) -> Option<Entry> {
        self.repeats.map(|repeats| self.sample.into_repeated(repeats))
    }
}

const WINDOW: Duration = Duration::from_secs(10);
const PER_BOX: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use box_spec::BoxId;

    use crate::host::Target;
    use crate::ledger::{Entry, Kind};
    use crate::refusal::Reason;

    use super::{PER_BOX, WINDOW, Windows};

    fn refused(box_id: &str, reason: Reason) -> Entry {
        let id: BoxId = box_id.parse().expect("a box id");
        Entry::new(Kind::Refused).box_id(&id).reason(reason)
    }

    fn text(entry: &Entry) -> serde_json::Value {
        let body = entry.body();
        serde_json::from_str(&format!("{{{}", String::from_utf8_lossy(body.bytes()))).expect("valid JSON")
    }

    #[test]
    fn the_first_is_a_line_and_its_like_are_counted() {
        let (mut windows, start) = (Windows::default(), Instant::now());
        assert!(windows.meet(refused("one", Reason::NoGrant), start).is_some());
        for _ in 0..10_000 {
            assert!(windows.meet(refused("one", Reason::NoGrant), start).is_none());
        }
        assert!(windows.meet(refused("two", Reason::NoGrant), start).is_some(), "another box has windows of its own");
        assert!(windows.meet(refused("one", Reason::NotTls), start).is_some(), "another reason is another line");
        assert!(windows.ended(start + WINDOW / 2).is_empty());
        let told = windows.ended(start + WINDOW);
        assert_eq!(told.len(), 1);
        let line = text(&told[0]);
        assert_eq!((line["kind"].as_str(), line["count"].as_u64()), (Some("repeated"), Some(10_000)));
        assert_eq!((line["reason"].as_str(), line["box"].as_str()), (Some("no-grant"), Some("one")));
        assert!(windows.next_end().is_none());
    }

    #[test]
    fn another_path_or_method_is_another_line_and_its_repeats_say_which() {
        let (mut windows, start) = (Windows::default(), Instant::now());
        let asked = |method: &http::Method, path| {
            refused("one", Reason::NoGrant).method(method).path_and_query(path).fact("n", 1)
        };
        let (get, post) = (http::Method::GET, http::Method::POST);
        for (method, path, is_line) in [
            (&get, "/a?x=1", true),
            (&get, "/a?x=2", false),
            (&get, "/b", true),
            (&post, "/a", true),
            (&get, "/a", false),
        ] {
            assert_eq!(windows.meet(asked(method, path), start).is_some(), is_line, "{method} {path}");
        }
        let told = windows.ended(start + WINDOW);
        let line = text(&told[0]);
        assert_eq!(told.len(), 1);
        assert_eq!((&line["method"], &line["path"], &line["count"]), (&"GET".into(), &"/a".into(), &2.into()));
        assert_eq!((line.get("query"), line.get("facts")), (None, None), "of one request alone: {line}");
    }

    #[test]
    fn a_box_that_refuses_itself_in_a_thousand_ways_gets_no_more_than_its_windows() {
        let (mut windows, start) = (Windows::default(), Instant::now());
        let mut lines = 0;
        for at in 0..1000_u16 {
            let target = format!("h{at}.example:443");
            let entry = refused("one", Reason::NoGrant).fact("n", at);
            let run = format!("20260131T235959-{at:08x}").parse().expect("a run id");
            lines += usize::from(windows.meet(entry.run_id(&run).inside(&target), start).is_some());
        }
        assert_eq!(lines, PER_BOX);
        let told = windows.ended(start + WINDOW + Duration::from_millis(1));
        assert_eq!(told.len(), 1);
        assert_eq!(text(&told[0])["count"], 1000 - PER_BOX as u64);
    }

    #[test]
    fn noise_hides_no_alarm() {
        let (mut windows, start) = (Windows::default(), Instant::now());
        let target = |at: u16| Target::from_authority(&format!("h{at}.example:443"), None).expect("a target");
        for at in 0..1000 {
            windows.meet(refused("one", Reason::NoGrant).target(&target(at)), start);
        }
        let alarms = |code: &'static str| {
            let alarm = |at| refused("one", Reason::SentinelAstray).target(&target(at)).into_alarm(code);
            (0..1000).filter_map(|at| windows.meet(alarm(at), start)).collect::<Vec<_>>()
        };
        let lines: Vec<_> = ["sentinel-astray", "claim-refused"].into_iter().flat_map(alarms).collect();
        assert_eq!(lines.iter().map(|line| text(line)["kind"].clone()).collect::<Vec<_>>(), ["alarm", "alarm"]);
        assert_eq!(text(&lines[0])["target"], "h0.example:443");
    }
}
