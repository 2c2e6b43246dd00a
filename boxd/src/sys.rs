//! The few system calls that have no safe wrapper: the only file of the crate with `unsafe` in it.
#![allow(unsafe_code)]

pub(crate) mod isolate;
pub(crate) mod harden;
pub(crate) mod attempt;

use std::ffi::{CStr, c_char};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{Pid, getpid, setpgid, setsid, tcsetpgrp};

/// What a child starts with: it gets back what boxd changed for itself, and enters the scope.
#[derive(Clone, Debug)]
pub(crate) struct Inherited {
    mask: SigSet,
    descriptors: (u64, u64),
    scope: Option<Arc<OwnedFd>>,
}

impl Inherited {
    /// With a Landlock domain for every child.
    pub(crate) fn in_scope(self, scope: Option<OwnedFd>) -> Self {
        Self { scope: scope.map(Arc::new), ..self }
    }
}

/// Holds every signal back until the supervisor listens, so that an early one is not lost, and raises the limit on
/// descriptors. Gives back what the agent must find as it was.
pub(crate) fn take_hold() -> nix::Result<Inherited> {
    let mut mask = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut mask))?;
    let descriptors = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = descriptors.0.max(DESCRIPTORS.min(descriptors.1));
    setrlimit(Resource::RLIMIT_NOFILE, wanted, descriptors.1)?;
    Ok(Inherited { mask, descriptors, scope: None })
}

/// Closes this process to the others of the box, takes in its orphans, and gives up ever gaining a privilege, which
/// the agent inherits.
pub(crate) fn close_to_others() -> nix::Result<()> {
    prctl::set_dumpable(false)?;
    prctl::set_child_subreaper(true)?;
    prctl::set_no_new_privs()
}

/// Sees to it that what is large goes back to the kernel as soon as it is free. Otherwise the allocator takes the first large
/// piece that is freed for a sign to keep all later ones in the heap, which a box then has for as long as its agent runs.
pub(crate) fn keep_heap_small() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number in the allocator, before there is another thread.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Gives back to the kernel what the heap does not hold: the seed reads and writes many times what a launch keeps.
pub(crate) fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and touches nothing but memory that the allocator holds free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets the signals through, once someone listens.
pub(crate) fn let_signals_through() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// Overwrites every value of this process's initial environment with zeros, where it lies.
///
/// A copy must have been taken before: afterwards every variable is empty.
pub(crate) fn wipe_environment() {
    // SAFETY: called while the process has one thread. `environ` is null or a null-terminated array of pointers
    // to NUL-terminated strings that stay mapped and writable; only bytes before each NUL are written.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = *entry;
            let bytes = CStr::from_ptr(text).to_bytes();
            let (length, equals) = (bytes.len(), bytes.iter().position(|byte| *byte == b'='));
            if let Some(at) = equals {
                std::ptr::write_bytes(text.add(at + 1), 0, length - at - 1);
            }
            entry = entry.add(1);
        }
    }
}

/// Overwrites this process's arguments with zeros where they lie, all but the first: /proc shows them to every process.
///
/// A copy must have been taken before.
pub(crate) fn wipe_arguments() -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').map_or("", |(_, after)| after).split_whitespace();
    let mut bounds = fields.skip(ARGUMENTS_START).take(2).map(str::parse::<usize>);
    let (Some(Ok(start)), Some(Ok(end))) = (bounds.next(), bounds.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if start == 0 || end <= start {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the kernel says that the arguments lie here, mapped and writable, and nothing else refers to them: Rust
    // gives out copies, and the process has one thread.
    let arguments = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, end - start) };
    let first = arguments.iter().position(|byte| *byte == 0).unwrap_or(0);
    arguments[first..].fill(0);
    Ok(())
}

/// Where a child starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Group {
    /// In a session of its own, without a terminal.
    Session,
    /// In a group of its own in boxd's session, and before the terminal of this descriptor where there is one.
    Terminal(Option<RawFd>),
}

/// Makes `command` start in a session of its own, with the signal state and limits that boxd was given, and with
/// nothing open but its three streams.
pub(crate) fn start_apart(command: &mut Command, inherited: Inherited) {
    start_in(Group::Session, command, inherited);
}

/// The same, in a session or a group.
pub(crate) fn start_in(group: Group, command: &mut Command, inherited: Inherited) {
    let prepare = move || {
        match group {
            Group::Session => drop(setsid()?),
            Group::Terminal(in_front_of) => own_group(in_front_of)?,
        }
        // Should boxd be killed, the agent goes with it. What the agent started does not: the house knows that.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        for signal in 1..=LAST_SIGNAL {
            // Fails for KILL, STOP and those that libc keeps for itself, which is of no matter.
            // SAFETY: setting a disposition to its default installs no code.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        let (soft, hard) = inherited.descriptors;
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
        if let Some(scope) = &inherited.scope {
            harden::enter_scope(scope.as_fd())?;
        }
        close_on_exec_from(3)?;
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&inherited.mask), None)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls: it does not allocate and takes no lock.
    unsafe { command.pre_exec(prepare) };
}

/// A group of this process's own. Makes only system calls.
fn own_group(in_front_of: Option<RawFd>) -> nix::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    let Some(terminal) = in_front_of else {
        return Ok(());
    };
    let mut held = SigSet::empty();
    held.add(Signal::SIGTTOU);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&held), None)?;
    // SAFETY: the descriptor is open in the parent, from which this process has just been copied.
    tcsetpgrp(unsafe { BorrowedFd::borrow_raw(terminal) }, getpid())
}

/// Whether the network interface `name` is up; an error means that nobody knows.
pub(crate) fn interface_is_up(name: &str) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    let socket = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Inet,
        nix::sys::socket::SockType::Datagram,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: an all-zero `ifreq` is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte as c_char;
    }
    // SAFETY: the descriptor is open, and `request` is the struct that this request reads and writes.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the kernel has set the flags member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(i32::from(flags) & libc::IFF_UP != 0)
}

/// Marks all descriptors from `first` on, without closing any: one of them tells the parent whether exec worked.
fn close_on_exec_from(first: i32) -> io::Result<()> {
    let last = libc::c_uint::MAX;
    // SAFETY: the call takes three numbers and touches no memory.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, last, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 {
        return Ok(());
    }
    // A kernel before 5.11, or a filter that does not know the call.
    for descriptor in first..FALLBACK_DESCRIPTORS {
        // SAFETY: as above; a number that is no descriptor gives EBADF.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// In bytes: glibc's own beginning.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 * 1024;
/// Two for each of the shim's connections, and some.
const DESCRIPTORS: u64 = 2048;
const FALLBACK_DESCRIPTORS: i32 = 65_536;
const LAST_SIGNAL: i32 = 64;
/// `arg_start` in /proc/self/stat, counted from behind the name.
const ARGUMENTS_START: usize = 45;
