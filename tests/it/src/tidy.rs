//! The rules of the house that no compiler holds: who may name whom, what is done in one file only, and what must not be there.

mod sources;
mod crates;
mod fences;
mod texts;
mod coverage;
mod pages;

use harness::{Case, case};

pub(crate) const CASES: &[Case] = &[
    case("tidy::crates_depend_one_way", crates::depend_one_way),
    case("tidy::gateway_and_boxd_never_name_each_other", crates::never_name_each_other),
    case("tidy::what_has_one_place_is_done_there", fences::one_place),
    case("tidy::a_step_never_names_a_later_step", fences::steps_in_order),
    case("tidy::a_part_never_names_a_step", fences::parts_below_steps),
    case("tidy::sources_open_with_a_sentence_and_stay_short", texts::opening_and_length),
    case("tidy::nothing_is_left_to_do", texts::nothing_to_do),
    case("tidy::no_text_names_a_path_of_a_machine", texts::no_machine_paths),
    case("tidy::lockfiles_name_no_registry_host", texts::lockfiles),
    case("tidy::every_test_of_the_coverage_table_exists", coverage::names_exist),
    case("tidy::every_test_that_a_page_names_exists", pages::names_exist),
    case("tidy::every_fact_of_an_attestation_has_its_planted_fault", pages::facts_are_planted),
    case("tidy::the_matrix_of_the_docs_is_the_one_that_is_tested", coverage::matrix_is_published),
    case("tidy::links_of_the_docs_lead_somewhere", texts::links),
];
