//! The two generations of engines: what the machine's own packages are, and the newest that Debian has.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use anyhow::Result;

use super::newer;

/// Whose programs make an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generation {
    /// The machine's own packages: on Debian 12 an engine 20.10 with its old builder, and docker-compose 1.29.
    Old,
    /// Of Debian's archive, unpacked and not installed: an engine 28 or newer with `BuildKit`, and Compose 2.
    New,
}

/// Where the programs of an engine are.
pub(super) struct Programs {
    /// `PATH` for the engine and its clients.
    pub(super) path: OsString,
    /// The folder of `docker`'s plugins, where it is not the usual one.
    pub(super) plugins: Option<PathBuf>,
}

impl Generation {
    /// The program that the machine would have to have, or nothing.
    pub(super) fn lacks(self) -> Option<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
        let programs: &[&str] = match self {
            Self::Old => &["dockerd", "docker", "docker-compose", "debootstrap", "setpriv", "tar"],
            Self::New => &["apt-get", "dpkg-deb", "runc", "ip", "debootstrap", "setpriv", "tar"],
        };
        programs.iter().find(|name| !found(name)).map(|name| format!("{name} is not installed"))
    }

    /// Those of the new generation are fetched at the first call.
    pub(super) fn programs(self) -> Result<Programs> {
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        match self {
            Self::Old => Ok(Programs { path, plugins: None }),
            Self::New => {
                let root = newer::root()?;
                let own = [root.join("usr/sbin"), root.join("usr/bin")];
                path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)))?;
                Ok(Programs { path, plugins: Some(root.join("usr/libexec/docker/cli-plugins")) })
            }
        }
    }

    /// The words before those of the caller.
    pub(super) fn compose(self) -> &'static [&'static str] {
        match self {
            Self::Old => &["docker-compose"],
            Self::New => &["docker", "compose"],
        }
    }

    pub(super) fn buildkit(self) -> &'static str {
        match self {
            Self::Old => "0",
            Self::New => "1",
        }
    }

    /// `BuildKit` runs the steps of a Dockerfile on the default bridge, and without one it runs none.
    pub(super) fn bridge(self) -> &'static str {
        match self {
            Self::Old => "none",
            Self::New => "own",
        }
    }

    /// Addresses for networks: engines that run side by side share none.
    pub(super) fn pool(self) -> &'static str {
        match self {
            Self::Old => "172.29.0.0/16",
            Self::New => "172.30.0.0/16",
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Old => "old",
            Self::New => "new",
        })
    }
}
