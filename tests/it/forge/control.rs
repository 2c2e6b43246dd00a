//! Compiles: the honest way, from verdict through the ledger to what is sent.

use gateway::flow::inject::{Outbound, inject};
use gateway::flow::judge::{Pass, Ruling, request};
use gateway::house::House;

pub async fn honest(house: &House, pass: &Pass) -> Option<Outbound> {
    let rules = house.rules();
    let verdict = request(&rules.policy, pass, any());
    let (ruling, _line) = house.ledger.enter(verdict).await.ok()?;
    match ruling {
        Ruling::Relay(permit) => inject(&rules.vault, permit).ok(),
        Ruling::Answer(_) => None,
    }
}

fn any<T>() -> T {
    loop {}
}
