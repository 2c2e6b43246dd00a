//! Needles: secrets in a text, seen by their marks; and what has the form of a provider's credential.
//!
//! Hashing every piece of every text would take seconds. A secret stands between other things: a quote, a blank, `=`, `:`. So
//! pieces of the marked lengths are hashed that begin and end where letters and digits do.

use box_spec::Marks;
use box_spec::marks::{DIGITS, is_of_a_secret};
use box_spec::wire::SENTINEL_MARK;
use sha2::{Digest, Sha256};

/// The marks of a house, ready to be compared with.
pub(super) struct Needles {
    /// Has taken in the salt.
    salted: Sha256,
    /// Digests by the length of their secrets, which ascends.
    lengths: Vec<(usize, Vec<u64>)>,
}

/// What was hashed so far, in bytes. A text made for it would keep boxd busy for hours.
#[derive(Debug, Default)]
pub(super) struct Work(usize);

impl Needles {
    /// `None` where a mark is none, or where a salt hides nothing.
    pub(super) fn of(marks: &Marks) -> Option<Self> {
        let Marks { salt, secrets } = marks;
        if !secrets.is_empty() && salt.len() < SHORTEST_SALT {
            return None;
        }
        let mut lengths: Vec<(usize, Vec<u64>)> = Vec::new();
        let mut secrets = secrets.clone();
        secrets.sort_unstable();
        for mark in secrets {
            let length = usize::try_from(mark.length).ok().filter(|length| *length > 0)?;
            let digest = u64::from_str_radix(&mark.digest, 16).ok().filter(|_| mark.digest.len() == DIGITS)?;
            match lengths.last_mut() {
                Some((last, digests)) if *last == length => digests.push(digest),
                _ => lengths.push((length, vec![digest])),
            }
        }
        Some(Self { salted: Sha256::new().chain_update(salt), lengths })
    }

    /// Whether one of the secrets stands in the text; `None` where it takes too much to tell.
    pub(super) fn are_in(&self, text: &[u8], work: &mut Work) -> Option<bool> {
        let Some((shortest, _)) = self.lengths.first() else { return Some(false) };
        for run in runs(text).filter(|run| run.bytes.len() >= *shortest) {
            for start in run.beginnings() {
                for (length, digests) in &self.lengths {
                    let Some(piece) = run.piece(start, *length) else { continue };
                    work.0 = work.0.checked_add(piece.len()).filter(|hashed| *hashed <= MOST_WORK)?;
                    if digests.contains(&self.digest(piece)) {
                        return Some(true);
                    }
                }
            }
        }
        Some(false)
    }

    fn digest(&self, piece: &[u8]) -> u64 {
        let digest = self.salted.clone().chain_update(piece).finalize();
        digest.iter().take(DIGITS / 2).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// Whether something in the text has the form of a provider's credential and is no sentinel.
pub(super) fn looks_real(text: &[u8]) -> bool {
    runs(text).any(|run| {
        run.beginnings().any(|start| {
            let rest = &run.bytes[start..];
            let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)).count();
            let token = &rest[..length];
            let is_sentinel = token.windows(SENTINEL_MARK.len()).any(|window| window == SENTINEL_MARK.as_bytes());
            length >= SHORTEST_REAL && !is_sentinel && SHAPES.iter().any(|shape| token.starts_with(shape.as_bytes()))
        })
    })
}

/// Bytes that could all stand in one secret, with others before and behind them.
struct Run<'a> {
    bytes: &'a [u8],
    /// The first letter belongs to a backslash.
    escaped: bool,
}

impl<'a> Run<'a> {
    /// Where a secret can begin: at no place within a word, but behind `\n` and `%3D`.
    fn beginnings(&self) -> impl Iterator<Item = usize> {
        let begins = |at: &usize| {
            self.parts(*at) || self.escaped && *at == 1 || at.checked_sub(3).is_some_and(|at| self.bytes[at] == b'%')
        };
        (0..self.bytes.len()).filter(begins)
    }

    fn piece(&self, start: usize, length: usize) -> Option<&'a [u8]> {
        let end = start.checked_add(length).filter(|end| *end <= self.bytes.len() && self.parts(*end))?;
        Some(&self.bytes[start..end])
    }

    /// Whether no word goes on across this place.
    fn parts(&self, at: usize) -> bool {
        let is_word = |at: usize| self.bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
        at == 0 || !(is_word(at - 1) && is_word(at))
    }
}

fn runs(text: &[u8]) -> impl Iterator<Item = Run<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let length = rest.iter().position(|byte| !is_of_a_secret(*byte)).unwrap_or(rest.len());
        let escaped = at.checked_sub(1).is_some_and(|before| text[before] == b'\\');
        at += length + 1;
        Some(Run { bytes: &rest[..length], escaped })
    })
}

const SHORTEST_SALT: usize = 32;
/// Some tens of milliseconds; an ordinary home takes a few kilobytes of it.
const MOST_WORK: usize = 4 * 1024 * 1024;
/// How providers begin what opens something.
const SHAPES: [&str; 6] = ["sk-ant-oat", "sk-ant-ort", "sk-ant-api", "sk-ant-admin", "sk-proj-", "sk-svcacct-"];
/// An example in a text is shorter.
const SHORTEST_REAL: usize = 30;

#[cfg(test)]
mod tests {
    use box_spec::{Mark, Marks};
    use sha2::{Digest, Sha256};

    use super::{MOST_WORK, Needles, Work, looks_real};

    const SALT: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const KEY: &str = "sk-ant-api03-a-key-of-36-characters";

    fn mark(secret: &str) -> Mark {
        let digest = Sha256::digest(format!("{SALT}{secret}"));
        let digest = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Mark { length: u32::try_from(secret.len()).expect("short"), digest }
    }

    fn needles(secrets: &[&str]) -> Needles {
        let marks = Marks { salt: SALT.to_owned(), secrets: secrets.iter().map(|secret| mark(secret)).collect() };
        Needles::of(&marks).expect("marks")
    }

    fn holds(needles: &Needles, text: &str) -> bool {
        needles.are_in(text.as_bytes(), &mut Work::default()).expect("little work")
    }

    #[test]
    fn a_secret_is_seen_wherever_texts_keep_one() {
        let needles = needles(&[KEY, "eyJh.eyJi.c2lnbmF0dXJl-_x", "-odd:at/both@ends!%20-"]);
        for text in [
            KEY.to_owned(),
            format!("Bearer {KEY}"),
            format!("KEY={KEY}\n"),
            format!("export KEY='{KEY}'; ls"),
            format!("{{\"access\":\"{KEY}\",\"x\":1}}"),
            format!("{{\"said\":\"first\\n{KEY}\\nlast\"}}"),
            format!("https://user:{KEY}@host/path"),
            format!("https://host/path?key={KEY}&x=1"),
            format!("https://host/path?to=https%3A%2F%2Fkey%3D{KEY}%26x"),
            format!("\0KEY={KEY}\0"),
            "token: eyJh.eyJi.c2lnbmF0dXJl-_x".to_owned(),
            "a-odd:at/both@ends!%20-b".to_owned(),
        ] {
            assert!(holds(&needles, &text), "{text}");
        }
        let (other, glued) = (KEY.replace('6', "7"), format!("{KEY}{KEY}"));
        for text in ["", &glued, "sk-ant-api03-", &KEY[..34], &other, "eyJh.eyJi.c2lnbmF0dXJl", &KEY.to_uppercase()] {
            assert!(!holds(&needles, text), "{text}");
        }
        assert!(!holds(&super::tests::needles(&[]), KEY), "a house without secrets");
    }

    #[test]
    fn marks_that_are_none_are_told_from_a_search_that_finds_nothing() {
        let good = mark(KEY);
        for (salt, marks) in [
            ("short", vec![good.clone()]),
            (SALT, vec![Mark { digest: "0123".into(), ..good.clone() }]),
            (SALT, vec![Mark { digest: "x123456789abcdef".into(), ..good.clone() }]),
            (SALT, vec![Mark { length: 0, ..good }]),
        ] {
            assert!(Needles::of(&Marks { salt: salt.into(), secrets: marks }).is_none(), "{salt}");
        }
        assert!(Needles::of(&Marks::default()).is_some());
    }

    #[test]
    fn a_text_made_to_cost_hours_ends_the_search() {
        let needles = needles(&[&"a".repeat(4000), KEY]);
        let text = "a-".repeat(100_000);
        let mut work = Work::default();
        assert_eq!(needles.are_in(text.as_bytes(), &mut work), None);
        assert!(work.0 <= MOST_WORK);
    }

    #[test]
    fn what_providers_hand_out_is_told_from_sentinels_and_examples() {
        let real = format!("sk-ant-oat01-{}", "x".repeat(30));
        for text in [real.clone(), format!("{{\"key\":\"{real}\"}}"), format!("KEY=sk-proj-{}", "y".repeat(30))] {
            assert!(looks_real(text.as_bytes()), "{text}");
        }
        for text in
            ["sk-ant-oat01-boxgate-sentinel-00112233445566778899", "sk-ant-api03-…", "task-ant-oat", "sk-proj-x"]
        {
            assert!(!looks_real(text.as_bytes()), "{text}");
        }
    }
}
