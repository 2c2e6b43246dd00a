//! Refused with E0308: a permit is not relayed before its credential is in.

use gateway::flow::judge::Permit;
use gateway::flow::relay::{Upstreams, relay};

pub fn bare(upstreams: &Upstreams, permit: Permit) {
    let _answer = relay(upstreams, permit, loop {});
}
