//! The system calls of isolation that no safe wrapper offers.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::libc;
use nix::unistd::Pid;

/// What a detached tree of mounts is to be, before it is put anywhere.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TreeAttr<'a> {
    pub(crate) read_only: bool,
    pub(crate) no_devices: bool,
    pub(crate) no_programs: bool,
    /// The user namespace whose maps say which owner appears as which.
    pub(crate) id_map: Option<BorrowedFd<'a>>,
}

/// Forks into new namespaces; none in the child. The caller must be single-threaded.
pub(crate) fn clone_into(namespaces: libc::c_int) -> io::Result<Option<Pid>> {
    let flags = i64::from(namespaces | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with no stack this is fork(2) plus namespaces; the child has a copy of all memory,
    // and with one thread no lock can be held by another.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, NONE, NONE, NONE, NONE) })?;
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    Ok((pid != 0).then(|| Pid::from_raw(pid)))
}

/// Ends this process at once, running nothing.
pub(crate) fn end_now(code: i32) -> ! {
    // SAFETY: _exit has no precondition.
    unsafe { libc::_exit(code) }
}

/// A detached copy of the mounts at and under a path.
pub(crate) fn open_tree(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;
    // SAFETY: the path is a live C string; the call returns a descriptor that nothing else owns.
    let fd = check(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })?;
    owned(fd)
}

/// Sets a whole detached tree at once: private, without set-uid, and as asked.
pub(crate) fn set_tree(tree: &OwnedFd, attr: TreeAttr<'_>) -> io::Result<()> {
    let mut set = MOUNT_ATTR_NOSUID;
    let optional = [
        (attr.read_only, MOUNT_ATTR_RDONLY),
        (attr.no_devices, MOUNT_ATTR_NODEV),
        (attr.no_programs, MOUNT_ATTR_NOEXEC),
        (attr.id_map.is_some(), MOUNT_ATTR_IDMAP),
    ];
    for (_, flag) in optional.iter().filter(|(wanted, _)| *wanted) {
        set |= flag;
    }
    let attr = MountAttr {
        set,
        clear: 0,
        propagation: libc::MS_PRIVATE,
        userns: attr.id_map.map_or(0, |fd| fd.as_raw_fd().unsigned_abs().into()),
    };
    mount_setattr(tree.as_raw_fd(), c"", libc::AT_EMPTY_PATH | AT_RECURSIVE, &attr)
}

/// Makes one mount read-only, not those under it.
pub(crate) fn seal_mount(path: &Path) -> io::Result<()> {
    let attr = MountAttr { set: MOUNT_ATTR_RDONLY, ..MountAttr::default() };
    mount_setattr(libc::AT_FDCWD, &c_path(path)?, 0, &attr)
}

/// No mount of this namespace hears of the host's any more.
pub(crate) fn make_all_private() -> io::Result<()> {
    let attr = MountAttr { propagation: libc::MS_PRIVATE, ..MountAttr::default() };
    mount_setattr(libc::AT_FDCWD, c"/", AT_RECURSIVE, &attr)
}

/// Puts a detached tree in its place.
pub(crate) fn move_tree(tree: &OwnedFd, place: &Path) -> io::Result<()> {
    let place = c_path(place)?;
    // SAFETY: both strings are live C strings, the descriptor is open.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            place.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    check(done).map(drop)
}

/// Switches the loopback interface on.
pub(crate) fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: ifreq is plain data for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is a live ifreq with a name and flags, as SIOCSIFFLAGS reads it.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) };
    check(done.into()).map(drop)
}

/// Closes every descriptor above standard error but one. Owned descriptors must have been dropped before.
pub(crate) fn close_all_but(kept: Option<&OwnedFd>) -> io::Result<()> {
    let close = |first: u32, last: u32| {
        if first > last {
            return Ok(());
        }
        // SAFETY: nothing in this process owns a descriptor of the range, as the caller promises.
        check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }).map(drop)
    };
    match kept.map(|fd| fd.as_raw_fd().unsigned_abs()) {
        Some(kept) if kept > 2 => {
            close(3, kept - 1)?;
            close(kept + 1, u32::MAX)
        }
        _ => close(3, u32::MAX),
    }
}

/// Gives up every capability for ever: bounding, ambient, inheritable, permitted and effective.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    for capability in 0..64 as libc::c_ulong {
        // SAFETY: prctl with numbers only.
        let done = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, NONE, NONE, NONE) };
        match check(done.into()) {
            Ok(_) => {}
            // Past the last capability that this kernel knows.
            Err(error) if capability > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong;
    // SAFETY: prctl with numbers only.
    check(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, clear, NONE, NONE, NONE) }.into())?;
    let header = CapHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let none = [0_u32; 6];
    // SAFETY: header and the two sets of three words are laid out as capset(2) version 3 reads them.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) }).map(drop)
}

/// Leaves the caller's session keyring for an empty one; fine where the kernel has no keys at all.
pub(crate) fn join_empty_keyring() -> io::Result<()> {
    let name = std::ptr::null::<libc::c_char>();
    // SAFETY: a null name asks for an anonymous keyring.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name) };
    match check(joined) {
        Err(error) if error.raw_os_error() != Some(libc::ENOSYS) => Err(error),
        _ => Ok(()),
    }
}

/// Takes a descriptor that a message brought.
pub(crate) fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: the kernel made the descriptor for this process while it received the message; nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn mount_setattr(folder: RawFd, path: &std::ffi::CStr, flags: libc::c_int, attr: &MountAttr) -> io::Result<()> {
    let size = size_of::<MountAttr>();
    // SAFETY: path is a live C string, attr a live struct of the stated size and of the kernel's layout.
    let done =
        unsafe { libc::syscall(libc::SYS_mount_setattr, folder, path.as_ptr(), flags, std::ptr::from_ref(attr), size) };
    check(done).map(drop)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

fn owned(fd: i64) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the caller has just been given this descriptor by the kernel.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: i64) -> io::Result<i64> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// `struct mount_attr` of the kernel.
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// `struct __user_cap_header_struct` of the kernel.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: libc::c_int,
}

/// An argument that is not there, in the width that variadic calls read.
const NONE: libc::c_ulong = 0;
const AT_RECURSIVE: libc::c_int = 0x8000;
const OPEN_TREE_CLONE: libc::c_int = 1;
const OPEN_TREE_CLOEXEC: libc::c_int = libc::O_CLOEXEC;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_int = 4;
const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NOSUID: u64 = 0x2;
const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_NOEXEC: u64 = 0x8;
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
