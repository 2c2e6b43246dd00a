//! What an earlier run of codex or pi, a second one beside it, or a half-made installation can do to a launch.

pub(crate) mod sessions;
pub(crate) mod poison;
pub(crate) mod turns;
