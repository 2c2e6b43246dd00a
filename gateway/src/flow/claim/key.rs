//! Whether a claim at a TCP door proves the box key. A missing proof and a wrong one are told alike.

use box_spec::wire::{PROOF_HEADER, proof_text};
use box_spec::{ClaimReason, ClaimRefused};
use http::HeaderMap;

use crate::house::{BoxHouse, House};

/// At a unix door there is nothing to prove: who reaches it is the box.
pub(super) fn is_proven(house: &House, here: &BoxHouse, challenge: Option<&str>, headers: &HeaderMap) -> bool {
    let Some(key) = &here.key else { return true };
    let mut shown = headers.get_all(PROOF_HEADER).into_iter();
    let (Some(challenge), Some(proof), None) = (challenge, shown.next(), shown.next()) else { return false };
    let text = proof_text(&house.fingerprint, &here.id, challenge);
    proof.to_str().is_ok_and(|proof| key.proves(&text, proof))
}

/// The one answer to whoever does not have the key.
pub(super) fn refused() -> ClaimRefused {
    super::refused(
        ClaimReason::WrongKey,
        "a claim at this door needs its box key",
        "give boxd by BOXGATE_KEY_FILE the file that is `key_file` of this [[box]] in the house's configuration",
    )
}
