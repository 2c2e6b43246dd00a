//! The system calls of hardening that no safe wrapper offers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::libc;

/// Puts a filter on this process and all it will start. Needs no_new_privs.
pub(crate) fn install_filter(filter: &mut [libc::sock_filter]) -> io::Result<()> {
    let program =
        libc::sock_fprog { len: u16::try_from(filter.len()).map_err(io::Error::other)?, filter: filter.as_mut_ptr() };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the program points at a live slice of the stated length; the kernel copies it.
    check(unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) }).map(drop)
}

/// Gives up the capabilities that are not in `kept`, one bit each. Under no_new_privs no program brings them back.
pub(crate) fn keep_capabilities(kept: u64) -> io::Result<()> {
    let header = CapHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let mut sets = [0_u32; 6];
    // SAFETY: header and the two sets of three words are laid out as capget(2) version 3 writes them.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) })?;
    let (low, high) = (kept as u32, (kept >> 32) as u32);
    for (words, kept) in sets.chunks_exact_mut(3).zip([low, high]) {
        words.iter_mut().for_each(|word| *word &= kept);
    }
    // SAFETY: as above, read this time.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) }).map(drop)
}

/// A Landlock domain that shuts its processes off from those outside: no signal to them, no abstract socket of theirs.
/// `None` where the kernel is too old for it (before 6.12), or has Landlock switched off.
pub(crate) fn scope() -> io::Result<Option<OwnedFd>> {
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call takes no memory and gives the version.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, ASK_VERSION) };
    match check(version) {
        Ok(version) if version >= SCOPES_SINCE => {}
        Ok(_) => return Ok(None),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM)) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    let rules = Ruleset { files: 0, network: 0, scoped: SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS };
    let size = size_of::<Ruleset>();
    // SAFETY: the rules are a live struct of the stated size and of the kernel's layout.
    let made = check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const rules, size, 0_u32) })?;
    let made = RawFd::try_from(made).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made the descriptor for this process.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(made) }))
}

/// Puts this process, and all it will start, into a domain. Allocates nothing. Needs no_new_privs.
pub(crate) fn enter_scope(scope: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, scope.as_raw_fd(), 0_u32) }).map(drop)
}

fn check(result: i64) -> io::Result<i64> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// `struct __user_cap_header_struct` of the kernel.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: libc::c_int,
}

/// `struct landlock_ruleset_attr` of the kernel.
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scoped: u64,
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
/// `LANDLOCK_CREATE_RULESET_VERSION`.
const ASK_VERSION: u32 = 1;
const SCOPES_SINCE: i64 = 6;
const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 2;
