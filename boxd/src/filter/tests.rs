//! The filter, as the kernel would run it, and the numbers that it names.

use super::{
    ABSENT, ARCH, CREATING, FCHMODAT2, FORBIDDEN, MODES, NAMESPACES, SOCK_PACKET, TIOCSTI, libc, program, sock_filter,
};

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const CREATE: u64 = (libc::O_CREAT | libc::O_WRONLY) as u64;

/// What the program says of one call, as the kernel would run it.
fn verdict(code: &[sock_filter], arch: u32, call: i64, arguments: [u64; 3]) -> u32 {
    let mut input = [0; 64];
    input[..4].copy_from_slice(&(call as u32).to_ne_bytes());
    input[4..8].copy_from_slice(&arch.to_ne_bytes());
    for (index, argument) in arguments.iter().enumerate() {
        input[16 + index * 8..24 + index * 8].copy_from_slice(&argument.to_ne_bytes());
    }
    let (mut at, mut loaded) = (0, 0_u32);
    loop {
        let step = code[at];
        at += 1;
        let jump = |yes: bool| usize::from(if yes { step.jt } else { step.jf });
        match u32::from(step.code) {
            0x20 => {
                let word = &input[step.k as usize..][..4];
                loaded = u32::from_ne_bytes(word.try_into().expect("four bytes"));
            }
            0x15 => at += jump(loaded == step.k),
            0x35 => at += jump(loaded >= step.k),
            0x45 => at += jump(loaded & step.k != 0),
            0x54 => loaded &= step.k,
            0x06 => return step.k,
            other => panic!("no such instruction: {other:#x}"),
        }
    }
}

#[test]
fn the_filter_shuts_what_it_names_and_nothing_else() {
    let refuse = |errno: i32| libc::SECCOMP_RET_ERRNO | errno as u32;
    let denied = refuse(libc::EPERM);
    let absent = refuse(libc::ENOSYS);
    let no_family = refuse(libc::EAFNOSUPPORT);
    let kind = |kind: i32| kind as u64;
    let family = |family: i32| [family as u64, 1, 0];
    let table = [
        ("read", libc::SYS_read, [0, 6000, 0o6000], ALLOW),
        ("execve", libc::SYS_execve, [1, 2, 3], ALLOW),
        ("local socket", libc::SYS_socket, family(libc::AF_UNIX), ALLOW),
        ("internet socket", libc::SYS_socket, family(libc::AF_INET), ALLOW),
        ("ipv6 socket", libc::SYS_socket, family(libc::AF_INET6), ALLOW),
        ("netlink socket", libc::SYS_socket, family(libc::AF_NETLINK), ALLOW),
        ("vsock", libc::SYS_socket, family(libc::AF_VSOCK), no_family),
        ("packet socket", libc::SYS_socket, family(libc::AF_PACKET), no_family),
        ("window size", libc::SYS_ioctl, [1, libc::TIOCGWINSZ, 0], ALLOW),
        ("typing", libc::SYS_ioctl, [1, TIOCSTI.into(), 0], denied),
        ("typing, upper half set", libc::SYS_ioctl, [1, 1 << 32 | u64::from(TIOCSTI), 0], denied),
        ("plain mode", libc::SYS_fchmodat, [0, 0, 0o755], ALLOW),
        ("set-uid mode", libc::SYS_fchmodat, [0, 0, 0o4755], denied),
        ("set-gid mode", libc::SYS_fchmod, [0, 0o2755, 0], denied),
        ("set-uid by the new call", FCHMODAT2, [0, 0, 0o4755], denied),
        ("set-uid node", libc::SYS_mknodat, [0, 0, 0o104_755], denied),
        ("new file", libc::SYS_openat, [0, 0, CREATE], ALLOW),
        ("io_uring", libc::SYS_io_uring_setup, [0, 0, 0], absent),
        ("openat2", libc::SYS_openat2, [0, 0, 0], absent),
        ("keyrings", libc::SYS_keyctl, [0, 0, 0], denied),
        ("bpf", libc::SYS_bpf, [0, 0, 0], denied),
        ("raw socket", libc::SYS_socket, [2, kind(libc::SOCK_RAW), 1], denied),
        ("raw ipv6 socket", libc::SYS_socket, [10, kind(libc::SOCK_RAW | libc::SOCK_CLOEXEC), 58], denied),
        ("packets by the oldest way", libc::SYS_socket, [2, kind(SOCK_PACKET), 0], denied),
        ("netlink is raw by its nature", libc::SYS_socket, [16, kind(libc::SOCK_RAW), 0], ALLOW),
        ("ping", libc::SYS_socket, [2, kind(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK), 1], ALLOW),
        ("own limits", libc::SYS_prlimit64, [0, 7, 0], ALLOW),
        ("another's limits", libc::SYS_prlimit64, [1, 7, 0], denied),
        ("ptrace", libc::SYS_ptrace, [16, 1, 0], denied),
        ("another's memory", libc::SYS_process_vm_readv, [1, 0, 0], denied),
        ("mount", libc::SYS_mount, [0, 0, 0], denied),
        ("a thread", libc::SYS_clone, [0x003d_0f00, 0, 0], ALLOW),
        ("fork", libc::SYS_clone, [0x0120_0011, 0, 0], ALLOW),
        ("a user namespace by clone", libc::SYS_clone, [0x1000_0011, 0, 0], denied),
        ("a network namespace", libc::SYS_unshare, [0x4000_0000, 0, 0], denied),
        ("its own descriptors", libc::SYS_unshare, [0x400, 0, 0], ALLOW),
        ("clone3", libc::SYS_clone3, [0, 0, 0], absent),
        ("the host's kernel log", libc::SYS_syslog, [0, 0, 0], denied),
    ];
    let code = program();
    for (sentence, call, arguments, expected) in table {
        assert_eq!(verdict(&code, ARCH, call, arguments), expected, "{sentence}");
    }
    assert_eq!(verdict(&code, 0x4000_0003, 1, [0; 3]), absent, "a 32-bit program");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_older_calls_are_no_way_around() {
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let code = program();
    let open = |flags, mode| verdict(&code, ARCH, libc::SYS_open, [0, flags, mode]);
    assert_eq!(open(CREATE, 0o4755), denied);
    assert_eq!(open(CREATE, 0o755), ALLOW);
    assert_eq!(open(0, 0o4755), ALLOW, "a mode that does not count");
    assert_eq!(verdict(&code, ARCH, libc::SYS_chmod, [0, 0o4755, 0]), denied);
    let x32 = verdict(&code, ARCH, 0x4000_0000, [0; 3]);
    assert_eq!(x32, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
}

/// The kernel's own numbers: those of x86-64 by `syscall_64.tbl`, those of arm64 by `unistd.h` of `asm-generic`.
const NUMBERS: [(&str, libc::c_long, i64, i64); 52] = [
    ("io_uring_setup", libc::SYS_io_uring_setup, 425, 425),
    ("io_uring_enter", libc::SYS_io_uring_enter, 426, 426),
    ("io_uring_register", libc::SYS_io_uring_register, 427, 427),
    ("openat2", libc::SYS_openat2, 437, 437),
    ("clone3", libc::SYS_clone3, 435, 435),
    ("userfaultfd", libc::SYS_userfaultfd, 323, 282),
    ("add_key", libc::SYS_add_key, 248, 217),
    ("keyctl", libc::SYS_keyctl, 250, 219),
    ("request_key", libc::SYS_request_key, 249, 218),
    ("bpf", libc::SYS_bpf, 321, 280),
    ("perf_event_open", libc::SYS_perf_event_open, 298, 241),
    ("kexec_load", libc::SYS_kexec_load, 246, 104),
    ("kexec_file_load", libc::SYS_kexec_file_load, 320, 294),
    ("syslog", libc::SYS_syslog, 103, 116),
    ("quotactl", libc::SYS_quotactl, 179, 60),
    ("init_module", libc::SYS_init_module, 175, 105),
    ("finit_module", libc::SYS_finit_module, 313, 273),
    ("delete_module", libc::SYS_delete_module, 176, 106),
    ("swapon", libc::SYS_swapon, 167, 224),
    ("swapoff", libc::SYS_swapoff, 168, 225),
    ("reboot", libc::SYS_reboot, 169, 142),
    ("ptrace", libc::SYS_ptrace, 101, 117),
    ("process_vm_readv", libc::SYS_process_vm_readv, 310, 270),
    ("process_vm_writev", libc::SYS_process_vm_writev, 311, 271),
    ("kcmp", libc::SYS_kcmp, 312, 272),
    ("pidfd_getfd", super::SYS_PIDFD_GETFD, 438, 438),
    ("name_to_handle_at", libc::SYS_name_to_handle_at, 303, 264),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, 304, 265),
    ("setns", libc::SYS_setns, 308, 268),
    ("mount", libc::SYS_mount, 165, 40),
    ("umount2", libc::SYS_umount2, 166, 39),
    ("pivot_root", libc::SYS_pivot_root, 155, 41),
    ("open_tree", libc::SYS_open_tree, 428, 428),
    ("move_mount", libc::SYS_move_mount, 429, 429),
    ("fsopen", libc::SYS_fsopen, 430, 430),
    ("fsmount", libc::SYS_fsmount, 432, 432),
    ("fspick", libc::SYS_fspick, 433, 433),
    ("mount_setattr", libc::SYS_mount_setattr, 442, 442),
    ("socket", libc::SYS_socket, 41, 198),
    ("prlimit64", libc::SYS_prlimit64, 302, 261),
    ("ioctl", libc::SYS_ioctl, 16, 29),
    ("clone", libc::SYS_clone, 56, 220),
    ("unshare", libc::SYS_unshare, 272, 97),
    ("fchmod", libc::SYS_fchmod, 91, 52),
    ("fchmodat", libc::SYS_fchmodat, 268, 53),
    ("fchmodat2", FCHMODAT2, 452, 452),
    ("mknodat", libc::SYS_mknodat, 259, 33),
    ("openat", libc::SYS_openat, 257, 56),
    // Of x86-64 alone: arm64 never had them.
    ("chmod", OLDER[0], 90, -1),
    ("mknod", OLDER[1], 133, -2),
    ("creat", OLDER[2], 85, -3),
    ("open", OLDER[3], 2, -4),
];
#[cfg(target_arch = "x86_64")]
const OLDER: [libc::c_long; 4] = [libc::SYS_chmod, libc::SYS_mknod, libc::SYS_creat, libc::SYS_open];
#[cfg(target_arch = "aarch64")]
const OLDER: [libc::c_long; 4] = [-1, -2, -3, -4];

/// Every call that the program names is one of the table, so that none is numbered as on another architecture.
#[test]
fn the_numbers_are_the_kernels_own_on_both_architectures() {
    let is_arm = cfg!(target_arch = "aarch64");
    for (name, call, x86, arm) in NUMBERS {
        assert_eq!(call, if is_arm { arm } else { x86 }, "{name}");
    }
    // AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64: 64 bits, little-endian, and the ELF machine.
    assert_eq!(ARCH, 0xc000_0000 | if is_arm { 183 } else { 62 });
    let known = |call: libc::c_long| NUMBERS.iter().any(|(_, other, ..)| *other == call);
    let single = [libc::SYS_socket, libc::SYS_prlimit64, libc::SYS_ioctl];
    let pairs = NAMESPACES.iter().chain(&MODES).chain(&CREATING).map(|(call, _)| *call);
    for call in ABSENT.into_iter().chain(FORBIDDEN).chain(single).chain(pairs) {
        assert!(known(call), "{call} is not in the table");
    }
}
