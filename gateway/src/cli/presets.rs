//! `gateway presets`: which grants the house knows by a name, and what each means. Asks nobody.

use std::fmt::Write;

use crate::config::presets::{self, Preset};

/// Each with what it is, one a line.
#[must_use]
pub fn list() -> String {
    let mut out = String::new();
    for preset in presets::all() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:<14} {}", preset.name, preset.about());
    }
    out
}

/// The grants that a preset stands for, to be pasted; `None` where there is none of the name.
#[must_use]
pub fn show(name: &str, secret: Option<&str>) -> Option<String> {
    presets::named(name).map(|preset| shown(preset, secret))
}

fn shown(preset: &Preset, secret: Option<&str>) -> String {
    let name = preset.name;
    let how = match secret {
        Some(secret) => format!("preset = {name:?} with secret = {secret:?}"),
        None if preset.takes_secret() => {
            format!("preset = {name:?}; --secret NAME shows it with a [[secret]] of yours")
        }
        None => format!("preset = {name:?}; it takes no secret"),
    };
    format!("# What stands for {how}.\n{}", preset.shown(secret))
}
