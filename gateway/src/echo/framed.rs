//! Framed: the search through the frames of a WebSocket's server (RFC 6455 §5.2), which are not masked. A needle may be cut by
//! the frames of one message, by control frames between them, and by messages that follow each other at once.

use bytes::{Bytes, BytesMut};

use super::Needles;
use crate::websocket::frames::Frames;

/// A search through one direction of a session. What could be the beginning of a needle is held with all that came after it.
#[derive(Debug, Default)]
pub struct FramedScan {
    frames: Frames,
    /// What is held, heads and payloads.
    raw: BytesMut,
    data: Payload,
    control: Payload,
    found: u64,
}

/// More was to be held than may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("more than {MOST_BETWEEN} bytes of control frames came within a message")]
pub struct Endless;

/// The payload within what is held, and where it lies there.
#[derive(Debug, Default)]
struct Payload {
    text: BytesMut,
    /// Where each piece of the text begins in what is held, and how long it is.
    runs: Vec<(usize, usize)>,
}

impl FramedScan {
    /// The bytes that may go on now.
    ///
    /// # Errors
    /// Nothing but control frames comes within a message that has begun like a needle: there is a limit to what is held.
    pub fn pass(&mut self, needles: &Needles, piece: &[u8]) -> Result<Bytes, Endless> {
        let before = self.raw.len();
        self.raw.extend_from_slice(piece);
        let (data, control) = (&mut self.data, &mut self.control);
        self.frames.payloads(piece, |range, is_control| {
            let payload = if is_control { &mut *control } else { &mut *data };
            payload.text.extend_from_slice(&piece[range.clone()]);
            payload.runs.push((before + range.start, range.len()));
        });
        let mut free = self.raw.len();
        for payload in [&mut self.data, &mut self.control] {
            self.found += payload.blot(needles, &mut self.raw);
        }
        free = free.min(self.data.begun(needles).unwrap_or(free));
        // A control frame is whole by itself (§5.5): behind its end nothing of it is waited for.
        if self.frames.is_in_control() {
            free = free.min(self.control.begun(needles).unwrap_or(free));
        } else {
            self.control = Payload::default();
        }
        self.data.forget(free);
        self.control.forget(free);
        let gone = self.raw.split_to(free).freeze();
        if self.raw.len() - self.data.text.len() > MOST_BETWEEN { Err(Endless) } else { Ok(gone) }
    }

    /// Whether what is held are whole messages. The next one may be an answer to what the box has not got yet, so they are not
    /// held for long.
    #[must_use]
    pub fn holds_messages(&self) -> bool {
        !self.raw.is_empty() && self.frames.at_rest()
    }

    /// What was held when the session ended, or for long enough.
    #[must_use]
    pub fn rest(&mut self) -> Bytes {
        (self.data, self.control) = (Payload::default(), Payload::default());
        self.raw.split().freeze()
    }

    /// How many were blotted out.
    #[must_use]
    pub const fn found(&self) -> u64 {
        self.found
    }
}

impl Payload {
    /// Blots out what is found, in what is held too.
    fn blot(&mut self, needles: &Needles, raw: &mut [u8]) -> u64 {
        if !needles.are_in(&self.text) {
            return 0;
        }
        let found = needles.blot(&mut self.text);
        let mut at = 0;
        for (begins, length) in &self.runs {
            raw[*begins..begins + length].copy_from_slice(&self.text[at..at + length]);
            at += length;
        }
        found
    }

    /// Where in what is held a needle may have begun.
    fn begun(&self, needles: &Needles) -> Option<usize> {
        let held = needles.begun(&self.text);
        let mut at = self.text.len() - held;
        if held == 0 {
            return None;
        }
        for (begins, length) in &self.runs {
            if at < *length {
                return Some(begins + at);
            }
            at -= length;
        }
        None
    }

    /// The first bytes of what is held went on.
    fn forget(&mut self, gone: usize) {
        let mut gone_text = 0;
        self.runs.retain_mut(|(begins, length)| {
            let over = gone.saturating_sub(*begins).min(*length);
            gone_text += over;
            *begins = (*begins + over).saturating_sub(gone);
            *length -= over;
            *length > 0
        });
        let _ = self.text.split_to(gone_text);
    }
}

/// Of control frames, and of heads, that are held behind the beginning of a needle.
const MOST_BETWEEN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::super::Needles;
    use super::{Endless, FramedScan, MOST_BETWEEN};

    const SECRET: &str = "sk-the-real-secret-0123456789";

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first, u8::try_from(payload.len()).expect("short")];
        frame.extend_from_slice(payload);
        frame
    }

    fn passed(bytes: &[u8], size: usize) -> (Vec<u8>, u64) {
        let needles = Needles::of(SECRET).expect("needles");
        let mut scan = FramedScan::default();
        let mut out = Vec::new();
        for piece in bytes.chunks(size) {
            out.extend_from_slice(&scan.pass(&needles, piece).expect("passed"));
        }
        out.extend_from_slice(&scan.rest());
        (out, scan.found())
    }

    #[test]
    fn a_secret_is_found_whatever_frames_cut_it() {
        let (begin, end) = SECRET.as_bytes().split_at(7);
        let blot = "*".repeat(SECRET.len());
        let (blot_begin, blot_end) = blot.as_bytes().split_at(7);
        for (sent, want) in [
            (frame(0x81, SECRET.as_bytes()), frame(0x81, blot.as_bytes())),
            (frame(0x88, SECRET.as_bytes()), frame(0x88, blot.as_bytes())),
            (
                [frame(0x01, begin), frame(0x89, b"sk-the"), frame(0x80, end)].concat(),
                [frame(0x01, blot_begin), frame(0x89, b"sk-the"), frame(0x80, blot_end)].concat(),
            ),
            (
                [frame(0x81, begin), frame(0x81, end), frame(0x81, b"more")].concat(),
                [frame(0x81, blot_begin), frame(0x81, blot_end), frame(0x81, b"more")].concat(),
            ),
        ] {
            for size in [1, 2, 5, 16, sent.len()] {
                assert_eq!(passed(&sent, size), (want.clone(), 1), "pieces of {size}");
            }
        }
    }

    #[test]
    fn all_else_goes_on_at_once() {
        let needles = Needles::of(SECRET).expect("needles");
        let mut scan = FramedScan::default();
        let mut pass = |bytes: &[u8]| scan.pass(&needles, bytes).expect("passed");
        let whole = [frame(0x81, b"nothing of it"), frame(0x89, b"ping")].concat();
        assert_eq!(&pass(&whole)[..], &whole[..]);
        let begun = frame(0x81, b"it ends with sk-t");
        assert_eq!(pass(&begun).len(), begun.len() - 4);
        let more = frame(0x81, b"!");
        assert_eq!(&pass(&more)[..], &[b"sk-t", &more[..]].concat()[..]);
        assert_eq!(scan.found(), 0);
    }

    #[test]
    fn a_control_frame_that_ends_like_a_secret_begins_holds_nothing_back() {
        let needles = Needles::of(SECRET).expect("needles");
        for opcode in [0x88, 0x89, 0x8a] {
            let mut scan = FramedScan::default();
            let control = frame(opcode, b"sk-the-real-s");
            let (head, last) = control.split_at(control.len() - 1);
            let passed = |scan: &mut FramedScan, bytes: &[u8]| scan.pass(&needles, bytes).expect("passed").to_vec();
            let mut came = passed(&mut scan, head);
            assert_eq!(came, control[..2], "its payload may go on to be one");
            came.extend(passed(&mut scan, last));
            assert_eq!(came, control);
            let text = frame(0x81, b"the answer");
            assert_eq!(passed(&mut scan, &text), text);
        }
    }

    #[test]
    fn whole_messages_are_told_from_one_that_goes_on() {
        let needles = Needles::of(SECRET).expect("needles");
        for (bytes, holds) in [
            (frame(0x81, b"yes"), true),
            ([frame(0x81, b"yes"), frame(0x89, b"ping")].concat(), true),
            (frame(0x81, b"fine"), false),
            (frame(0x01, b"yes"), false),
            (frame(0x81, b"yes")[..4].to_vec(), false),
            ([&frame(0x81, b"yes")[..], &[0x89]].concat(), false),
        ] {
            let mut scan = FramedScan::default();
            scan.pass(&needles, &bytes).expect("passed");
            assert_eq!(scan.holds_messages(), holds, "{bytes:?}");
        }
    }

    #[test]
    fn no_flood_of_control_frames_is_held() {
        let needles = Needles::of(SECRET).expect("needles");
        let mut scan = FramedScan::default();
        scan.pass(&needles, &frame(0x01, b"yes")).expect("passed");
        let mut sent = 0;
        let fault = loop {
            let ping = frame(0x89, &[b'x'; 125]);
            sent += ping.len();
            match scan.pass(&needles, &ping) {
                Ok(passed) => assert!(passed.is_empty() && sent <= MOST_BETWEEN, "{sent}"),
                Err(fault) => break fault,
            }
        };
        assert_eq!(fault, Endless);
    }
}
