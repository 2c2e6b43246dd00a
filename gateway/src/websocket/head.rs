//! Heads of frames (RFC 6455 §5.2): how long one is, and how long it says its payload is.

/// Room for the longest head.
pub(super) const LONGEST: usize = 14;
/// The first opcode of control frames (§5.5), and Close itself.
pub(super) const CLOSE: u8 = 0x8;

/// How long a head is, by its second byte: the mask bit and the short length.
pub(super) const fn length(second: u8) -> usize {
    let extended = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    2 + extended + mask
}

/// How long the payload is, of a head that is whole.
pub(super) fn payload(head: &[u8; LONGEST]) -> u64 {
    let extended = match head[1] & 0x7f {
        126 => &head[2..4],
        127 => &head[2..10],
        short => return u64::from(short),
    };
    extended.iter().fold(0, |length, byte| length << 8 | u64::from(*byte))
}
