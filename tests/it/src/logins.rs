//! Logins of the host: used as they are, refreshed by the house alone, once, and kept for both.

mod base;
mod chain;
mod once;
mod agents;
mod person;

use harness::{Case, Need, case};

pub(crate) const CASES: &[Case] = &[
    case("logins::two_boxes_at_once_make_one_refresh", once::two_boxes).needs(GATEWAY),
    case("logins::two_gateways_on_one_folder_make_one_refresh", once::two_gateways).needs(GATEWAY),
    case("logins::a_box_that_leaves_does_not_lose_the_refresh", once::box_leaves).needs(GATEWAY),
    case("logins::what_the_hosts_own_agent_renewed_is_adopted", once::adopted).needs(GATEWAY),
    case("logins::a_renewal_by_the_host_during_the_refresh_is_kept", once::host_is_faster).needs(GATEWAY),
    case("logins::after_a_kill_right_after_a_rotation_the_next_start_works", once::killed).needs(GATEWAY),
    case("logins::a_broken_chain_is_told_and_never_asked_again", chain::broken).needs(GATEWAY),
    case("logins::without_the_token_host_what_is_valid_is_used_and_what_ended_is_not", chain::unreachable)
        .needs(GATEWAY),
    case("logins::a_token_host_that_is_not_trusted_is_told_nothing", chain::untrusted).needs(GATEWAY),
    case("logins::a_full_disk_spends_no_refresh_token_and_a_kill_then_loses_no_login", chain::full_disk)
        .needs(&[Need::Gateway, Need::Mounts]),
    case("logins::a_person_is_not_asked_for_a_login_that_could_not_be_kept", person::no_place)
        .needs(&[Need::Gateway, Need::Mounts]),
    case("logins::a_folder_that_keeps_no_login_is_refused_at_start", chain::unkeepable).needs(AS_USER),
    case("logins::an_ordinary_user_keeps_a_refreshed_login_as_his_own", chain::ordinary_user).needs(AS_USER),
    case("logins::the_real_refresh_token_reaches_no_box", chain::nowhere).needs(GATEWAY),
    case("logins::a_file_comes_before_a_login_which_serves_without_it", once::file_first).needs(GATEWAY),
    case("logins::credential_lists_and_tests", chain::listed).needs(GATEWAY),
    case("logins::a_person_logs_in_at_anthropic_by_a_pasted_code", person::pastes).needs(GATEWAY),
    case("logins::a_person_logs_in_at_openai_by_a_device_code", person::types).needs(GATEWAY).waiting(),
    case("logins::a_login_that_fails_writes_nothing_and_names_the_fix", person::fails).needs(GATEWAY).waiting(),
    case("logins::ctrl_c_leaves_nothing_of_a_login", person::gives_up).needs(GATEWAY),
    case("logins::claude_runs_on_a_hosts_login_after_its_end", agents::claude).needs(CLAUDE),
    case("logins::codex_runs_on_a_hosts_login_after_its_end", agents::codex).needs(CODEX),
    case("logins::pi_runs_on_a_hosts_login_after_its_end", agents::pi).needs(PI),
];

const GATEWAY: &[Need] = &[Need::Gateway];
const AS_USER: &[Need] = &[Need::Gateway, Need::Root];
const CLAUDE: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces];
const CODEX: &[Need] = &[Need::Gateway, Need::Boxd, Need::Codex, Need::Namespaces];
const PI: &[Need] = &[Need::Gateway, Need::Boxd, Need::Pi, Need::Namespaces];
