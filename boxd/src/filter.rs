//! The system call filter: shuts what no agent needs, and what neither namespaces nor a missing capability cover.

use nix::libc::{self, sock_filter};

/// The program: what it names is refused with an errno that programs understand, all else is allowed.
pub(crate) fn program() -> Vec<sock_filter> {
    let mut code = foreign_calls();
    for (calls, errno) in [(&ABSENT[..], libc::ENOSYS), (&FORBIDDEN[..], libc::EPERM)] {
        for call in calls {
            code.extend(when(*call, &[refuse(errno)]));
        }
    }
    code.extend(when(libc::SYS_socket, &families()));
    code.extend(when(libc::SYS_prlimit64, &own_limits()));
    for (call, mask) in NAMESPACES {
        code.extend(when(call, &bits(0, mask, libc::EPERM)));
    }
    code.extend(when(libc::SYS_ioctl, &terminal_input()));
    for (call, mode) in MODES {
        code.extend(when(call, &bits(mode, SET_ID, libc::EPERM)));
    }
    for (call, flags) in CREATING {
        code.extend(when(call, &creating(flags)));
    }
    code.push(allow());
    code
}

/// Calls of another architecture would be numbered otherwise, and pass unseen.
fn foreign_calls() -> Vec<sock_filter> {
    let mut code = vec![load(ARCH_AT), jump(libc::BPF_JEQ, ARCH, 1, 0), refuse(libc::ENOSYS), load(NUMBER_AT)];
    if cfg!(target_arch = "x86_64") {
        code.extend([jump(libc::BPF_JGE, X32_BIT, 0, 1), refuse(libc::ENOSYS)]);
    }
    code
}

/// Only local sockets, and the internet families but for their raw forms, which see and forge what is another's.
/// vsock, for one, belongs to no network namespace: it would reach the machine's host.
fn families() -> Vec<sock_filter> {
    let family = |family: libc::c_int, then| jump(libc::BPF_JEQ, family.unsigned_abs(), then, 0);
    let kind = |kind: libc::c_int, then| jump(libc::BPF_JEQ, kind.unsigned_abs(), then, 0);
    vec![
        load(argument(0)),
        family(libc::AF_UNIX, 8),
        family(libc::AF_NETLINK, 7),
        family(libc::AF_INET, 2),
        family(libc::AF_INET6, 1),
        refuse(libc::EAFNOSUPPORT),
        load(argument(1)),
        instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, SOCKET_KIND, 0, 0),
        kind(libc::SOCK_RAW, 2),
        kind(SOCK_PACKET, 1),
        allow(),
        refuse(libc::EPERM),
    ]
}

/// The limits of another process may not be looked at or set; 0 is the caller.
fn own_limits() -> Vec<sock_filter> {
    vec![load(argument(0)), jump(libc::BPF_JEQ, 0, 1, 0), refuse(libc::EPERM), allow()]
}

/// Typing into the caller's terminal on his behalf.
fn terminal_input() -> Vec<sock_filter> {
    vec![
        load(argument(1)),
        jump(libc::BPF_JEQ, TIOCSTI, 1, 0),
        jump(libc::BPF_JEQ, TIOCLINUX, 0, 1),
        refuse(libc::EPERM),
        allow(),
    ]
}

/// Refuses where an argument has one of the bits. What the box leaves in the workspace belongs to a user of the host,
/// root perhaps: a set-uid file there would be a way out.
fn bits(index: u32, mask: u32, errno: i32) -> Vec<sock_filter> {
    vec![load(argument(index)), jump(libc::BPF_JSET, mask, 0, 1), refuse(errno), allow()]
}

/// Opening with such a mode; the mode counts only where the call may make a file.
fn creating(flags: u32) -> Vec<sock_filter> {
    let mut code = vec![load(argument(flags)), jump(libc::BPF_JSET, CREATES, 1, 0), allow()];
    code.extend(bits(flags + 1, SET_ID, libc::EPERM));
    code
}

/// Runs a body, which must end by itself, for one call; any other jumps over it with its number still loaded.
fn when(call: libc::c_long, body: &[sock_filter]) -> Vec<sock_filter> {
    let number = u32::try_from(call).unwrap_or(u32::MAX);
    let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
    let mut code = vec![jump(libc::BPF_JEQ, number, 0, length)];
    code.extend_from_slice(body);
    code
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn jump(test: u32, value: u32, then: u8, otherwise: u8) -> sock_filter {
    instruction(libc::BPF_JMP | test | libc::BPF_K, value, then, otherwise)
}

fn allow() -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0)
}

fn refuse(errno: i32) -> sock_filter {
    let value = libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
    instruction(libc::BPF_RET | libc::BPF_K, value, 0, 0)
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap_or(u16::MAX), jt, jf, k }
}

/// The lower half of an argument of `struct seccomp_data`; both architectures are little-endian.
const fn argument(index: u32) -> u32 {
    16 + index * 8
}

const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

const X32_BIT: u32 = 0x4000_0000;
const SET_ID: u32 = 0o6000;
const CREATES: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)).unsigned_abs();
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;

/// The kind of a socket, without its flags.
const SOCKET_KIND: u32 = 0xf;
/// The kind of a packet socket from before there was a family for them.
const SOCK_PACKET: libc::c_int = 10;

/// Told as not there: programs that can use them can do without. openat2 hides its mode from a filter, clone3 its flags.
const ABSENT: [libc::c_long; 6] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_openat2,
    libc::SYS_clone3,
    libc::SYS_userfaultfd,
];

const FORBIDDEN: [libc::c_long; 32] = [
    // What the kernel keeps for all boxes alike.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    SYS_PIDFD_GETFD,
    // Files past the box's root, and another root.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
];

const SYS_PIDFD_GETFD: libc::c_long = 438;

/// Calls that may make namespaces, whose flags come first. In clone the bit of a namespace of time is part of a signal.
const NAMESPACES: [(libc::c_long, u32); 2] =
    [(libc::SYS_clone, NEW_NAMESPACES), (libc::SYS_unshare, NEW_NAMESPACES | CLONE_NEWTIME)];
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .unsigned_abs();
const CLONE_NEWTIME: u32 = 0x80;

/// Calls that give a file a mode, and which argument that is.
#[cfg(target_arch = "x86_64")]
const MODES: [(libc::c_long, u32); 7] = [
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
    (libc::SYS_creat, 1),
];
#[cfg(target_arch = "aarch64")]
const MODES: [(libc::c_long, u32); 4] =
    [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (FCHMODAT2, 2), (libc::SYS_mknodat, 2)];

const FCHMODAT2: libc::c_long = 452;

/// Calls that may make a file, and which argument their flags are; the mode comes next.
#[cfg(target_arch = "x86_64")]
const CREATING: [(libc::c_long, u32); 2] = [(libc::SYS_open, 1), (libc::SYS_openat, 2)];
#[cfg(target_arch = "aarch64")]
const CREATING: [(libc::c_long, u32); 1] = [(libc::SYS_openat, 2)];

#[cfg(test)]
mod tests;
