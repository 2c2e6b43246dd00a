//! Credentials of services: git hosts, registries, APIs. The real one is set in transit, and the box never has it.

mod base;
mod sent;
mod git;
mod exposed;

use harness::{Case, Need, case};

pub(crate) const CASES: &[Case] = &[
    case("service::whatever_a_box_sends_the_service_gets_the_houses_credential_alone", sent::overwritten).needs(HOUSE),
    case("service::one_secret_is_sent_to_each_host_in_its_own_way", sent::each_way).needs(HOUSE),
    case("service::without_its_secret_nothing_goes_to_the_service", sent::outage).needs(HOUSE),
    case("service::a_rejected_credential_is_an_outage_of_the_house", sent::rejected).needs(HOUSE),
    case("service::git_clones_and_pushes_though_the_box_knows_no_password", git::clone_and_push).needs(GIT),
    case("service::git_hears_that_the_houses_password_is_wrong", git::wrong_way).needs(GIT),
    case("service::stock_clients_take_up_what_is_exposed_and_the_real_one_goes_out", exposed::clients).needs(CLIENTS),
    case("service::npm_and_pip_reach_a_private_registry", exposed::npm_and_pip).needs(REGISTRIES),
    case("service::a_stand_in_astray_is_an_alarm_and_goes_nowhere", exposed::astray).needs(HOUSE),
    case("service::each_run_has_its_stand_in_before_the_secret_is_there", exposed::over_time).needs(HOUSE),
];

const HOUSE: &[Need] = &[Need::Gateway];
const CLIENTS: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces, Need::Python, Need::Git, Need::Curl];
const REGISTRIES: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces, Need::Python, Need::Npm, Need::Pip];
const GIT: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces, Need::Python, Need::Git];
