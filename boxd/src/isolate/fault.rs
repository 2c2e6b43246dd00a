//! Why a box could not be made: the deed, the object, and what to do about it.

use std::io;
use std::path::PathBuf;

use crate::exit;

#[derive(Debug, thiserror::Error)]
pub(crate) enum IsolateFault {
    /// An option that cannot be followed; nothing has been touched yet.
    #[error("{option} {}: {what}", path.display())]
    Option { option: &'static str, path: PathBuf, what: String },
    /// The door's folder is not there, or not ours to open.
    #[error(
        "open the folder of the door {}: start the gateway, or name its door with --door",
        path.display()
    )]
    Door { path: PathBuf, source: io::Error },
    /// The kernel, its settings or its security module say no.
    #[error("{deed} {object}: the kernel forbids it; {fix}")]
    Forbidden { deed: &'static str, object: String, fix: String, source: io::Error },
    /// A step that should have worked did not.
    #[error("{deed} {object}")]
    Broken { deed: &'static str, object: String, source: io::Error },
    /// The outer boxd died before the box was made.
    #[error("make the box: the outer boxd is gone")]
    Orphaned,
}

impl IsolateFault {
    /// The exit code by which boxd tells this fault.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Option { .. } => exit::USAGE,
            Self::Door { .. } => exit::UNAVAILABLE,
            Self::Broken { .. } | Self::Orphaned => exit::OWN_FAULT,
            Self::Forbidden { .. } => exit::UNPROVEN,
        }
    }

    pub(crate) fn option(option: &'static str, path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self::Option { option, path: path.into(), what: what.into() }
    }
}

/// Turns the errno of one step into a fault, with the fix where the kernel is the cause.
pub(crate) fn at(deed: &'static str, object: impl Into<String>) -> impl FnOnce(io::Error) -> IsolateFault {
    let object = object.into();
    move |source| {
        let errno = source.raw_os_error().unwrap_or(0);
        match fix(errno, setting) {
            Some(fix) => IsolateFault::Forbidden { deed, object, fix, source },
            None => IsolateFault::Broken { deed, object, source },
        }
    }
}

/// What to do about an errno by which kernels forbid isolation; none for any other errno.
fn fix(errno: i32, setting: impl Fn(&str) -> Option<String>) -> Option<String> {
    use nix::libc::{EACCES, ENOSPC, ENOSYS, EPERM, EUSERS};
    if errno == ENOSYS {
        return Some("Linux 5.14 or newer is needed".to_owned());
    }
    if ![EPERM, EACCES, ENOSPC, EUSERS].contains(&errno) {
        return None;
    }
    let is = |name: &str, value: &str| setting(name).is_some_and(|found| found == value);
    let said = if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor keeps user namespaces from ordinary users: \
         sysctl kernel.apparmor_restrict_unprivileged_userns=0, \
         or an AppArmor profile for boxd with `userns,`"
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "user namespaces are switched off for ordinary users: \
         sysctl kernel.unprivileged_userns_clone=1"
    } else if is("user/max_user_namespaces", "0") {
        "no user namespace may be made here: sysctl user.max_user_namespaces=10000"
    } else if errno == ENOSPC || errno == EUSERS {
        "too many namespaces, or nested too deep: raise user.max_user_namespaces"
    } else {
        "run boxd outside of another container, or as root, or use the box of compose.yaml"
    };
    Some(said.to_owned())
}

fn setting(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::fix;
    use nix::libc::{EIO, ENOSPC, ENOSYS, EPERM};

    #[test]
    fn the_fix_names_the_setting_that_forbids() {
        let table = [
            (
                EPERM,
                "kernel/apparmor_restrict_unprivileged_userns",
                "1",
                "kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            (EPERM, "kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
            (ENOSPC, "user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
            (ENOSPC, "none", "", "raise user.max_user_namespaces"),
            (EPERM, "none", "", "outside of another container"),
            (ENOSYS, "none", "", "5.14"),
        ];
        for (errno, name, value, said) in table {
            let told = fix(errno, |asked| (asked == name).then(|| value.to_owned()));
            assert!(told.as_deref().is_some_and(|told| told.contains(said)), "{errno} {name}: {told:?}");
        }
        assert_eq!(fix(EIO, |_| Some("1".to_owned())), None);
    }
}
