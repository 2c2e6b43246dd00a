//! What an agent may try that is not in the table of `docs/trust.md`: fields after a body, second words, noise for a terminal,
//! what outlives the run.

pub(crate) mod wire;
pub(crate) mod words;
pub(crate) mod lives;
pub(crate) mod more;
