//! Echo: of what comes back nothing is longer or shorter, nothing but a secret is blotted out, and no secret is left, wherever
//! pieces or frames cut it.

use gateway::echo::{FramedScan, Scan};

use crate::secrets::{NEEDLES, filled, leaks};
use crate::{cut, pieces};

pub(crate) fn holds(data: &[u8]) {
    let (sizes, text) = cut(data);
    let text = filled(text);
    let mut whole = text.clone();
    let found = NEEDLES.blot(&mut whole);
    assert!(!leaks(&whole) && !NEEDLES.are_in(&whole), "{}", whole.escape_ascii());
    assert_eq!(found > 0, NEEDLES.are_in(&text));
    let (came, times) = streamed(sizes, &text);
    assert_eq!(came.len(), text.len());
    assert!(!leaks(&came), "in pieces of {sizes:?}: {}", came.escape_ascii());
    assert!(came == whole && times == found, "in pieces of {sizes:?}: {}", came.escape_ascii());
    framed(sizes, &text);
}

fn streamed(sizes: &[u8], text: &[u8]) -> (Vec<u8>, u64) {
    let (mut scan, mut out, mut came) = (Scan::default(), Vec::new(), 0);
    for piece in pieces(sizes, text) {
        came += piece.len();
        out.extend_from_slice(&scan.pass(&NEEDLES, piece.to_vec().into()));
        assert!(came - out.len() < LONGEST, "{} bytes are held", came - out.len());
    }
    out.extend_from_slice(&scan.rest());
    (out, scan.found())
}

/// A frame of a server: its first byte, and its payload.
type Frame = (u8, Vec<u8>);

/// The text in frames, every second size of which is a control frame's.
fn framed(sizes: &[u8], text: &[u8]) {
    let mut frames: Vec<Frame> = Vec::new();
    for (at, piece) in pieces(sizes, text).enumerate() {
        let size = sizes.get(at % sizes.len().max(1)).copied().unwrap_or_default();
        let first = match size {
            0x40..=0x7d => 0x89,
            size => size & 0x80 | 0x01,
        };
        frames.push((first, piece.to_vec()));
    }
    let sent: Vec<u8> = frames.iter().flat_map(written).collect();
    let (mut scan, mut out) = (FramedScan::default(), Vec::new());
    let cuts: Vec<u8> = sizes.iter().rev().map(|size| size / 3).collect();
    for piece in pieces(&cuts, &sent) {
        let Ok(passed) = scan.pass(&NEEDLES, piece) else { return };
        out.extend_from_slice(&passed);
    }
    out.extend_from_slice(&scan.rest());
    let (mut at, mut data) = (0, Vec::new());
    for (first, payload) in &frames {
        let head = written(&(*first, payload.clone())).len() - payload.len();
        assert_eq!(out[at..at + head], sent[at..at + head], "heads stay");
        let payload = &out[at + head..at + head + payload.len()];
        if *first == 0x89 {
            assert!(!leaks(payload), "in a control frame: {}", payload.escape_ascii());
        } else {
            data.extend_from_slice(payload);
        }
        at += head + payload.len();
    }
    assert_eq!(at, out.len());
    assert!(!leaks(&data), "in pieces of {cuts:?}: {}", data.escape_ascii());
}

fn written((first, payload): &Frame) -> Vec<u8> {
    let mut frame = vec![*first];
    match u16::try_from(payload.len()) {
        Ok(length @ 0..126) => frame.push(length.to_le_bytes()[0]),
        Ok(length) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        Err(_) => {
            frame.push(127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

/// The longest form there is, some of whose letters take six.
const LONGEST: usize = 6 * 40;
