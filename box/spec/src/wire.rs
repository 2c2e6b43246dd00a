//! The names on the wire between boxd and the door. `docs/door.md` tells how they are used.

/// The version of the claim protocol.
pub const PROTOCOL: u32 = 3;
/// `POST` here with a [`crate::Claim`] and the upgrade below; answered `101`, then JSON lines both ways.
pub const CLAIM_PATH: &str = "/claim";
/// The `Upgrade` token of a claim.
pub const CLAIM_UPGRADE: &str = "boxgate-claim";
/// `GET` here without a token tells the identity of the house: [`crate::wire::Identity`].
pub const HEALTH_PATH: &str = "/healthz";
/// Header of a claim at a TCP door: the proof that the box has the door's key, 64 lower-case hexadecimal digits. It is
/// HMAC-SHA256 (RFC 2104) with the key over [`proof_text`].
pub const PROOF_HEADER: &str = "boxgate-proof";
/// The fewest characters of a box key: 128 bits, where they are hexadecimal digits.
pub const SHORTEST_KEY: usize = 32;
/// Header of a refusal: its reason, from a closed list.
pub const REASON_HEADER: &str = "x-boxgate-reason";
/// Header of a refusal: the status that it would have had away from a model route.
pub const STATUS_HEADER: &str = "x-boxgate-status";
/// The longest line on the claim, in bytes, the line feed included.
pub const LINE_LIMIT: usize = 64 * 1024;
/// The password part of the proxy credential. Only the user name (the run token) counts.
pub const TOKEN_PASSWORD: &str = "x";
/// Every sentinel contains this text.
pub const SENTINEL_MARK: &str = "boxgate-sentinel";

/// The account that sentinels name and that local answers tell: nobody's.
pub const SENTINEL_ACCOUNT: &str = "00000000-0000-4000-8000-000000000000";

/// What `GET /healthz` on a door says without any token.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    pub house: crate::Fingerprint,
    pub box_id: crate::BoxId,
    pub protocol: u32,
    /// At a TCP door: what a claim on this very connection must prove the key on. Another connection has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<String>,
}

/// What the proof of a box key is made on: this house, this box, and this connection, so that a proof that was overheard
/// opens nothing else.
#[must_use]
pub fn proof_text(house: &crate::Fingerprint, box_id: &crate::BoxId, challenge: &str) -> String {
    format!("boxgate-claim-1\n{house}\n{box_id}\n{challenge}\n")
}
