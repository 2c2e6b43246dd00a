//! Messages: what a client says in a WebSocket (RFC 6455 §5), frame by frame and unmasked, so that it can be judged as it passes.

use super::head::{self, CLOSE};

/// The frames of a client under way.
#[derive(Debug, Default)]
pub struct Messages {
    head: [u8; head::LONGEST],
    have: usize,
    /// Bytes of payload that are still to come, and of those that came the number modulo four.
    payload: u64,
    turn: usize,
    /// A message has begun, and its last frame has not come.
    in_message: bool,
    plain: Vec<u8>,
}

/// Something that a client said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said<'a> {
    Part(&'a [u8]),
    /// The message is whole.
    End,
}

/// What no client may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    #[error("a frame has a bit or a kind that nobody asked for")]
    Reserved,
    #[error("a frame is not masked")]
    Unmasked,
    #[error("a control frame is in pieces, or too long")]
    Control,
    #[error("a message begins within another, or goes on without a beginning")]
    Order,
    #[error("a frame is longer than any can be")]
    Length,
}

impl Messages {
    /// Reads on; of control frames nothing is told.
    ///
    /// # Errors
    /// A frame is malformed; or the taker's own.
    pub fn read<E: From<Malformed>>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(Said<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while at < bytes.len() {
            if self.payload > 0 {
                let left = bytes.len() - at;
                let now = usize::try_from(self.payload).map_or(left, |payload| payload.min(left));
                self.payload -= now as u64;
                if !self.is_control() {
                    self.unmask(&bytes[at..at + now]);
                    take(Said::Part(&self.plain))?;
                    self.end(&mut take)?;
                }
                at += now;
                continue;
            }
            self.head[self.have] = bytes[at];
            self.have += 1;
            at += 1;
            if self.have >= 2 && self.have == head::length(self.head[1]) {
                self.begin().map_err(E::from)?;
                self.end(&mut take)?;
            }
        }
        Ok(())
    }

    /// A head is whole.
    fn begin(&mut self) -> Result<(), Malformed> {
        let [first, second, ..] = self.head;
        let (is_last, opcode) = (first & 0x80 != 0, first & 0x0f);
        self.payload = head::payload(&self.head);
        (self.have, self.turn) = (0, 0);
        if first & 0x70 != 0 {
            return Err(Malformed::Reserved);
        }
        if second & 0x80 == 0 {
            return Err(Malformed::Unmasked);
        }
        if self.payload > i64::MAX.unsigned_abs() {
            return Err(Malformed::Length);
        }
        match opcode {
            CONTINUED if self.in_message => self.in_message = !is_last,
            TEXT | BINARY if !self.in_message => self.in_message = !is_last,
            CONTINUED | TEXT | BINARY => return Err(Malformed::Order),
            CLOSE | PING | PONG if is_last && self.payload <= 125 => {}
            CLOSE | PING | PONG => return Err(Malformed::Control),
            _ => return Err(Malformed::Reserved),
        }
        Ok(())
    }

    fn end<E>(&self, take: &mut impl FnMut(Said<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.payload == 0 && !self.in_message && !self.is_control() { take(Said::End) } else { Ok(()) }
    }

    fn unmask(&mut self, bytes: &[u8]) {
        let length = head::length(self.head[1]);
        let mask = &self.head[length - 4..length];
        self.plain.clear();
        self.plain.extend(bytes.iter().enumerate().map(|(at, byte)| byte ^ mask[(self.turn + at) % 4]));
        self.turn = (self.turn + bytes.len()) % 4;
    }

    const fn is_control(&self) -> bool {
        self.head[0] & 0x0f >= CLOSE
    }
}

/// One frame of a server with a short payload, as [`crate::refusal`] needs it: not masked, whole.
#[must_use]
pub fn text_frame(text: &str) -> Vec<u8> {
    framed(TEXT, text.as_bytes())
}

/// A Close (§5.5.1) that says a policy was broken (§7.4.1).
#[must_use]
pub fn policy_close(reason: &str) -> Vec<u8> {
    let reason = &reason[..reason.floor_char_boundary(LONGEST_REASON)];
    framed(CLOSE, &[&POLICY.to_be_bytes()[..], reason.as_bytes()].concat())
}

fn framed(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        (_, Err(_)) => {
            frame.push(127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

const LONGEST_REASON: usize = 123;
const POLICY: u16 = 1008;
const CONTINUED: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

#[cfg(test)]
mod tests {
    use super::{Malformed, Messages, Said};

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let length = payload.len();
        let mut frame = vec![first];
        match length {
            0..126 => frame.push(0x80 | u8::try_from(length).expect("short")),
            126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(length).expect("medium").to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
        frame
    }

    fn said(bytes: &[u8], size: usize) -> Result<Vec<Vec<u8>>, Malformed> {
        let (mut messages, mut all, mut now) = (Messages::default(), Vec::new(), Vec::new());
        for piece in bytes.chunks(size) {
            messages.read(piece, |said| {
                match said {
                    Said::Part(bytes) => now.extend_from_slice(bytes),
                    Said::End => all.push(std::mem::take(&mut now)),
                }
                Ok::<_, Malformed>(())
            })?;
        }
        Ok(all)
    }

    #[test]
    fn messages_are_whole_and_unmasked_whatever_cuts_them() {
        let large = vec![7; 70_000];
        let bytes = [
            frame(0x81, b"one"),
            frame(0x01, b"tw"),
            frame(0x89, b"beat"),
            frame(0x00, b""),
            frame(0x80, b"o"),
            frame(0x82, &large),
            frame(0x81, b""),
            frame(0x88, b"\x03\xe8"),
            frame(0x81, &large[..300]),
        ]
        .concat();
        for size in [1, 2, 3, 5, 4096, bytes.len()] {
            let want = [b"one".to_vec(), b"two".to_vec(), large.clone(), Vec::new(), large[..300].to_vec()];
            assert_eq!(said(&bytes, size).as_deref(), Ok(&want[..]), "pieces of {size}");
        }
    }

    #[test]
    fn what_no_client_may_send_is_malformed() {
        let mut unmasked = frame(0x81, b"");
        unmasked[1] = 0;
        for (bytes, fault) in [
            (frame(0xc1, b"x"), Malformed::Reserved),
            (frame(0x91, b"x"), Malformed::Reserved),
            (frame(0x83, b"x"), Malformed::Reserved),
            (frame(0x8b, b""), Malformed::Reserved),
            (unmasked, Malformed::Unmasked),
            (frame(0x80, b"x"), Malformed::Order),
            ([frame(0x01, b"x"), frame(0x81, b"x")].concat(), Malformed::Order),
            (frame(0x09, b"x"), Malformed::Control),
            (frame(0x89, &[0; 126]), Malformed::Control),
            (vec![0x82, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], Malformed::Length),
        ] {
            assert_eq!(said(&bytes, 3), Err(fault), "{bytes:?}");
        }
    }
}
