//! Refused with E0451: nobody but the judge makes a pass.

use gateway::flow::judge::Pass;

pub fn forged() -> Pass {
    Pass { caller: any(), target: any() }
}

fn any<T>() -> T {
    loop {}
}
