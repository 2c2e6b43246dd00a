//! Refused with E0308: a verdict is no permit before the ledger has written it.

use gateway::flow::inject::inject;
use gateway::flow::judge::{Pass, request};
use gateway::house::House;

pub fn unwritten(house: &House, pass: &Pass) {
    let rules = house.rules();
    let _sent = inject(&rules.vault, request(&rules.policy, pass, loop {}));
}
