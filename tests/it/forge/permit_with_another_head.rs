//! Refused with E0616: a permit cannot be sent with another head.

use gateway::flow::judge::Permit;

pub fn swapped(permit: &mut Permit) {
    permit.head = loop {};
}
