//! Calls that an attacker would make of the kernel, to see what comes of each.

use nix::errno::Errno;
use nix::libc::{self, c_long};
use nix::unistd::Pid;

/// Makes each call once, against `victim` where there is one to name. A call that is let in does no harm: it finds a null
/// pointer or a number that is none, or is undone when this process ends.
pub(crate) fn calls(victim: Pid) -> impl Iterator<Item = (&'static str, Result<(), Errno>)> {
    let victim = c_long::from(victim.as_raw());
    let table: [(&str, c_long, [c_long; 2]); 20] = [
        ("boxd is traced", libc::SYS_ptrace, [SEIZE, victim]),
        ("boxd's memory is copied", libc::SYS_process_vm_readv, [victim, 0]),
        ("boxd's memory is written to", libc::SYS_process_vm_writev, [victim, 0]),
        ("boxd's limits are looked at", libc::SYS_prlimit64, [victim, 7]),
        ("a descriptor of another process", SYS_PIDFD_GETFD, [0, 0]),
        ("io_uring", libc::SYS_io_uring_setup, [1, 0]),
        ("keyrings", libc::SYS_keyctl, [0, 0]),
        ("bpf", libc::SYS_bpf, [0, 0]),
        ("performance events", libc::SYS_perf_event_open, [0, 0]),
        ("page faults of its own", libc::SYS_userfaultfd, [0, 0]),
        ("a file by its number", libc::SYS_open_by_handle_at, [0, 0]),
        ("a mount", libc::SYS_mount, [0, 0]),
        ("a mount, the newer way", libc::SYS_open_tree, [0, 0]),
        ("another root", libc::SYS_pivot_root, [0, 0]),
        ("a user namespace", libc::SYS_unshare, [c_long::from(libc::CLONE_NEWUSER), 0]),
        ("a network namespace", libc::SYS_unshare, [c_long::from(libc::CLONE_NEWNET), 0]),
        ("a namespace by clone3", libc::SYS_clone3, [0, 0]),
        ("another's namespace", libc::SYS_setns, [0, 0]),
        ("a module for the kernel", libc::SYS_init_module, [0, 0]),
        ("the kernel's log", libc::SYS_syslog, [LOG_SIZE, 0]),
    ];
    table.into_iter().map(|(what, call, [first, second])| {
        let none: c_long = 0;
        // SAFETY: every argument is a number or a null pointer, so the kernel neither reads nor writes memory of ours.
        let done = unsafe { libc::syscall(call, first, second, none, none, none, none) };
        (what, if done < 0 { Err(Errno::last()) } else { Ok(()) })
    })
}

/// `PTRACE_SEIZE`, which does not stop the victim.
const SEIZE: c_long = 0x4206;
/// `SYSLOG_ACTION_SIZE_BUFFER`.
const LOG_SIZE: c_long = 10;
const SYS_PIDFD_GETFD: c_long = 438;
