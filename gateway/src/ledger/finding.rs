//! Findings: what can be seen to have happened to a ledger, in words that tell one case from the other.

use std::fmt;

/// One thing the verifier saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Line of the file, counted from 1; 0 where it is about no place in the file.
    pub line: u64,
    pub sequence: Option<u64>,
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The file ends in something that is no whole line: a crash while writing. The next start puts it right.
    TornTail {
        bytes: u64,
    },
    /// A torn tail of the past, vouched for by the start that found it.
    Fragment {
        bytes: u64,
    },
    /// Bytes in the middle that nothing vouches for.
    NotALine {
        bytes: u64,
    },
    Removed {
        first: u64,
        last: u64,
    },
    BrokenLink {
        before: u64,
    },
    OutOfOrder {
        after: u64,
    },
    CutTail {
        last: u64,
    },
    Recomputed,
    /// A receipt differs in a chain that is broken anyway.
    NotVouched,
    /// A receipt's line is gone from the middle.
    Missing,
    NeverClosed,
}

impl What {
    /// Whether the ledger is not what the gateway wrote.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        match self {
            Self::Fragment { .. } | Self::NeverClosed => false,
            Self::TornTail { .. }
            | Self::NotALine { .. }
            | Self::Removed { .. }
            | Self::BrokenLink { .. }
            | Self::OutOfOrder { .. }
            | Self::CutTail { .. }
            | Self::Recomputed
            | Self::NotVouched
            | Self::Missing => true,
        }
    }

    pub(super) const fn is_torn_tail(self) -> bool {
        matches!(self, Self::TornTail { .. })
    }

    /// The case in two words, for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::TornTail { .. } => "torn-tail",
            Self::Fragment { .. } => "fragment",
            Self::NotALine { .. } => "not-a-line",
            Self::Removed { .. } => "removed-line",
            Self::BrokenLink { .. } => "broken-link",
            Self::OutOfOrder { .. } => "out-of-order",
            Self::CutTail { .. } => "cut-tail",
            Self::Recomputed => "recomputed-chain",
            Self::NotVouched => "receipt-differs",
            Self::Missing => "receipt-missing",
            Self::NeverClosed => "never-closed",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.what.code())?;
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if let Some(sequence) = self.sequence {
            write!(f, "seq {sequence}: ")?;
        }
        self.what.fmt(f)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TornTail { bytes } => {
                write!(
                    f,
                    "the file ends in {bytes} bytes that are no whole line, as a crash leaves them; the next start of the gateway puts it right"
                )
            }
            Self::Fragment { bytes } => write!(f, "{bytes} bytes of a torn line, vouched for by the line after it"),
            Self::NotALine { bytes } => {
                write!(f, "{bytes} bytes are no line, and nothing vouches for them: edited or damaged")
            }
            Self::Removed { first, last } if first == last => write!(f, "line {first} before it was removed"),
            Self::Removed { first, last } => write!(f, "lines {first} to {last} before it were removed"),
            Self::BrokenLink { before } => {
                write!(f, "does not link to line {before} as it stands: one of the two was edited")
            }
            Self::OutOfOrder { after } => write!(f, "stands after line {after}: lines were inserted or moved"),
            Self::CutTail { last } => {
                write!(f, "a receipt vouches for it, but the ledger ends with line {last}: its tail was cut off")
            }
            Self::Recomputed => f.write_str(
                "a receipt vouches for another line than stands here, though the chain fits: it was recomputed",
            ),
            Self::NotVouched => f.write_str("a receipt vouches for another line than stands here"),
            Self::Missing => f.write_str("a receipt vouches for it, but it is not there"),
            Self::NeverClosed => f.write_str("was opened and never closed: it is under way, or the gateway was killed"),
        }
    }
}
