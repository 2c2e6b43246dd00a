//! Exit codes: what boxd ends with where the agent's own code is not it. Those of sysexits.h, and of the shell.

/// Arguments or configuration that contradict themselves, or that this version does not know.
pub(crate) const USAGE: u8 = 64;
/// No gateway, no door, no claim any more.
pub(crate) const UNAVAILABLE: u8 = 69;
/// A fault of boxd's own.
pub(crate) const OWN_FAULT: u8 = 70;
/// A file or folder cannot be made.
pub(crate) const CANNOT_CREATE: u8 = 73;
/// The run went well and nobody recorded it, or its output could not be printed.
pub(crate) const UNREPORTED: u8 = 74;
/// Another run has what this one needs.
pub(crate) const TAKEN: u8 = 75;
/// The house is another than the one that the box is pinned to.
pub(crate) const FOREIGN_HOUSE: u8 = 76;
/// The box is not what it must be.
pub(crate) const UNPROVEN: u8 = 77;
/// The house has no credential for this agent.
pub(crate) const NO_CREDENTIAL: u8 = 78;
/// The run was ended by a limit of time.
pub(crate) const CEILING: u8 = 124;
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;
