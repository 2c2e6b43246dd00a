//! The stream: a ledger read once from its beginning, each request given away as soon as its end is known.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use box_spec::{BoxId, RunId};
use jiff::Timestamp;

use crate::ledger::lines;

use super::line::{self, Line, Noise};
use super::{Asked, Recorded};

/// Which requests are wanted.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Asked at this time or later.
    pub since: Option<Timestamp>,
    pub box_id: Option<BoxId>,
    pub run: Option<RunId>,
}

/// What was met that is no request with its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// Torn lines, and those that are none.
    pub unreadable: u64,
    /// Requests whose end no line tells.
    pub unclosed: u64,
    /// Refused for how they came, with nothing asked.
    pub nothing_asked: u64,
    /// Refusals of which the ledger kept only the number.
    pub counted: u64,
}

/// Reads a ledger, and gives each request that is wanted away.
///
/// # Errors
/// When the reader fails; what it yields is never an error.
pub fn read(reader: impl BufRead, wanted: &Wanted, mut give: impl FnMut(Recorded)) -> io::Result<Left> {
    let mut left = Left::default();
    let mut open: BTreeMap<u64, Box<Asked>> = BTreeMap::new();
    let since = wanted.since.map(|since| format!("{since:.6}"));
    let is_old = |line: &[u8]| since.as_ref().is_some_and(|since| is_before(line, since.as_bytes()));
    lines::each(reader, |line| {
        match line.and_then(|line| if is_old(line) { Some(Line::Other) } else { line::read(line) }) {
            None => left.unreadable += 1,
            Some(Line::Opened(asked)) if wanted.is(&asked) => {
                if open.len() >= OPEN
                    && let Some((_, oldest)) = open.pop_first()
                {
                    left.unclosed += 1;
                    give(Recorded { asked: *oldest, closing: None });
                }
                open.insert(asked.sequence, asked);
            }
            Some(Line::Whole(asked)) if wanted.is(&asked) => give(Recorded { asked: *asked, closing: None }),
            Some(Line::Closed { of, closing }) => {
                if let Some(asked) = open.remove(&of) {
                    give(Recorded { asked: *asked, closing: Some(*closing) });
                }
            }
            Some(Line::NothingAsked(of)) if wanted.is_noise(&of) => left.nothing_asked += of.count,
            Some(Line::Counted(of)) if wanted.is_noise(&of) => left.counted += of.count,
            Some(Line::Opened(_) | Line::Whole(_) | Line::NothingAsked(_) | Line::Counted(_) | Line::Other) => {}
        }
    })?;
    for (_, asked) in open {
        left.unclosed += 1;
        give(Recorded { asked: *asked, closing: None });
    }
    Ok(left)
}

/// Whether a line says of itself that it is older, told by its beginning alone. Lines have one form of time, whose order is that of
/// its letters.
fn is_before(line: &[u8], since: &[u8]) -> bool {
    let begins = &line[..line.len().min(TIME_WITHIN)];
    let Some(at) = memchr::memmem::find(begins, TIME) else { return false };
    let time = line.get(at + TIME.len()..).and_then(|rest| rest.get(..since.len()));
    let is_like = |time: &[u8]| {
        time.iter().zip(since).all(|(one, other)| one == other || one.is_ascii_digit() && other.is_ascii_digit())
    };
    time.is_some_and(|time| is_like(time) && time < since)
}

const TIME: &[u8] = b"\"time\":\"";
/// Number, hash and time are the first words of a line.
const TIME_WITHIN: usize = 192;

impl Wanted {
    fn is(&self, asked: &Asked) -> bool {
        self.takes(asked.time, Some(&asked.box_id), asked.run.as_ref())
    }

    fn is_noise(&self, noise: &Noise) -> bool {
        self.takes(noise.time, noise.box_id.as_ref(), noise.run.as_ref())
    }

    fn takes(&self, time: Timestamp, box_id: Option<&BoxId>, run: Option<&RunId>) -> bool {
        let Self { since, box_id: one_box, run: one_run } = self;
        since.is_none_or(|since| time >= since)
            && one_box.as_ref().is_none_or(|one| Some(one) == box_id)
            && one_run.as_ref().is_none_or(|one| Some(one) == run)
    }
}

/// As many lines as a gateway keeps open at once.
const OPEN: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::{Left, Wanted, read};
    use crate::recorded::{Body, Headers, Query, Said, StandIn};

    const OPENED: &str = r#"{"seq":7,"prev":"","time":"2026-01-31T23:59:58.123456Z","kind":"request","open":true,"box":"one","run":"20260131T235959-0a1b2c3d","target":"api.anthropic.com:443","scheme":"https","method":"POST","path":"/v1/messages","query":[{"key":"beta","length":4,"sha256":"b5bea41b"}],"headers":{"shown":{"host":"api.anthropic.com"},"others":["authorization"]},"body_length":2150,"verdict":"allow","grant":"model"}"#;
    const CLOSED: &str = r#"{"seq":8,"prev":"","time":"2026-01-31T23:59:59.000000Z","kind":"closed","of":7,"box":"one","run":"20260131T235959-0a1b2c3d","ended":"complete","status":200,"bytes_up":2150,"bytes_down":512,"injected":["authorization"],"facts":{"provider_tools":["web_search"]},"lasted_us":1912345}"#;
    const REPEATED: &str = r#"{"seq":9,"prev":"","time":"2026-01-31T23:59:59.000000Z","kind":"repeated","box":"one","asked":"refused","target":"a.test:443","scheme":"https","method":"GET","path":"/a","verdict":"refuse","reason":"no-grant","count":4,"first":"2026-01-31T23:59:51.000000Z","last":"2026-01-31T23:59:58.000000Z"}"#;
    const NOISE: &str = r#"{"seq":10,"prev":"","time":"2026-01-31T23:59:59.000000Z","kind":"refused","box":"one","target":"a.test:443","verdict":"refuse","reason":"sni-mismatch"}"#;

    fn given(lines: &[&str], wanted: &Wanted) -> (Vec<super::Recorded>, Left) {
        let mut all = Vec::new();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let left = read(text.as_bytes(), wanted, |one| all.push(one)).expect("memory reads");
        (all, left)
    }

    #[test]
    fn an_opening_is_joined_with_its_closing_and_what_is_no_line_is_counted() {
        let old =
            OPENED.replace(":7,", ":11,").replace("\"path\":\"/v1/messages\"", "\"path\":\"/[masked 20 bytes 00]\"");
        let (all, left) = given(&["{\"seq\":1", OPENED, CLOSED, REPEATED, NOISE, &old, "{}"], &Wanted::default());
        assert_eq!(left, Left { unreadable: 2, unclosed: 1, nothing_asked: 1, counted: 0 });
        let [request, repeated, open] = &all[..] else { panic!("{all:?}") };
        let closing = request.closing.as_ref().expect("its closing");
        assert!(closing.is_complete && closing.facts.tools == ["web_search"], "{closing:?}");
        let asked = &request.asked;
        assert_eq!((asked.body, &asked.stand_in), (Body::Declared(2150), &StandIn::Unknown));
        assert_eq!(asked.query, Query::Keys(vec!["beta".to_owned()]));
        assert!(matches!(&asked.headers, Headers::Known(names) if names.len() == 2), "{asked:?}");
        assert_eq!((repeated.asked.count, &repeated.asked.query), (4, &Query::Unknown));
        assert!(matches!(&repeated.asked.said, Said::Refuse(why) if why.reason.code() == "no-grant"));
        assert_eq!((open.asked.path.as_deref(), open.closing.is_none()), (None, true));
    }

    #[test]
    fn only_what_is_wanted_is_given_away() {
        let since = |time: &str| Wanted { since: time.parse().ok(), ..Wanted::default() };
        let lines = [OPENED, CLOSED, REPEATED];
        for (wanted, count) in [
            (since("2026-01-31T23:59:58Z"), 1),
            (since("2026-02-01T00:00:00Z"), 0),
            (since("2026-01-31T23:59:58.123456Z"), 1),
            (since("2026-01-31T23:59:58.123457Z"), 0),
            (Wanted { box_id: "two".parse().ok(), ..Wanted::default() }, 0),
            (Wanted { run: "20260131T235959-0a1b2c3d".parse().ok(), ..Wanted::default() }, 1),
        ] {
            assert_eq!(given(&lines, &wanted).0.len(), count, "{wanted:?}");
        }
    }
}
