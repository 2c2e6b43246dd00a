//! Messages: what a box says in a WebSocket to a model, each message judged as a body is.

use crate::refusal::Refusal;
use crate::websocket::messages::{Malformed, Messages, Said};

use super::{Reading, Reads};

/// The messages of one session, as far as they were read.
pub struct Judged {
    reads: Reads,
    messages: Messages,
    reading: Option<Box<Reading>>,
}

enum Halt {
    Frame(Malformed),
    Refused(Refusal),
}

impl Judged {
    #[must_use]
    pub fn new(reads: Reads) -> Box<Self> {
        Box::new(Self { reads, messages: Messages::default(), reading: None })
    }

    /// Judges what came. Of a message that is refused the upstream never has the end.
    ///
    /// # Errors
    /// The refusal. Nothing of these bytes may go on.
    pub fn judge(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let Self { reads, messages, reading } = self;
        let told = messages.read(bytes, |said| match said {
            Said::Part(part) => {
                reading.get_or_insert_with(|| reads.message()).judge(part).map(drop).map_err(Halt::Refused)
            }
            Said::End => reading.take().map_or(Ok(()), |mut whole| whole.end()).map_err(Halt::Refused),
        });
        told.map_err(|halt| match halt {
            Halt::Frame(fault) => self.reads.unclear(&fault.to_string()),
            Halt::Refused(refusal) => refusal,
        })
    }
}

impl From<Malformed> for Halt {
    fn from(fault: Malformed) -> Self {
        Self::Frame(fault)
    }
}
