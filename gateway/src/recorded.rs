//! Recorded: what the ledger tells of the requests of boxes, each opening joined with its closing. What a line does not tell is
//! not known, and stays so.

mod line;
pub mod stream;

use box_spec::{BoxId, RunId};
use http::{HeaderMap, Method};
use jiff::Timestamp;

use crate::host::Target;
use crate::policy::Scheme;
use crate::refusal::Reason;

/// One request, or several of which the ledger tells no more than their number.
#[derive(Debug)]
pub struct Recorded {
    pub asked: Asked,
    /// How it went on; `None` where no line says so.
    pub closing: Option<Closing>,
}

/// What was asked, as far as the line tells it.
#[derive(Debug)]
pub struct Asked {
    pub sequence: u64,
    pub time: Timestamp,
    /// The last of them, where it stands for several.
    pub last: Timestamp,
    pub count: u64,
    pub box_id: BoxId,
    pub run: Option<RunId>,
    pub target: Target,
    pub scheme: Scheme,
    /// CONNECT of a tunnel, in which everything is asked again.
    pub method: Option<Method>,
    /// `None` where it was cut, or part of it masked.
    pub path: Option<String>,
    pub query: Query,
    pub headers: Headers,
    pub body: Body,
    /// The stand-in that it carried.
    pub stand_in: StandIn,
    pub said: Said,
    /// The grant that let it through, or came closest.
    pub grant: Option<String>,
}

/// The keys of a query, still escaped, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    Keys(Vec<String>),
    Unknown,
}

/// The names of the headers; values where the ledger shows them.
#[derive(Clone, PartialEq, Debug)]
pub enum Headers {
    Known(HeaderMap),
    /// Without those that were left out, or with none at all.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    None,
    Declared(u64),
    Chunked,
    Unknown,
}

/// Whose stand-in credential stood in the head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StandIn {
    /// There was none, or no header that could hold one.
    None,
    /// A provider's, a service's as `secret:NAME`, or `astray`.
    Of(String),
    Unknown,
}

/// What was said to it before anything went out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Allow,
    /// By the house itself.
    Answer,
    Refuse(Why),
}

/// A refusal, as it was written down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    pub reason: Reason,
    pub inside: String,
}

/// How an opened request ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Closing {
    /// The answer was whole.
    pub is_complete: bool,
    pub status: Option<u16>,
    pub bytes_up: u64,
    pub injected: Vec<String>,
    /// What was refused after it had been let through: its body, or the address that it leads to.
    pub refused: Option<Why>,
    pub facts: Facts,
}

/// What was found in the body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    pub tools: Vec<String>,
    pub places: Vec<String>,
    pub methods: Vec<String>,
    pub calls: Vec<String>,
}

impl Recorded {
    /// Why it was refused, at once or later.
    #[must_use]
    pub fn refused(&self) -> Option<&Why> {
        match &self.asked.said {
            Said::Refuse(why) => Some(why),
            Said::Allow | Said::Answer => self.closing.as_ref().and_then(|closing| closing.refused.as_ref()),
        }
    }
}

impl Facts {
    /// Whether one of the lists may have gone on.
    #[must_use]
    pub fn may_be_cut(&self) -> bool {
        let Self { tools, places, methods, calls } = self;
        [tools, places, methods, calls].iter().any(|list| list.len() >= MOST_NOTED)
    }
}

/// Of one kind, a line has no more.
const MOST_NOTED: usize = 16;
