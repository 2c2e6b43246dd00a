//! The engine's way in: libFuzzer calls it with one input after the other. `BOXGATE_FUZZ` names the target.
#![no_main]
#![expect(clippy::disallowed_methods, reason = "the engine's macro can write an input to a file")]

use std::sync::LazyLock;

use fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("BOXGATE_FUZZ").unwrap_or_default();
    let target = fuzz::TARGETS.iter().find(|target| target.name == name);
    *target.unwrap_or_else(|| panic!("BOXGATE_FUZZ={name:?} names no target: use `cargo xtask fuzz {name}`"))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.holds)(data));
