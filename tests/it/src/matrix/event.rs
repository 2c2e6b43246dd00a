//! Events: what happens to a run, upstream, by the house or by its caller.

use std::time::Duration;

use box_spec::Agent;
use nix::sys::signal::Signal;
use standin::{Cut, Fault, Rule};

use super::seat::Seat;
use super::tool::TOOL;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Plain,
    /// A shell call that writes a file into the workspace.
    Shell,
    /// Twenty seconds without a word within the answer.
    Silence,
    /// A prompt of two megabytes; for codex, which takes no more than 2^20 characters, of one.
    LongPrompt,
    /// The agent holds a stand-in that has expired, and asks for a new one.
    Expired,
    /// A tool of an MCP server of the user's own.
    Mcp,
    /// This status for ever.
    Status(u16),
    /// The first answer is reset in the middle.
    Cut,
    /// The first request has no answer until the upstream gives up.
    Hang,
    /// The answer never ends, the ceiling ends the run.
    Ceiling,
    Signal(Signal),
    /// A final refusal of the house's own.
    Refused(Refusal),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// No grant names the model's host.
    NoGrant,
    /// The secret's file is gone.
    NoSecret,
    /// The upstream's certificate leads to other roots.
    Untrusted,
}

impl Event {
    pub(super) const ALL: [Self; 18] = [
        Self::Plain,
        Self::Shell,
        Self::Silence,
        Self::LongPrompt,
        Self::Expired,
        Self::Mcp,
        Self::Status(401),
        Self::Status(403),
        Self::Status(429),
        Self::Status(500),
        Self::Cut,
        Self::Hang,
        Self::Ceiling,
        Self::Signal(Signal::SIGTERM),
        Self::Signal(Signal::SIGINT),
        Self::Refused(Refusal::NoGrant),
        Self::Refused(Refusal::NoSecret),
        Self::Refused(Refusal::Untrusted),
    ];

    pub(super) fn name(self) -> String {
        match self {
            Self::Plain => "plain".into(),
            Self::Shell => "a_shell_call".into(),
            Self::Silence => "twenty_seconds_of_silence".into(),
            Self::LongPrompt => "a_long_prompt".into(),
            Self::Expired => "an_expired_sentinel".into(),
            Self::Mcp => "an_mcp_server".into(),
            Self::Status(status) => format!("status_{status}"),
            Self::Cut => "a_cut_stream".into(),
            Self::Hang => "a_hang".into(),
            Self::Ceiling => "the_ceiling".into(),
            Self::Signal(signal) => signal.as_str().to_lowercase(),
            Self::Refused(Refusal::NoGrant) => "no_grant".into(),
            Self::Refused(Refusal::NoSecret) => "no_secret".into(),
            Self::Refused(Refusal::Untrusted) => "an_untrusted_upstream".into(),
        }
    }

    /// What goes wrong at the stand-in.
    pub(super) fn rules(self, seat: &Seat) -> Vec<Rule> {
        match self {
            Self::Status(status) => vec![seat.rule(Rule::status(seat.model_path(), status).fault)],
            Self::Cut => vec![seat.rule(Fault::CutAfter { events: 2, cut: Cut::Reset }).times(1)],
            Self::Hang => vec![seat.rule(Fault::Hang(HANG)).times(1)],
            _ => Vec::new(),
        }
    }

    pub(super) fn prompt(self, seat: &Seat) -> String {
        match self {
            Self::Shell => "<<sh:echo changed > made.txt>><<text:made>>".into(),
            Self::Silence => "<<sleep:20>><<text:patient>>".into(),
            Self::LongPrompt => format!("{} {LONG_MARK} <<text:whole>>", "long ".repeat(Self::long(seat) / 5)),
            Self::Mcp => format!("<<mcp:{TOOL} {{\"text\":\"from-the-matrix\"}}>><<text:echoed>>"),
            Self::Ceiling | Self::Signal(_) => "<<sleep:100>><<text:late>>".into(),
            _ => "<<text:governed>>".into(),
        }
    }

    /// How many characters the long prompt has at least.
    pub(super) fn long(seat: &Seat) -> usize {
        if seat.agent == Agent::Codex { 1_000_000 } else { 2_000_000 }
    }

    /// Whether the house says no to the model's route by itself: that must end every agent soon.
    pub(super) const fn is_refusal(self) -> bool {
        matches!(self, Self::Refused(_) | Self::Status(401))
    }

    /// Whether the run is compared with a bare one. Not where the house has a word of its own, and not where nothing goes wrong.
    pub(super) const fn is_compared(self) -> bool {
        matches!(self, Self::Status(403 | 429 | 500) | Self::Cut | Self::Hang | Self::Signal(_))
    }
}

/// How long the upstream says nothing before it closes.
const HANG: Duration = Duration::from_secs(8);
/// Stands at the end of the long prompt.
pub(super) const LONG_MARK: &str = "the-very-end-of-it";
