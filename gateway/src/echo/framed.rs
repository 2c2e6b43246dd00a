//! Framed: the search through the frames of a WebSocket's server (RFC 6455 §5.2), which are not masked. A needle may be cut by
//! the frames of one message, and by control frames between them.

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

/// The payload within what is held, and where it lies there.
#[derive(Debug, Default)]
struct Payload {
    text: BytesMut,
    /// Where each piece of the text begins in what is held, and how long it is.
    runs: Vec<(usize, usize)>,
}

impl FramedScan {
    /// The bytes that may go on now.
    pub fn pass(&mut self, needles: &Needles, piece: &[u8]) -> Bytes {
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
            free = free.min(payload.begun(needles).unwrap_or(free));
        }
        self.data.forget(free);
        self.control.forget(free);
        self.raw.split_to(free).freeze()
    }

    /// What was held when the session ended.
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

#[cfg(test)]
mod tests {
    use super::super::Needles;
    use super::FramedScan;

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
            out.extend_from_slice(&scan.pass(&needles, piece));
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
        let whole = [frame(0x81, b"nothing of it"), frame(0x89, b"ping")].concat();
        assert_eq!(&scan.pass(&needles, &whole)[..], &whole[..]);
        let begun = frame(0x81, b"it ends with sk-t");
        assert_eq!(scan.pass(&needles, &begun).len(), begun.len() - 4);
        let more = frame(0x81, b"!");
        assert_eq!(&scan.pass(&needles, &more)[..], &[b"sk-t", &more[..]].concat()[..]);
        assert_eq!(scan.found(), 0);
    }
}
