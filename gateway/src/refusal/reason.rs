//! Reasons: the closed list of why something is not let through, and what each means to a box, a run and an operator.

use std::fmt;

use http::StatusCode;

/// The closed list of reasons. The code is what stands in the ledger and in `x-boxgate-reason`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Reason {
    NoRunToken,
    BadAuthority,
    BadRequest,
    HeadTooLarge,
    HeadLate,
    TooMany,
    NotTls,
    HandshakeFailed,
    SniMismatch,
    HostMismatch,
    PortRefused,
    AddressRefused,
    NoGrant,
    Denied,
    MethodNever,
    UpgradeRefused,
    SentinelAstray,
    DurableCredential,
    ProviderEgress,
    SecretOutbound,
    McpRefused,
    BodyTooLarge,
    CredentialOutage,
    CredentialRejected,
    LedgerDown,
    UpstreamUnreachable,
    UpstreamUntrusted,
    UpstreamFailed,
    Draining,
    RunOver,
    GrantWithdrawn,
    ClaimRefused,
    ReportRefused,
    ReattachRefused,
    KeyRefused,
}

impl Reason {
    pub const ALL: [Self; 35] = [
        Self::NoRunToken,
        Self::BadAuthority,
        Self::BadRequest,
        Self::HeadTooLarge,
        Self::HeadLate,
        Self::TooMany,
        Self::NotTls,
        Self::HandshakeFailed,
        Self::SniMismatch,
        Self::HostMismatch,
        Self::PortRefused,
        Self::AddressRefused,
        Self::NoGrant,
        Self::Denied,
        Self::MethodNever,
        Self::UpgradeRefused,
        Self::SentinelAstray,
        Self::DurableCredential,
        Self::ProviderEgress,
        Self::SecretOutbound,
        Self::McpRefused,
        Self::BodyTooLarge,
        Self::CredentialOutage,
        Self::CredentialRejected,
        Self::LedgerDown,
        Self::UpstreamUnreachable,
        Self::UpstreamUntrusted,
        Self::UpstreamFailed,
        Self::Draining,
        Self::RunOver,
        Self::GrantWithdrawn,
        Self::ClaimRefused,
        Self::ReportRefused,
        Self::ReattachRefused,
        Self::KeyRefused,
    ];

    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoRunToken => "no-run-token",
            Self::BadAuthority => "bad-authority",
            Self::BadRequest => "bad-request",
            Self::HeadTooLarge => "head-too-large",
            Self::HeadLate => "head-late",
            Self::TooMany => "too-many",
            Self::NotTls => "not-tls",
            Self::HandshakeFailed => "handshake-failed",
            Self::SniMismatch => "sni-mismatch",
            Self::HostMismatch => "host-mismatch",
            Self::PortRefused => "port-refused",
            Self::AddressRefused => "address-refused",
            Self::NoGrant => "no-grant",
            Self::Denied => "denied",
            Self::MethodNever => "method-never",
            Self::UpgradeRefused => "upgrade-refused",
            Self::SentinelAstray => "sentinel-astray",
            Self::DurableCredential => "durable-credential",
            Self::ProviderEgress => "provider-egress",
            Self::SecretOutbound => "secret-outbound",
            Self::McpRefused => "mcp-refused",
            Self::BodyTooLarge => "body-too-large",
            Self::CredentialOutage => "credential-outage",
            Self::CredentialRejected => "credential-rejected",
            Self::LedgerDown => "ledger-down",
            Self::UpstreamUnreachable => "upstream-unreachable",
            Self::UpstreamUntrusted => "upstream-untrusted",
            Self::UpstreamFailed => "upstream-failed",
            Self::Draining => "draining",
            Self::RunOver => "run-over",
            Self::GrantWithdrawn => "grant-withdrawn",
            Self::ClaimRefused => "claim-refused",
            Self::ReportRefused => "report-refused",
            Self::ReattachRefused => "reattach-refused",
            Self::KeyRefused => "key-refused",
        }
    }

    /// The reason that this code stands for.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// The status that tells the truth (RFC 9110 §15); model routes hear 400 instead, see `docs/reasons.md`.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::NoRunToken => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
            Self::BadAuthority | Self::BadRequest | Self::NotTls | Self::HandshakeFailed => StatusCode::BAD_REQUEST,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::HeadLate => StatusCode::REQUEST_TIMEOUT,
            Self::SniMismatch | Self::HostMismatch => StatusCode::MISDIRECTED_REQUEST,
            Self::UpgradeRefused => StatusCode::UPGRADE_REQUIRED,
            Self::PortRefused
            | Self::AddressRefused
            | Self::NoGrant
            | Self::Denied
            | Self::SentinelAstray
            | Self::DurableCredential
            | Self::ProviderEgress
            | Self::SecretOutbound
            | Self::McpRefused
            | Self::RunOver
            | Self::GrantWithdrawn
            | Self::KeyRefused => StatusCode::FORBIDDEN,
            Self::MethodNever => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooMany | Self::CredentialOutage | Self::CredentialRejected | Self::LedgerDown | Self::Draining => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::UpstreamUnreachable | Self::UpstreamUntrusted | Self::UpstreamFailed => StatusCode::BAD_GATEWAY,
            Self::ClaimRefused | Self::ReportRefused | Self::ReattachRefused => StatusCode::CONFLICT,
        }
    }

    /// Whether the house said no, rather than failed to do what it had allowed.
    #[must_use]
    pub const fn is_policy(self) -> bool {
        match self {
            Self::NoRunToken
            | Self::BadAuthority
            | Self::BadRequest
            | Self::NotTls
            | Self::SniMismatch
            | Self::HostMismatch
            | Self::PortRefused
            | Self::AddressRefused
            | Self::NoGrant
            | Self::Denied
            | Self::MethodNever
            | Self::UpgradeRefused
            | Self::SentinelAstray
            | Self::DurableCredential
            | Self::ProviderEgress
            | Self::SecretOutbound
            | Self::McpRefused
            | Self::BodyTooLarge
            | Self::RunOver
            | Self::GrantWithdrawn
            | Self::ClaimRefused
            | Self::ReportRefused
            | Self::ReattachRefused
            | Self::KeyRefused => true,
            Self::HeadTooLarge
            | Self::HeadLate
            | Self::TooMany
            | Self::HandshakeFailed
            | Self::CredentialOutage
            | Self::CredentialRejected
            | Self::LedgerDown
            | Self::UpstreamUnreachable
            | Self::UpstreamUntrusted
            | Self::UpstreamFailed
            | Self::Draining => false,
        }
    }

    /// Whether it counts against a run. A refused upgrade does not: it only says which way to take, and the agent that takes
    /// it has done all that it wanted.
    #[must_use]
    pub const fn counts(self) -> bool {
        self.is_policy() && !matches!(self, Self::UpgradeRefused)
    }

    /// Whether trying again cannot help. Only these are told as 400 on a model route, which ends the agent at once;
    /// the others keep their status, so that the agent's own retries do their work.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::HeadLate
            | Self::TooMany
            // The same without the upgrade is another matter.
            | Self::UpgradeRefused
            | Self::UpstreamUnreachable
            | Self::UpstreamFailed
            | Self::Draining => false,
            Self::NoRunToken
            | Self::BadAuthority
            | Self::BadRequest
            | Self::HeadTooLarge
            | Self::NotTls
            | Self::HandshakeFailed
            | Self::SniMismatch
            | Self::HostMismatch
            | Self::PortRefused
            | Self::AddressRefused
            | Self::NoGrant
            | Self::Denied
            | Self::MethodNever
            | Self::SentinelAstray
            | Self::DurableCredential
            | Self::ProviderEgress
            | Self::SecretOutbound
            | Self::McpRefused
            | Self::BodyTooLarge
            | Self::CredentialOutage
            | Self::CredentialRejected
            | Self::LedgerDown
            | Self::UpstreamUntrusted
            | Self::RunOver
            | Self::GrantWithdrawn
            | Self::ClaimRefused
            | Self::ReportRefused
            | Self::ReattachRefused
            | Self::KeyRefused => true,
        }
    }

    pub(super) const fn hint(self) -> &'static str {
        match self {
            Self::NoRunToken => "requests come through the box's own loopback proxy, which holds the run's token",
            Self::BadAuthority => "the target must be host:port, with a port from 1 to 65535",
            Self::BadRequest => "send a well-formed HTTP/1.1 request",
            Self::HeadTooLarge => "send a smaller request head",
            Self::HeadLate => "send the whole request head at once",
            Self::TooMany => {
                "wait for open requests of this box to end, send fewer in a minute, or raise the limit in the house's configuration"
            }
            Self::NotTls => "only TLS is spoken after CONNECT",
            Self::HandshakeFailed => {
                "the client must trust the house's certificate: see NODE_EXTRA_CA_CERTS and SSL_CERT_FILE in the box"
            }
            Self::SniMismatch => "the TLS server name must be the host of CONNECT",
            Self::HostMismatch => "the Host header must be the host of CONNECT, once",
            Self::PortRefused | Self::NoGrant => {
                "this is policy, not an outage: an operator can add a [[grant]] to the house's configuration"
            }
            Self::Denied => "this is policy, not an outage: an operator has denied it in the house's configuration",
            Self::AddressRefused => "private, loopback and metadata addresses need a grant that names them",
            Self::MethodNever => "TRACE is never forwarded",
            Self::UpgradeRefused => "send it as a plain request: this upgrade is not let through here",
            Self::SentinelAstray => "the box's stand-in credential is only for its own provider",
            Self::ProviderEgress => {
                "this is policy, not an outage: an operator can let it through by `provider_tools` or `provider_fetch` in the grant"
            }
            Self::SecretOutbound => {
                "a real credential of the house was found in what the box sends: an operator must find out how it got there, and renew it"
            }
            Self::McpRefused => {
                "this is policy, not an outage: an operator can let it through by `mcp_methods` or `mcp_tools` in the grant"
            }
            Self::BodyTooLarge => {
                "this is policy, not an outage: send less, or let an operator raise `max_body` in the grant"
            }
            Self::DurableCredential => "no grant can allow turning a credential into a durable one",
            Self::CredentialOutage => {
                "this is an outage of the house, not policy: an operator must supply the credential (gateway status names it)"
            }
            Self::CredentialRejected => {
                "this is an outage of the house, not policy: an operator must renew the credential (gateway status names it)"
            }
            Self::LedgerDown => {
                "this is an outage of the house, not policy: its ledger cannot be written, an operator must free space"
            }
            Self::UpstreamUnreachable | Self::UpstreamFailed => {
                "the host beyond the gateway did not answer properly; this is no policy"
            }
            Self::UpstreamUntrusted => {
                "the host's certificate did not verify; a private CA needs upstream_ca in its grant"
            }
            Self::Draining => "the house is restarting; try again in a moment",
            Self::RunOver => "the run has ended, and with it what it was allowed",
            Self::GrantWithdrawn => "this is policy, not an outage: an operator has changed the house's configuration",
            Self::ClaimRefused | Self::ReportRefused | Self::ReattachRefused => {
                "one run holds a door, and only its own claim may speak for it"
            }
            Self::KeyRefused => "a claim at a TCP door needs the key of that very box: see BOXGATE_KEY_FILE",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
