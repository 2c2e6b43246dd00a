//! A stand-in for the model APIs: plays the providers over TLS (or plain HTTP) on loopback and keeps every byte that it was sent.
//!
//! Made for tests and for the demo. It takes only the real credentials that it was given, so that an answer proves the injection.
//! It plays Anthropic's messages with their threads, OpenAI's responses over SSE and over WebSocket, chat completions, and what
//! ChatGPT answers about accounts; it refreshes no token unless it is told to.
//!
//! The model is scripted. It does what the markers in the newest text of the user say, tool calls one by one and then the rest
//! at once, or what [`StandIn::script`] says. Without markers it answers `DONE`.
//!
//! | marker | what the model does |
//! | --- | --- |
//! | `<<text:T>>` | says T |
//! | `<<sh:COMMAND>>` | calls the agent's shell tool, whatever it is called |
//! | `<<mcp:TOOL {…}>>` | calls the tool whose name is, or ends with, TOOL |
//! | `<<sleep:N>>` | is silent for N seconds in its stream |
//! | `<<ping:N>>` | the same, with a sign of life each second |
//! | `<<drip:N>>` | says N pieces of text, one each second |
//! | `<<error:KIND>>` | tells an error in its stream |

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
mod sign_in;
mod git;
mod errors;
mod pack;
mod seen;
mod certs;
mod mcp;

pub use certs::{Authority, Certificate, server_for};
pub use git::Repositories;
pub use mcp::Echo;
pub use model::{Answer, Beat};
pub use options::{Expect, Options};
pub use pack::Packing;
pub use real::Real;
pub use rule::{Cut, Fault, Rule, Then};
pub use seen::{Ended, Seen, SeenConnection};
pub use stand::StandIn;
