//! The loopback end of the wire: listens where the agent can reach it, tags each connection with the run token,
//! and passes bytes to the door and back without looking at them. What is for the box's own loopback goes there instead.

mod listen;
mod tag;
mod pass;
mod near;
mod door;
mod health;
#[doc(hidden)]
pub mod heard;

pub use door::{Connecting, Door, DoorStream};
pub use health::run_at;
pub use listen::{Listening, Loopback, ShimFault, listen};
pub use tag::RunTag;
