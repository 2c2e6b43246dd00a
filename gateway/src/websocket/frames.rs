//! Frames: follows the frames of one direction as they pass (RFC 6455 §5.2), only to know how a session ended.

use std::ops::Range;

use super::head::{self, CLOSE};

/// Where one direction of a session stands. Looks at heads alone: a payload is never read and nothing is held back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frames {
    /// The head of the frame that is coming, as far as it came.
    head: [u8; head::LONGEST],
    have: usize,
    /// Bytes of payload that are still to come.
    payload: u64,
    /// A message began and its last frame has not come.
    in_message: bool,
    closed: bool,
}

impl Frames {
    /// These bytes passed.
    pub fn pass(&mut self, bytes: &[u8]) {
        self.payloads(bytes, |_, _| {});
    }

    /// These bytes passed; tells where among them payload lies, and whether it is a control frame's (§5.5).
    pub fn payloads(&mut self, bytes: &[u8], mut tell: impl FnMut(Range<usize>, bool)) {
        let mut at = 0;
        while at < bytes.len() {
            if self.payload > 0 {
                let left = bytes.len() - at;
                let now = usize::try_from(self.payload).map_or(left, |payload| payload.min(left));
                tell(at..at + now, self.opcode() >= CLOSE);
                self.payload -= now as u64;
                at += now;
                continue;
            }
            self.head[self.have] = bytes[at];
            self.have += 1;
            at += 1;
            if self.have >= 2 && self.have == head::length(self.head[1]) {
                self.closed |= self.opcode() == CLOSE;
                // Control frames may stand between the frames of a message, and say nothing about it (§5.4).
                if self.opcode() < CLOSE {
                    self.in_message = self.head[0] & 0x80 == 0;
                }
                self.payload = head::payload(&self.head);
                self.have = 0;
            }
        }
    }

    /// A Close frame passed: this side said that it was done (§5.5.1).
    #[must_use]
    pub const fn closed(&self) -> bool {
        self.closed
    }

    /// Nothing was begun that did not end: no frame, and no message of several.
    #[must_use]
    pub const fn at_rest(&self) -> bool {
        self.have == 0 && self.payload == 0 && !self.in_message
    }

    /// A control frame has begun, and not all of its payload has come.
    #[must_use]
    pub const fn is_in_control(&self) -> bool {
        self.payload > 0 && self.opcode() >= CLOSE
    }

    const fn opcode(&self) -> u8 {
        self.head[0] & 0x0f
    }
}

#[cfg(test)]
mod tests {
    use super::Frames;

    /// A frame of this opcode with a payload of Close-like bytes, masked or not.
    fn frame(opcode: u8, length: usize, masked: bool) -> Vec<u8> {
        let mask_bit = u8::from(masked) << 7;
        let mut frame = vec![0x80 | opcode];
        match length {
            0..126 => frame.push(mask_bit | u8::try_from(length).expect("short")),
            126..65_536 => {
                frame.push(mask_bit | 126);
                frame.extend(u16::try_from(length).expect("medium").to_be_bytes());
            }
            _ => {
                frame.push(mask_bit | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend(std::iter::repeat_n(0x88, if masked { 4 } else { 0 } + length));
        frame
    }

    #[test]
    fn a_close_is_seen_wherever_the_pieces_are_cut_and_nothing_else_is_taken_for_one() {
        for masked in [false, true] {
            let open: Vec<u8> = [(1, 0), (2, 5), (9, 125), (0, 126), (1, 65_535), (2, 65_536), (10, 1)]
                .iter()
                .flat_map(|(opcode, length)| frame(*opcode, *length, masked))
                .collect();
            let whole = [open.clone(), frame(8, 2, masked)].concat();
            for size in [1, 2, 3, 7, 4096, whole.len()] {
                let mut frames = Frames::default();
                open.chunks(size).for_each(|piece| frames.pass(piece));
                assert!(!frames.closed(), "pieces of {size}");
                frames.pass(&whole[open.len()..]);
                assert!(frames.closed(), "pieces of {size}");
            }
        }
    }

    #[test]
    fn between_messages_it_is_at_rest_and_nowhere_else() {
        let mut frames = Frames::default();
        assert!(frames.at_rest());
        let ping = frame(9, 3, false);
        let (mut first, mut last) = (frame(1, 200, true), frame(0, 2, true));
        first[0] &= 0x7f;
        for byte in first.iter().chain(&ping).chain(&last[..last.len() - 1]) {
            frames.pass(&[*byte]);
            assert!(!frames.at_rest());
        }
        frames.pass(&[last.pop().expect("a byte")]);
        assert!(frames.at_rest());
        frames.pass(&ping);
        assert!(frames.at_rest());
        frames.pass(&ping[..1]);
        assert!(!frames.at_rest());
    }

    #[test]
    fn a_length_that_nothing_can_have_ends_nothing() {
        let mut frames = Frames::default();
        frames.pass(&[0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        frames.pass(&[0x88; 4096]);
        assert!(!frames.closed());
    }
}
