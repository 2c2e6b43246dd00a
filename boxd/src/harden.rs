//! Hardening: what the agent cannot do, whatever made its box. boxd takes all of it upon itself, and the agent inherits it;
//! but for the scope, which only the agent enters: it keeps the agent's signals from boxd.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::str::FromStr;

use box_spec::{Layer, Layers};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::Pid;
use thiserror::Error;

use crate::{filter, sys};

/// One layer of it, as `--unsafe-without` calls it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Which {
    Filter,
    Capabilities,
    Scope,
    Limits,
}

/// What the caller wants left out, and why.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LeftOut(BTreeMap<Which, String>);

#[derive(Debug, Error)]
pub(crate) enum HardenFault {
    #[error("{deed}; if this machine cannot do it, `--unsafe-without {layer}=REASON` goes on without")]
    Layer { deed: &'static str, layer: &'static str, source: io::Error },
}

/// Why an `--unsafe-without` is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum LeftOutFault {
    #[error("--unsafe-without takes LAYER=REASON, where LAYER is filter, capabilities, scope or limits")]
    Form,
    #[error("--unsafe-without {0}: name a reason, which the house writes down")]
    NoReason(&'static str),
}

/// Hardens this process, for ever and for all that it starts, and makes the scope that an agent is to enter. Needs
/// no_new_privs. Must be called while there is one thread.
pub(crate) fn harden(left_out: &LeftOut) -> Result<(Layers, Option<OwnedFd>), HardenFault> {
    let limits =
        left_out.or_else(Which::Limits, "forbid core files", || Ok(setrlimit(Resource::RLIMIT_CORE, 0, 0)?))?;
    let capabilities = left_out
        .or_else(Which::Capabilities, "give up capabilities", || sys::harden::keep_capabilities(KEPT_CAPABILITIES))?;
    let mut made = None;
    let mut scope = left_out.or_else(Which::Scope, "make the scope", || {
        made = sys::harden::scope()?;
        Ok(())
    })?;
    if made.is_none() && scope == Layer::On {
        scope = Layer::Absent;
    }
    let filter = left_out.or_else(Which::Filter, "install the system call filter", install_filter)?;
    Ok((Layers { filter, capabilities, scope, limits }, made))
}

/// Puts the filter on this process alone.
pub(crate) fn install_filter() -> io::Result<()> {
    sys::harden::install_filter(&mut filter::program())
}

/// Short of memory, the kernel is to take the agent before boxd, which must report. What the agent starts inherits that.
/// A score that is higher already stays: it needs a power to lower one.
pub(crate) fn offer_to_the_kernel(agent: Pid) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).open(format!("/proc/{agent}/oom_score_adj"))?;
    let mut score = String::new();
    file.read_to_string(&mut score)?;
    if score.trim().parse::<i32>().is_ok_and(|score| score >= OOM_SCORE) {
        return Ok(());
    }
    file.write_all(OOM_SCORE.to_string().as_bytes())
}

impl LeftOut {
    /// From what `--unsafe-without` says, each time it is given.
    pub(crate) fn read(given: &[String]) -> Result<Self, LeftOutFault> {
        let mut left_out = Self::default();
        for entry in given {
            let (which, reason) = entry.split_once('=').ok_or(LeftOutFault::Form)?;
            let which: Which = which.parse()?;
            let reason = reason.trim();
            if reason.is_empty() {
                return Err(LeftOutFault::NoReason(which.name()));
            }
            left_out.0.insert(which, reason.chars().filter(|c| !c.is_control()).take(REASON_LIMIT).collect());
        }
        Ok(left_out)
    }

    /// Each layer that is left out, with its reason.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(which, reason)| (which.name(), reason.as_str()))
    }

    /// Whether the limits are left out.
    pub(crate) fn has_limits(&self) -> bool {
        self.0.contains_key(&Which::Limits)
    }

    fn or_else(
        &self,
        which: Which,
        deed: &'static str,
        take: impl FnOnce() -> io::Result<()>,
    ) -> Result<Layer, HardenFault> {
        if let Some(reason) = self.0.get(&which) {
            return Ok(Layer::LeftOut(reason.clone()));
        }
        take().map_err(|source| HardenFault::Layer { deed, layer: which.name(), source })?;
        Ok(Layer::On)
    }
}

impl Which {
    const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Capabilities => "capabilities",
            Self::Scope => "scope",
            Self::Limits => "limits",
        }
    }
}

impl FromStr for Which {
    type Err = LeftOutFault;

    fn from_str(text: &str) -> Result<Self, LeftOutFault> {
        let all = [Self::Filter, Self::Capabilities, Self::Scope, Self::Limits];
        all.into_iter().find(|which| which.name() == text).ok_or(LeftOutFault::Form)
    }
}

/// What a container's root has by default and needs to install packages: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID,
/// SETUID, SETPCAP, NET_BIND_SERVICE, SYS_CHROOT and AUDIT_WRITE. Not what leads out of a privileged box, neither raw sockets
/// nor device nodes, and not SETFCAP, by which a file would have what the filter keeps from its set-uid bit.
const KEPT_CAPABILITIES: u64 =
    1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18 | 1 << 29;
/// Of -1000 to 1000.
const OOM_SCORE: i32 = 500;
const REASON_LIMIT: usize = 200;

#[cfg(test)]
mod tests {
    use super::{LeftOut, LeftOutFault};

    fn read(given: &[&str]) -> Result<LeftOut, LeftOutFault> {
        LeftOut::read(&given.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_layer_is_left_out_by_name_and_with_a_reason() {
        let left_out = read(&["filter=gdb must trace", "scope= a \u{1b}test "]).expect("good");
        assert_eq!(left_out.iter().collect::<Vec<_>>(), [("filter", "gdb must trace"), ("scope", "a test")]);
        for bad in ["filter", "everything=x", "=x", ""] {
            assert_eq!(read(&[bad]), Err(LeftOutFault::Form), "{bad:?}");
        }
        assert_eq!(read(&["limits= "]), Err(LeftOutFault::NoReason("limits")));
    }
}
