//! WebSocket: frames are the same wherever they are cut; what a client says is heard as it was meant; what the house says is
//! well formed.

use gateway::websocket::frames::Frames;
use gateway::websocket::messages::{Malformed, Messages, Said, policy_close, text_frame};

use crate::{cut, pieces};

pub(crate) fn holds(data: &[u8]) {
    let (sizes, bytes) = cut(data);
    let followed = |sizes: &[u8]| {
        let (mut frames, mut payload) = (Frames::default(), Vec::new());
        for piece in pieces(sizes, bytes) {
            frames.payloads(piece, |range, is_control| {
                payload.extend(piece[range].iter().map(|byte| (*byte, is_control)));
            });
        }
        (frames, payload)
    };
    assert_eq!(followed(sizes), followed(&[]), "cut by {sizes:?}");
    let (whole, cut) = (said(&[], bytes), said(sizes, bytes));
    assert_eq!(cut, whole, "cut by {sizes:?}");
    if whole.1.is_ok() {
        let total: usize = whole.0.iter().flatten().map(Vec::len).sum();
        assert!(total <= bytes.len(), "nothing is heard that was not said");
    }
    heard_as_meant(sizes, bytes);
    let text = String::from_utf8_lossy(bytes);
    for (frame, closes) in [(text_frame(&text), false), (policy_close(&text), true)] {
        let mut frames = Frames::default();
        frames.pass(&frame);
        assert!(frames.at_rest() && frames.closed() == closes);
        assert!(!closes || frame.len() <= 2 + 125, "a Close is short");
    }
}

/// Each message as far as it came, `None` behind one that is whole.
type Heard = (Vec<Option<Vec<u8>>>, Result<(), Malformed>);

fn said(sizes: &[u8], bytes: &[u8]) -> Heard {
    let (mut messages, mut heard) = (Messages::default(), Vec::new());
    let told = pieces(sizes, bytes).try_for_each(|piece| {
        messages.read(piece, |said| {
            match (said, heard.last_mut()) {
                (Said::Part(bytes), Some(Some(message))) => Vec::extend_from_slice(message, bytes),
                (Said::Part(bytes), _) => heard.push(Some(bytes.to_vec())),
                (Said::End, _) => heard.push(None),
            }
            Ok::<_, Malformed>(())
        })
    });
    (heard, told)
}

/// The bytes as one message in masked frames, with control frames between them.
fn heard_as_meant(sizes: &[u8], text: &[u8]) {
    let parts: Vec<&[u8]> = pieces(sizes, text).collect();
    let mut sent = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let opcode = if at == 0 { 2 } else { 0 };
        let last = if at + 1 == parts.len() { 0x80 } else { 0 };
        masked(&mut sent, opcode | last, part);
        if at % 3 == 1 {
            masked(&mut sent, 0x8a, &part[..part.len().min(125)]);
        }
    }
    let (heard, told) = said(sizes, &sent);
    assert_eq!(told, Ok(()));
    let want: Vec<Option<Vec<u8>>> = if parts.is_empty() { Vec::new() } else { vec![Some(text.to_vec()), None] };
    assert_eq!(heard, want);
}

fn masked(sent: &mut Vec<u8>, first: u8, payload: &[u8]) {
    let mask = [0x5a, first, 0xff, 0x01];
    sent.push(first);
    match u16::try_from(payload.len()) {
        Ok(length @ 0..126) => sent.push(0x80 | length.to_le_bytes()[0]),
        Ok(length) => {
            sent.push(0x80 | 126);
            sent.extend(length.to_be_bytes());
        }
        Err(_) => {
            sent.push(0x80 | 127);
            sent.extend((payload.len() as u64).to_be_bytes());
        }
    }
    sent.extend(mask);
    sent.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
}
