//! The newest engine that Debian has: fetched with package lists of its own from the archive that the machine uses,
//! unpacked below the target folder, installed nowhere.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;
use crate::tools::Tools;

/// The folder that the packages are unpacked in; they are fetched where it is not there.
pub(super) fn root() -> Result<PathBuf> {
    let root = Tools::target()?.join("docker-new");
    if !root.is_dir() {
        let mut fetch = Command::new("sh");
        fetch.args(["-euc", FETCH, "sh"]).arg(&root).arg(archive()?);
        let fetched = process::run(fetch, None, Duration::from_secs(300)).and_then(|ran| ran.expect_code(0));
        fetched.context("fetch docker.io, docker-compose and docker-buildx from Debian's archive")?;
    }
    Ok(root)
}

/// Debian's archive as the machine's own sources name it.
fn archive() -> Result<String> {
    let mut asked = Command::new("apt-get");
    asked.args(["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"]);
    let told = process::run(asked, None, Duration::from_secs(30))?.expect_code(0)?.text();
    let found = told.lines().find_map(|line| line.strip_prefix("Debian "));
    found.map(str::to_owned).context("apt's sources name no archive of Debian, or its lists were never fetched")
}

/// The newest release whose programs run on this machine's libc.
const FETCH: &str = r#"
work=$1.fetched
rm -rf "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
: > "$work/status"
key=/usr/share/keyrings/debian-archive-keyring.gpg
signed=
test ! -f "$key" || signed="[signed-by=$key]"
for suite in sid trixie; do
    echo "deb $signed $2 $suite main" > "$work/sources.list"
    set -- "$1" "$2" -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
        -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any -o Acquire::Retries=1 -o Acquire::http::Timeout=20 \
        -o Acquire::Languages=none
    root=$1
    (
        shift 2
        apt-get "$@" update
        cd "$work/debs"
        apt-get "$@" download docker.io docker-cli docker-compose docker-buildx containerd
    )
    for package in "$work"/debs/*.deb; do
        dpkg-deb -x "$package" "$work/root"
    done
    bin=$work/root/usr
    if "$bin/sbin/dockerd" --version && "$bin/bin/containerd" --version && "$bin/bin/docker" --version; then
        mv "$work/root" "$root"
        rm -rf "$work"
        exit 0
    fi
    rm -rf "$work/root" "$work"/debs/*
    set -- "$root" "$2"
done
echo "neither sid's nor trixie's programs run here" >&2
exit 1
"#;
