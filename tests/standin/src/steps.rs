//! The steps of a streamed answer, before they are put on a transport.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

/// A step of a streamed answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    Event(Value),
    /// A word of the stream's own that is no JSON.
    Word(&'static str),
    /// A sign of life of the transport's own: a comment, or a WebSocket ping.
    Ping,
    Pause(Duration),
}

impl Step {
    /// What it says, if it is an event.
    pub(crate) const fn event(&self) -> Option<&Value> {
        match self {
            Self::Event(event) => Some(event),
            Self::Word(_) | Self::Ping | Self::Pause(_) => None,
        }
    }

    /// The step as a server-sent event; a pause has none.
    pub(crate) fn sent(&self) -> Option<String> {
        match self {
            Self::Event(data) => match data["type"].as_str() {
                Some(name) => Some(format!("event: {name}\ndata: {data}\n\n")),
                None => Some(format!("data: {data}\n\n")),
            },
            Self::Word(word) => Some(format!("data: {word}\n\n")),
            Self::Ping => Some(": keep-alive\n\n".to_owned()),
            Self::Pause(_) => None,
        }
    }
}

/// How long a whole answer takes that would have been streamed so.
pub(crate) fn length(steps: &[Step]) -> Duration {
    let pauses = steps.iter().filter_map(|step| match step {
        Step::Pause(time) => Some(*time),
        Step::Event(_) | Step::Word(_) | Step::Ping => None,
    });
    pauses.sum()
}

/// An id that no other answer of this program has.
pub(crate) fn id(kind: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{kind}_standin{:012}", NEXT.fetch_add(1, Ordering::Relaxed))
}
