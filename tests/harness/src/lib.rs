//! What the tests share: cases and their needs, houses, boxes, agents, raw bytes, and a search for secrets.
//!
//! It builds nothing: binaries are found in the target folder, the agent in `box/node_modules`.

pub mod case;
pub mod needs;
pub mod tools;
pub mod waits;
pub mod files;
pub mod process;
pub mod said;
pub mod house;
pub mod boxes;
pub mod bare;
pub mod fakes;
pub mod wrapped;
pub mod claim;
pub mod door;
pub mod raw;
pub mod relay;
pub mod network;
pub mod secrets;
pub mod docker;
pub mod terminal;

pub use bare::Bare;
pub use boxes::BoxRun;
pub use case::{Case, case, made};
pub use claim::Claimed;
pub use docker::{Engine, Generation};
pub use door::Tunnel;
pub use house::{House, HouseBuilder};
pub use needs::Need;
pub use network::{Cable, Narrow};
pub use process::{Ran, Running};
pub use relay::Relay;
pub use said::Said;
pub use tools::Tools;
pub use waits::until;
