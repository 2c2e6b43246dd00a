//! The closed lists of a line: what it is about, and the verdict in one word.

/// What a line is about. A closing line has the kind `closed`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A CONNECT that was let in; its inside is judged request by request.
    Tunnel,
    /// A request that may go out.
    Request,
    /// A request that the gateway answered by itself (refresh attempts, telemetry).
    Answered,
    /// The house asks a provider for fresh tokens of a login.
    Refresh,
    /// A person gave the house a login.
    Login,
    Refused,
    Claim,
    Attested,
    Report,
    /// A run at a TCP door whose claim connection broke: it waits for its boxd.
    Detached,
    /// A run whose boxd took its claim up again.
    Reattached,
    /// A run that did not begin.
    Failed,
    Lost,
    Cut,
    Released,
    Alarm,
    Start,
    Stop,
    Config,
    /// What the gateway found at its start and put right.
    Recovered,
    /// Refusals or alarms like an earlier one, counted.
    Repeated,
}

/// The verdict in one word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ruling {
    Allow,
    Refuse,
    /// Answered here, as if by the host.
    Answer,
    /// Allowed, but the house could not do it.
    Outage,
}

impl Kind {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tunnel => "tunnel",
            Self::Request => "request",
            Self::Answered => "answered",
            Self::Refresh => "refresh",
            Self::Login => "login",
            Self::Refused => "refused",
            Self::Claim => "claim",
            Self::Attested => "attested",
            Self::Report => "report",
            Self::Detached => "detached",
            Self::Reattached => "reattached",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Cut => "cut",
            Self::Released => "released",
            Self::Alarm => "alarm",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Config => "config",
            Self::Recovered => "recovered",
            Self::Repeated => "repeated",
        }
    }
}

impl Ruling {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Refuse => "refuse",
            Self::Answer => "answer",
            Self::Outage => "outage",
        }
    }
}
