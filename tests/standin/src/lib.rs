//! A stand-in for the model APIs: plays the provider over TLS (or plain HTTP) on loopback and keeps every byte that it was sent.
//!
//! Made for tests and for the demo. It takes only the real credentials that it was given, so that an answer proves the injection.

mod options;
mod real;
mod stand;
mod serve;
mod connection;
mod leg;
mod frame;
mod decode;
mod rule;
mod reply;
mod ws;
mod turn;
mod heard;
mod offered;
mod model;
mod steps;
mod anthropic;
mod responses;
mod chat;
mod account;
mod errors;
mod seen;
mod certs;
mod mcp;

pub use certs::{Authority, Certificate};
pub use mcp::Echo;
pub use model::{Answer, Beat};
pub use options::{Expect, Options};
pub use real::Real;
pub use rule::{Cut, Fault, Rule, Then};
pub use seen::{Ended, Seen, SeenConnection};
pub use stand::StandIn;
