//! The integration tests, one binary: real processes, real TLS, real agents. Each module is a list of cases.

mod tidy;
mod forge;
mod elf;
mod standin;
mod bare;
mod door;
mod house;

use std::process::ExitCode;

fn main() -> ExitCode {
    let modules: [&[harness::Case]; 7] =
        [tidy::CASES, forge::CASES, elf::CASES, standin::CASES, bare::CASES, door::CASES, house::CASES];
    harness::case::run(&modules.concat())
}
