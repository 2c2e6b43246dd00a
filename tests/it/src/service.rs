//! Credentials of services: git hosts, registries, APIs. The real one is set in transit, and the box never has it.

mod base;
mod sent;
mod git;

use harness::{Case, Need, case};

pub(crate) const CASES: &[Case] = &[
    case("service::whatever_a_box_sends_the_service_gets_the_houses_credential_alone", sent::overwritten).needs(HOUSE),
    case("service::one_secret_is_sent_to_each_host_in_its_own_way", sent::each_way).needs(HOUSE),
    case("service::without_its_secret_nothing_goes_to_the_service", sent::outage).needs(HOUSE),
    case("service::a_rejected_credential_is_an_outage_of_the_house", sent::rejected).needs(HOUSE),
    case("service::git_clones_and_pushes_though_the_box_knows_no_password", git::clone_and_push).needs(GIT),
    case("service::git_hears_that_the_houses_password_is_wrong", git::wrong_way).needs(GIT),
];

const HOUSE: &[Need] = &[Need::Gateway];
const GIT: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces, Need::Python, Need::Git];
