//! Refused with E0451: what is sent comes out of the injection alone.

use gateway::flow::inject::Outbound;

pub fn forged(good: Outbound) -> Outbound {
    Outbound { ..good }
}
