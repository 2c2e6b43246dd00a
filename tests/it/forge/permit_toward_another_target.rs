//! Refused with E0616: a permit cannot be turned toward another target.

use gateway::flow::judge::Permit;

pub fn turned(permit: &mut Permit) {
    permit.target = loop {};
}
