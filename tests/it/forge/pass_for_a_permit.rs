//! Refused with E0308: a pass is no permit.

use gateway::flow::inject::inject;
use gateway::flow::judge::Pass;
use gateway::vault::Vault;

pub fn passed(vault: &Vault, pass: Pass) {
    let _sent = inject(vault, pass);
}
