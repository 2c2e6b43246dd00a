//! What boxd starts: the agent, or a command in its place.

use std::ffi::OsString;

/// A program with all that it is given but its environment.
#[derive(Debug)]
pub(crate) struct Program {
    /// A path, or a name that is looked for on PATH.
    pub(crate) path: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) streams: Streams,
}

/// Where its standard streams lead.
#[derive(Debug)]
pub(crate) enum Streams {
    /// To boxd: an agent holds nothing of its caller's. Standard input is at its end after what it holds.
    Boxds { stdin: Option<String> },
    /// To where boxd's own lead: the caller talks to the program himself.
    Callers,
}

impl Program {
    /// A command line of the caller's.
    pub(crate) fn of_command(line: &[OsString]) -> Self {
        let (path, arguments) =
            line.split_first().map_or_else(Default::default, |(path, rest)| (path.clone(), rest.to_vec()));
        Self { path, arguments, streams: Streams::Callers }
    }
}
