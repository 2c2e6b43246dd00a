//! The parts of the measuring: a client, an origin, certificates, and a house as it is measured. The program `bench`
//! compares them with peers; the integration tests count the gateway's instructions with them.

pub mod certs;
pub mod origin;
pub mod wire;
pub mod ground;
pub mod history;
pub mod count;
