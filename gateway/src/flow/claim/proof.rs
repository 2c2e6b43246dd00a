//! Which proof of an attestation does not do, in words that name the fix.

use box_spec::{Attestation, Layer};

use crate::config::BoxConfig;

/// The first proof that is missing and that the house does not waive for this box.
pub(super) fn missing(attestation: &Attestation, here: &BoxConfig) -> Option<String> {
    let Attestation {
        locked,
        non_dumpable,
        no_new_privileges,
        // Compared with the claim.
        namespace_init: _,
        // A house that is not pinned is a fact that the ledger tells.
        pinned: _,
        trusts_house,
        secret_free,
        layers,
        uid: _,
        agent_version: _,
        facts: _,
    } = attestation;
    let proofs = [
        (*locked || here.unsafe_open_network, "locked: the box has a network of its own"),
        (*non_dumpable, "non_dumpable: boxd's memory can be read in the box"),
        (*no_new_privileges, "no_new_privileges: a set-uid program would give the agent powers"),
        (*trusts_house, "trusts_house: the files of certificates in the session's `trust` folder were changed"),
        (
            *secret_free || here.unsafe_secrets_in_box,
            "secret_free: a secret of this house is in the box, where boxd's own line says; take it out, or set `unsafe_secrets_in_box = true` for the box",
        ),
    ];
    if let Some((_, which)) = proofs.into_iter().find(|(holds, _)| !holds) {
        return Some(which.to_owned());
    }
    // Only a scope is something that a kernel may be too old for.
    let is_whole = |name: &str, layer: &Layer| match layer {
        Layer::On => true,
        Layer::Absent => name == "scope",
        Layer::LeftOut(_) => false,
    };
    let missing = layers.named().into_iter().find(|(name, layer)| !is_whole(name, layer));
    let (name, _) = missing.filter(|_| !here.unsafe_unhardened)?;
    Some(format!(
        "layers: the box was started without its {name}; leave out --unsafe-without, or set `unsafe_unhardened = true` for the box"
    ))
}
