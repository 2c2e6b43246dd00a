//! Refused with E0382: a permit is used up by its use.

use gateway::flow::inject::inject;
use gateway::flow::judge::Permit;
use gateway::vault::Vault;

pub fn twice(vault: &Vault, permit: Permit) {
    let _first = inject(vault, permit);
    let _second = inject(vault, permit);
}
