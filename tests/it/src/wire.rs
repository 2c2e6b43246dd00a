//! Faults that others met on the wire, one case each, named for the fault.

mod base;
mod credentials;
mod hosts;
mod framing;
mod identity;
mod certificates;
mod leaves;
mod streaming;
mod bodies;
mod packed;
mod echo;
mod limits;
mod websocket;
mod house;
mod silence;
mod providers;
mod tunnels;
mod reload;
mod egress;
mod canaries;
mod rest;
mod rpc;
mod grants;

use harness::Case;

pub(crate) const MODULES: &[&[Case]] = &[
    credentials::CASES,
    hosts::CASES,
    framing::CASES,
    identity::CASES,
    certificates::CASES,
    leaves::CASES,
    streaming::CASES,
    bodies::CASES,
    packed::CASES,
    echo::CASES,
    limits::CASES,
    websocket::handshake::CASES,
    websocket::session::CASES,
    websocket::ends::CASES,
    house::CASES,
    silence::CASES,
    providers::CASES,
    tunnels::CASES,
    reload::CASES,
    reload::cut::CASES,
    egress::CASES,
    egress::sessions::CASES,
    egress::agents::CASES,
    canaries::CASES,
    rest::CASES,
    rpc::CASES,
    grants::CASES,
];
