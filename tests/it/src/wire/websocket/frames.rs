//! Frames by the byte (RFC 6455 §5.2).

use std::io::Read;

use anyhow::{Context, Result};

/// A frame as it came.
#[derive(Debug)]
pub(in crate::wire) struct Came {
    pub(in crate::wire) opcode: u8,
    pub(in crate::wire) payload: Vec<u8>,
    pub(in crate::wire) raw: Vec<u8>,
}

/// One whole message, masked as a client must or not as a server must not.
pub(in crate::wire) fn frame(opcode: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let bit = if mask.is_some() { 0x80 } else { 0 };
    let mut frame = vec![0x80 | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ 0..126), _) => frame.push(bit | short),
        (_, Ok(medium)) => {
            frame.push(bit | 126);
            frame.extend(medium.to_be_bytes());
        }
        (_, Err(_)) => {
            frame.push(bit | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    let Some(mask) = mask else { return [frame, payload.to_vec()].concat() };
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

/// The next frame, unmasked.
pub(in crate::wire) fn read(stream: &mut impl Read) -> Result<Came> {
    let mut raw = take(stream, 2)?;
    let (opcode, second) = (raw[0] & 0x0f, raw[1]);
    let length = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let extended = take(stream, length)?;
    let length = match length {
        0 => u64::from(second & 0x7f),
        _ => extended.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
    };
    let mask = if second & 0x80 == 0 { Vec::new() } else { take(stream, 4)? };
    let masked = take(stream, usize::try_from(length).context("read a length")?)?;
    for piece in [&extended, &mask, &masked] {
        raw.extend_from_slice(piece);
    }
    let payload = match mask.as_slice() {
        [] => masked,
        mask => masked.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key).collect(),
    };
    Ok(Came { opcode, payload, raw })
}

fn take(stream: &mut impl Read, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).context("read a frame")?;
    Ok(bytes)
}

pub(in crate::wire) const TEXT: u8 = 1;
pub(in crate::wire) const BINARY: u8 = 2;
pub(in crate::wire) const CLOSE: u8 = 8;
pub(in crate::wire) const PING: u8 = 9;
pub(in crate::wire) const PONG: u8 = 10;
