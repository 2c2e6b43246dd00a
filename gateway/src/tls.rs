//! TLS both ways: the leaves toward the boxes, the verification toward the world. The one place that builds its configurations.

pub mod leaves;
pub mod upstream;

pub use leaves::{LeafConfigs, LeafError};
pub use upstream::{UpstreamCa, UpstreamCaFault, UpstreamTlsFault, Upstreams};

/// Spoken on both legs: bodies are streamed as HTTP/1.1, and WebSocket handshakes need it.
const ALPN: &[u8] = b"http/1.1";
