//! Refused with E0451: no permit is made of another's fields.

use gateway::flow::judge::Permit;

pub fn forged(good: Permit) -> Permit {
    Permit { ..good }
}
