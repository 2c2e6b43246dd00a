//! Images of Debian's releases, made by debootstrap from the archive that the machine uses, and kept for the next time.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use super::{Engine, Generation};
use crate::tools::Tools;

impl Engine {
    /// The machine's own engine, and in it an image of a release with the clients that people use in a box.
    ///
    /// # Errors
    ///
    /// When there is no engine, or the release cannot be had.
    pub fn with_clients(release: &'static str) -> Result<(&'static Self, String)> {
        static MADE: Mutex<BTreeMap<&str, Result<(), String>>> = Mutex::new(BTreeMap::new());
        let engine = Self::raised(Generation::Old).map_err(|fault| anyhow::anyhow!("{fault}"))?;
        let image = format!("clients:{release}");
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || engine.release(release, &CLIENTS, &image).map_err(|fault| format!("{fault:#}"));
        let outcome = made.entry(release).or_insert_with(make).clone();
        outcome.map(|()| (engine, image)).map_err(|fault| anyhow::anyhow!("{fault}"))
    }

    /// Makes an image of a release with these packages besides what every Debian has.
    pub(super) fn release(&self, release: &str, packages: &[&str], image: &str) -> Result<()> {
        let packages = packages.join(",");
        let kept = match packages.as_str() {
            "" => "docker-base".to_owned(),
            more => format!(
                "docker-{release}-{:08x}",
                more.bytes().fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(byte))
            ),
        };
        let tar = Tools::target()?.join(kept).with_extension("tar");
        if !tar.is_file() {
            let mut make = Command::new("sh");
            make.args(["-euc", DEBOOTSTRAP, "sh"]).arg(self.folder.join("root")).arg(&tar).args([release, &packages]);
            self.must(make).with_context(|| format!("make an image of {release} by debootstrap"))?;
        }
        let tar = tar.to_str().context("a path in UTF-8")?;
        self.must(self.docker(&["import", tar, image])).map(drop)
    }
}

const CLIENTS: [&str; 7] =
    ["ca-certificates", "curl", "wget", "git", "python3-requests", "python3-httpx", "python3-pip"];
const DEBOOTSTRAP: &str = r#"
debootstrap --variant=minbase ${4:+"--include=$4"} "$3" "$1"
tar -C "$1" -cf "$2.new" . && mv "$2.new" "$2"
rm -rf "$1"
"#;
