//! Refused with E0451: nobody but the judge makes a permit.

use gateway::flow::judge::Permit;

pub fn forged() -> Permit {
    Permit { caller: any(), target: any(), scheme: any(), grant: any(), head: any() }
}

fn any<T>() -> T {
    loop {}
}
