//! The words that cross a process boundary: what a box and the house say to each other on the claim.
//!
//! No I/O, no clock, no async: a value of this crate means the same on both sides of the door.

pub mod names;
pub mod agent;
pub mod attest;
pub mod marks;
pub mod exposed;
pub mod claim;
pub mod report;
pub mod wire;

pub use agent::{Agent, Provider};
pub use attest::{Attestation, BoxFacts, Layer, Layers, Searched};
pub use claim::{Claim, ClaimReason, ClaimRefused, CredentialKind, FromBox, FromHouse, Sentinel, Spec};
pub use exposed::{Exposed, VariableFault, VariableName};
pub use marks::{Mark, Marks};
pub use names::{BoxId, Fingerprint, NameFault, RunId, RunToken};
pub use report::{EndedBy, Report, RunVerdict, Settled, StdoutRecord};
