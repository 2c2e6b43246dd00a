//! The integration tests, one binary: real processes, real TLS, real agents. Each module is a list of cases.

mod tidy;
mod forge;
mod elf;
mod standin;
mod bare;
mod door;
mod launch;
mod seeds;
mod called;
mod exec;
mod stock;
mod isolated;
mod hardened;
mod doctor;
mod claude;
mod mcp;
mod known;
mod codex;
mod logins;
mod service;
mod house;
mod matrix;
mod slow;
mod trust;
mod attack2;
mod attack3;
mod attack4;
mod wire;
mod proof;
mod replay;
mod thirty;
mod planted;
mod crash;
mod attack;
mod tcp;
mod count;
mod docker;
mod pages;

use std::process::ExitCode;

fn main() -> ExitCode {
    let modules: &[&[harness::Case]] = &[
        tidy::CASES,
        forge::CASES,
        elf::CASES,
        standin::CASES,
        standin::openai::CASES,
        bare::CASES,
        bare::MATRIX,
        door::CASES,
        launch::CASES,
        seeds::CASES,
        called::CASES,
        exec::CASES,
        stock::CASES,
        isolated::CASES,
        hardened::CASES,
        doctor::CASES,
        claude::CASES,
        mcp::CASES,
        known::CASES,
        codex::CASES,
        logins::CASES,
        service::CASES,
        house::CASES,
        proof::CASES,
        replay::CASES,
        thirty::CASES,
        planted::CASES,
        trust::CASES,
        attack2::wire::CASES,
        attack2::words::CASES,
        attack2::lives::CASES,
        attack2::more::CASES,
        attack3::handshake::CASES,
        attack3::session::CASES,
        attack3::accounts::CASES,
        attack4::sessions::CASES,
        attack4::poison::CASES,
        attack4::turns::CASES,
        crash::disk::CASES,
        crash::verify::CASES,
        crash::kill::CASES,
        crash::restart::CASES,
        crash::state::CASES,
        crash::checkpoint::CASES,
        attack::door::CASES,
        attack::claim::CASES,
        attack::flood::CASES,
        attack::lost::CASES,
        tcp::CASES,
        count::CASES,
        docker::CASES,
        docker::powers::CASES,
        docker::mistakes::CASES,
        docker::devcontainer::CASES,
        docker::engines::CASES,
        docker::clients::CASES,
        pages::CASES,
        docker::images::CASES,
        docker::down::CASES,
        docker::network::CASES,
        docker::attacks::CASES,
        docker::shells::CASES,
        docker::reload::CASES,
        pages::manifests::CASES,
    ];
    harness::case::run(&[modules.concat(), wire::MODULES.concat(), matrix::cases(), slow::cases()].concat())
}
