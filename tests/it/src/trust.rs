//! The box itself: what it gives away, what it says of its end, what it sets up, and what it costs.

mod secret;
mod reach;
mod loopback;
mod codes;
mod stop;
mod home;
mod surroundings;
mod output;
mod record;
mod cost;

use std::time::Duration;

use anyhow::{Context, Result};
use harness::fakes::FakeAgents;
use harness::{BoxRun, Case, House, HouseBuilder, Need, Ran, case};
use serde_json::Value;
use standin::Real;

pub(crate) const CASES: &[Case] = &[
    case("trust::the_secret_is_nowhere_in_the_box_while_claude_runs_and_after", secret::nowhere).needs(CLAUDE),
    case("trust::the_secret_is_nowhere_in_an_ordinary_users_box", secret::nowhere_as_user).needs(CLAUDE_AS_USER),
    case("trust::no_answer_of_the_house_holds_the_secret", secret::in_no_answer).needs(&[Need::Gateway]),
    case("trust::a_key_in_the_callers_environment_never_reaches_the_agent", secret::callers_environment).needs(BOXED),
    case("trust::an_ordinary_users_box_reaches_nothing_of_his", reach::nothing_of_the_user).needs(BOXED_AS_USER),
    case("trust::the_box_of_root_reaches_no_socket_of_the_host", reach::no_host_socket).needs(BOXED_AS_ROOT),
    case("trust::every_way_out_fails_at_once", reach::no_way_out).needs(BOXED).alone(),
    case("trust::every_way_out_of_an_ordinary_users_box_fails_at_once", reach::no_way_out_as_user)
        .needs(BOXED_AS_USER)
        .alone(),
    case("trust::a_server_on_the_boxs_own_loopback_is_reached_through_the_proxy_alone", loopback::server).needs(BOXED),
    case("trust::all_256_exit_codes_are_the_agents_own", codes::all_codes).needs(OPEN),
    case("trust::a_death_by_signal_is_128_and_its_number", codes::signals).needs(BOXED),
    case("trust::a_group_signal_of_the_agent_does_not_reach_boxd", codes::group_signal).needs(BOXED),
    case("trust::a_thousand_orphans_leave_no_zombie", codes::no_zombies).needs(BOXED),
    case("trust::an_agent_is_given_time_to_flush", stop::time_to_flush).needs(BOXED).alone(),
    case("trust::a_deaf_agent_is_killed_after_the_grace", stop::deaf).needs(BOXED).alone(),
    case("trust::a_deaf_child_of_a_gone_agent_is_killed", stop::deaf_child).needs(BOXED).alone(),
    case("trust::each_signal_is_passed_on_once", stop::passed_on_once).needs(BOXED).alone(),
    case("trust::a_second_term_shortens_the_grace_and_skips_no_flush", stop::second_term).needs(BOXED).alone(),
    case("trust::an_early_term_is_not_lost", stop::early_term).needs(BOXED).alone(),
    case("trust::an_agent_whose_run_an_operator_stops_ends_with_143", stop::by_operator).needs(BOXED),
    case("trust::a_claim_that_breaks_before_the_word_to_go_frees_the_door", stop::broken_claim).needs(&[Need::Gateway]),
    case("trust::a_helper_in_its_own_session_dies_with_the_run_and_strangers_live", stop::own_session).needs(OPEN),
    case("trust::every_sentinel_file_can_be_replaced_by_the_agent", home::replaceable).needs(BOXED),
    case("trust::an_ordinary_user_gets_the_same_private_files", home::as_user).needs(OPEN_AS_USER),
    case("trust::a_home_that_cannot_be_used_is_moved", home::unusable).needs(OPEN_AS_USER),
    case("trust::a_users_own_files_are_kept", home::users_own).needs(OPEN),
    case("trust::what_a_launch_generates_it_generates_every_time", home::every_time).needs(OPEN),
    case("trust::links_and_folders_in_the_place_of_files_are_refused", home::links).needs(OPEN),
    case("trust::clients_of_every_family_are_told_proxy_and_roots", surroundings::variables).needs(BOXED),
    case("trust::reserved_names_are_refused_in_both_cases", surroundings::reserved).needs(&[Need::Boxd]),
    case("trust::root_is_told_of_the_sandbox_unless_the_user_said_otherwise", surroundings::sandbox)
        .needs(OPEN_AS_ROOT),
    case("trust::claude_tells_its_version_without_a_house", surroundings::version).needs(CLAUDE),
    case("trust::a_prompt_that_looks_like_an_option_reaches_claude", surroundings::dashes).needs(CLAUDE),
    case("trust::the_callers_arguments_cannot_undo_the_fixed_ones", surroundings::fixed_flags).needs(OPEN),
    case("trust::an_agent_can_connect_in_its_first_instruction", surroundings::first_instruction).needs(BOXED),
    case("trust::an_isolated_box_is_told_no_path_of_the_host", surroundings::no_host_path).needs(BOXED),
    case("trust::another_agent_than_the_boxs_is_refused_by_both_names", surroundings::another_agent).needs(OPEN),
    case("trust::a_busy_port_moves_the_shim_and_the_variables_follow", surroundings::busy_port).needs(OPEN),
    case("trust::any_bytes_survive_on_standard_output", output::any_bytes).needs(OPEN),
    case("trust::a_full_disk_does_not_stop_the_agent", output::full_disk).needs(OPEN_AS_ROOT),
    case("trust::a_reader_that_left_does_not_stop_the_agent", output::reader_gone).needs(OPEN),
    case("trust::standard_error_passes_through", output::stderr).needs(OPEN),
    case("trust::the_report_has_length_and_hash_of_the_transcript", output::transcript).needs(OPEN),
    case("trust::a_prompt_is_in_no_log", output::prompt_unlogged).needs(BOXED),
    case("trust::an_agent_that_lingers_after_its_answer_is_ended", output::lingers).needs(OPEN),
    case("trust::a_run_has_a_record_with_every_field", record::fields).needs(OPEN),
    case("trust::a_record_is_never_seen_half_written", record::atomic).needs(OPEN),
    case("trust::the_verdict_follows_the_houses_evidence", record::verdicts).needs(OPEN),
    case("trust::two_runs_of_one_second_have_two_ids", record::ids).needs(OPEN),
    case("trust::the_agent_starts_within_ten_milliseconds", cost::start).needs(OPEN).alone(),
    case("trust::the_isolated_agent_starts_within_twenty_milliseconds", cost::start_isolated).needs(BOXED).alone(),
    case("trust::boxd_stays_small_with_32_tunnels_and_a_gibibyte", cost::memory).needs(BOXED).alone(),
];

/// Runs a Python agent that fills `out`, and gives back what it found.
fn probe(launch: &BoxRun, body: &str) -> Result<Value> {
    let program =
        format!("import errno, json, os, socket, stat, sys, time\nout = {{}}\n{body}\nprint(json.dumps(out))");
    let fakes = FakeAgents::python(&program)?;
    let ran = launch.clone().agents(fakes.folder()).prompt("hi").run(SOON)?.expect_code(0)?;
    serde_json::from_slice(&ran.stdout).with_context(|| format!("parse {}", ran.text()))
}

/// Runs a shell script as the agent, in a box of this kind.
fn shell(house: &House, isolated: bool, script: &str) -> Result<Ran> {
    let fakes = FakeAgents::shell(script)?;
    launch(house, isolated)?.agents(fakes.folder()).run(SOON)
}

fn launch(house: &House, isolated: bool) -> Result<BoxRun> {
    let launch = BoxRun::new(house, "one")?.prompt("hi");
    Ok(if isolated { launch.isolated() } else { launch })
}

/// A house for boxes of both kinds.
fn house() -> Result<House> {
    builder().start()
}

fn builder() -> HouseBuilder {
    House::builder().secret(Real::Bearer(SECRET.into())).open_network()
}

/// All reports in the ledger, the oldest first.
fn reports(house: &House) -> Result<Vec<Value>> {
    Ok(house.ledger()?.into_iter().filter(|line| line["kind"] == "report").collect())
}

/// The facts of the newest report in the ledger.
fn last_facts(house: &House) -> Result<Value> {
    Ok(reports(house)?.pop().context("no report is in the ledger")?["facts"].clone())
}

const SECRET: &str = "sk-ant-oat01-REAL-of-the-box-5d1e8a7c90";
const KEY: &str = "sk-ant-api03-REAL-of-the-box-c04b77e21f";
/// An ordinary user who is in no list of users.
const USER: u32 = 23_456;
const SOON: Duration = Duration::from_secs(60);
const OPEN: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python];
const OPEN_AS_ROOT: &[Need] = &[Need::Gateway, Need::Boxd, Need::Root];
const OPEN_AS_USER: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python, Need::Root];
const BOXED: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python, Need::Namespaces];
const BOXED_AS_ROOT: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python, Need::Namespaces, Need::Root];
const BOXED_AS_USER: &[Need] = BOXED_AS_ROOT;
const CLAUDE_AS_USER: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces, Need::Root];
const CLAUDE: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces];
