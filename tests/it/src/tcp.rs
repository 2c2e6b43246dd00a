//! The TCP door: its key, its pin, a network that leads to the house alone, and what becomes of a run whose claim breaks.

mod boxes;
mod claims;

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use box_spec::wire::{Identity, proof_text};
use harness::network::free_port;
use harness::{Case, House, HouseBuilder, Need, case};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use standin::{Options, Real, StandIn};

pub(crate) const CASES: &[Case] = &[
    case("tcp::a_claim_needs_the_key_of_its_own_door", claims::keys).needs(&[Need::Gateway]),
    case("tcp::who_knocks_without_the_key_at_a_held_door_is_an_alarm", claims::knocks).needs(&[Need::Gateway]),
    case("tcp::a_broken_claim_waits_and_is_taken_up_again", claims::taken_up).needs(&[Need::Gateway]),
    case("tcp::a_run_that_does_not_come_back_is_cut", claims::lost).needs(&[Need::Gateway]),
    case("tcp::the_fingerprint_is_written_for_the_box_and_the_address_told", claims::told).needs(&[Need::Gateway]),
    case("tcp::what_a_tcp_door_needs_is_told_with_its_fix", boxes::mistakes).needs(BOTH),
    case("tcp::a_network_that_leads_further_is_77", boxes::further).needs(NETWORK),
    case("tcp::a_doctor_beside_a_run_takes_it_for_no_fault_of_the_network", boxes::beside_a_run).needs(NETWORK),
    case("tcp::an_isolated_box_has_neither_the_key_nor_the_network", boxes::isolated).needs(&[
        Need::Gateway,
        Need::Boxd,
        Need::Namespaces,
    ]),
    case("tcp::a_run_whose_network_stays_away_ends_with_69", boxes::never_back).needs(BOTH).waiting(),
    case("tcp::claude_runs_over_a_network_that_breaks_and_a_house_that_restarts", boxes::claude).needs(&[
        Need::Gateway,
        Need::Boxd,
        Need::Networks,
        Need::Agent,
    ]),
];

const BOTH: &[Need] = &[Need::Gateway, Need::Boxd];
const NETWORK: &[Need] = &[Need::Gateway, Need::Boxd, Need::Networks, Need::Python];
const KEY: &str = "the-box-key-of-the-tcp-door-of-one-5f1c";
const OTHER: &str = "the-box-key-of-the-tcp-door-of-two-93ab";
const LOGIN: &str = "sk-ant-oat01-REAL-LOGIN-behind-the-tcp-door";
const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// A house with a box `over`, which it listens for at this address, beside the unix door of `one`.
fn with_door(at: SocketAddr, lines: &str) -> HouseBuilder {
    let loopback = if at.ip().is_loopback() { "unsafe_loopback = true\n" } else { "" };
    House::builder().secret(Real::Bearer(LOGIN.into())).file("over.key", KEY.as_bytes()).extra(&format!(
        "\n[[box]]\nid = \"over\"\nagent = \"claude\"\nlisten = \"{at}\"\nkey_file = \"over.key\"\nhouse_file = \"over.house\"\n{loopback}{lines}"
    ))
}

/// The same, with claude's models at a stand-in.
fn with_model(at: SocketAddr, lines: &str) -> Result<(StandIn, HouseBuilder)> {
    let real = Real::Bearer(LOGIN.into());
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let house = with_door(at, lines).model_at(&standin, real);
    Ok((standin, house))
}

fn somewhere() -> Result<SocketAddr> {
    free_port(LOOPBACK)
}

/// The proof of this key on what a door says of itself.
fn proof(key: &str) -> impl Fn(&Identity) -> Option<String> {
    move |identity| {
        let text = proof_text(&identity.house, &identity.box_id, identity.challenge.as_deref()?);
        proof_on(key, &text)
    }
}

fn proof_on(key: &str, text: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
    mac.update(text.as_bytes());
    Some(mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn kinds(house: &House, run: &str) -> Result<Vec<String>> {
    let all = house.ledger().context("read the ledger")?;
    let of_run = all.iter().filter(|line| line["run"] == run);
    Ok(of_run.filter_map(|line| line["kind"].as_str().map(str::to_owned)).collect())
}
