//! The first process of the box: takes the box's identity, builds its root, and gives up every power it was born with.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::unistd::{Gid, Uid, setgroups, sethostname, setresgid, setresuid, setsid};

use super::door::DoorLine;
use super::fault::{IsolateFault, at};
use super::identity::Identity;
use super::plan::Plan;
use super::root;
use super::trees::{self, Trees};
use crate::sys::isolate as sys;

/// Everything between birth and the run, in its order.
pub(crate) fn settle(plan: &Plan, taken: Option<Trees>, line: &DoorLine) -> Result<(), IsolateFault> {
    if !line.wait_for_go().map_err(at("wait for", "the outer boxd"))? {
        return Err(IsolateFault::Orphaned);
    }
    become_box(&plan.who)?;
    step("leave", "the terminal", setsid().map(drop))?;
    step("name", "the box", sethostname("box"))?;
    loopback()?;
    sys::join_empty_keyring().map_err(at("leave", "the caller's keyring"))?;
    let trees = taken.map_or_else(|| trees::open(plan), Ok)?;
    root::build(plan, trees)?;
    sys::close_all_but(Some(line.descriptor())).map_err(at("close", "open descriptors"))?;
    seal()
}

/// The box's uid; dies with the outer boxd; closed to whoever shares its uid.
fn become_box(who: &Identity) -> Result<(), IsolateFault> {
    let (uid, gid) = (Uid::from_raw(who.uid), Gid::from_raw(who.gid));
    if who.by_root {
        step("leave", "the caller's groups", setgroups(&[]))?;
    }
    step("become", "the box's group", setresgid(gid, gid, gid))?;
    step("become", "the box's user", setresuid(uid, uid, uid))?;
    // Both are undone by a change of user, so they come after it.
    step("tie the box to", "the outer boxd", prctl::set_pdeathsig(Signal::SIGKILL))?;
    step("close", "boxd's memory", prctl::set_dumpable(false))?;
    step("forbid", "core files", setrlimit(Resource::RLIMIT_CORE, 0, 0))?;
    limit_processes()
}

/// Counted in the box's own user namespace, so that a box that forks without end stops itself and not the host.
fn limit_processes() -> Result<(), IsolateFault> {
    let limit = |(_, hard): (u64, u64)| {
        let processes = hard.min(PROCESSES);
        setrlimit(Resource::RLIMIT_NPROC, processes, processes)
    };
    step("limit", "processes", getrlimit(Resource::RLIMIT_NPROC).and_then(limit))
}

fn loopback() -> Result<(), IsolateFault> {
    let kind = SockType::Datagram;
    let opened = socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, None);
    opened.map_err(Into::into).and_then(|socket| sys::loopback_up(socket.as_fd())).map_err(at("switch on", "loopback"))
}

/// From here on nothing in the box can gain power: no new user namespace, no capability, no set-uid. The filter comes with
/// the rest of what every agent is given ([`crate::harden`]).
fn seal() -> Result<(), IsolateFault> {
    OpenOptions::new()
        .write(true)
        .open(USER_NAMESPACES)
        .and_then(|mut file| file.write_all(b"0"))
        .map_err(at("forbid", "nested user namespaces"))?;
    sys::drop_capabilities().map_err(at("drop", "capabilities"))?;
    step("forbid", "new privileges", prctl::set_no_new_privs())
}

fn step(deed: &'static str, object: &str, done: Result<(), Errno>) -> Result<(), IsolateFault> {
    done.map_err(|errno| at(deed, object)(errno.into()))
}

const USER_NAMESPACES: &str = "/proc/sys/user/max_user_namespaces";
/// Processes and threads; one agent with its build tools has some hundred.
const PROCESSES: u64 = 4096;
