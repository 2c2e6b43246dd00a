//! Refused with E0616: what was injected cannot be sent with another head.

use gateway::flow::inject::Outbound;

pub fn swapped(outbound: &mut Outbound) {
    outbound.head = loop {};
}
