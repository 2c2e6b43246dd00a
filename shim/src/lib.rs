//! The loopback end of the wire.
