//! Rules: what requests are judged and served by. A reload replaces them as a whole; whoever took them keeps what it took.

use crate::policy::Policy;
use crate::vault::Vault;

/// One state of the configuration, as far as it can change while the house stands.
pub struct Rules {
    pub policy: Policy,
    pub vault: Vault,
    /// SHA-256 of the file that it was read from.
    pub digest: String,
}
