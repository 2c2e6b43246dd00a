//! `boxd --isolate`: a box without Docker, made of namespaces, a root of its own and no power.
//!
//! [`enter`] splits boxd in two. The outer half stays on the host, holds the door and waits; the inner half returns
//! as PID 1 of the box and goes on with the run.

mod options;
mod plan;
mod identity;
mod session;
mod etc;
mod system;
mod trees;
mod door;
mod outside;
mod inside;
mod root;
mod fault;

use std::path::PathBuf;

use nix::libc;
use nix::sys::prctl;
use nix::unistd::Pid;

pub(crate) use fault::IsolateFault;
pub(crate) use plan::IsolateOptions;

use door::{DoorKeeper, DoorLine};
use fault::at;
use identity::own_map;
use outside::Signals;
use plan::Plan;
use trees::{Trees, write_map};

/// Which half of boxd this is.
pub(crate) enum Entered {
    /// The box has ended with this exit code.
    Outside(u8),
    /// The box begins here.
    Inside(Inside),
}

/// What the run in the box needs to know.
pub(crate) struct Inside {
    /// The way to the door; the box has no path to it.
    pub(crate) door: shim::Door,
    /// Where the session folder is in the box.
    pub(crate) session: PathBuf,
    /// Where the workspace is in the box; already the current folder.
    pub(crate) workspace: PathBuf,
}

/// Makes the box. Must be called before any thread starts and before any descriptor is opened.
pub(crate) fn enter(options: &IsolateOptions) -> Result<Entered, IsolateFault> {
    one_thread()?;
    crate::sys::isolate::close_all_but(None).map_err(at("close", "inherited descriptors"))?;
    no_folder_inherited()?;
    let plan = plan::draw(options)?;
    let (keeper, line) = door::open(&plan)?;
    // Root takes the trees while it still has its powers; another user only gains any in the box.
    let taken = match plan.who.by_root {
        true => Some(trees::open(&plan)?),
        false => None,
    };
    let signals = Signals::hold()?;
    // The maps of a process that is closed to its own user could not be written.
    prctl::set_dumpable(true).map_err(|errno| at("open", "boxd to itself")(errno.into()))?;
    match crate::sys::isolate::clone_into(NAMESPACES).map_err(at("make", "the namespaces"))? {
        Some(inner) => {
            drop((taken, line));
            outer(inner, &plan, &keeper, &signals).map(Entered::Outside)
        }
        None => {
            drop(keeper);
            inner(&plan, taken, line, signals).map(Entered::Inside)
        }
    }
}

fn outer(inner: Pid, plan: &Plan, keeper: &DoorKeeper, signals: &Signals) -> Result<u8, IsolateFault> {
    if let Err(fault) = begin(inner, plan, keeper) {
        outside::end(inner);
        return Err(fault);
    }
    outside::stay(inner, keeper, signals)
}

/// Gives the box its ids, and the word to go on.
fn begin(inner: Pid, plan: &Plan, keeper: &DoorKeeper) -> Result<(), IsolateFault> {
    let fault = |name: &'static str| at("map", format!("the box's ids ({name})"));
    if !plan.who.by_root {
        // Else an ordinary user could leave a group that keeps him out of a file.
        write_map(inner, "setgroups", "deny").map_err(fault("setgroups"))?;
    }
    write_map(inner, "uid_map", &own_map(plan.who.uid)).map_err(fault("uid_map"))?;
    write_map(inner, "gid_map", &own_map(plan.who.gid)).map_err(fault("gid_map"))?;
    prctl::set_dumpable(false).map_err(|errno| at("close", "boxd's memory")(errno.into()))?;
    keeper.say_go().map_err(at("tell", "the box to go on"))
}

fn inner(plan: &Plan, taken: Option<Trees>, line: DoorLine, signals: Signals) -> Result<Inside, IsolateFault> {
    signals.restore()?;
    inside::settle(plan, taken, &line)?;
    Ok(Inside {
        door: line.into_door(&plan.door),
        session: PathBuf::from(plan::SESSION),
        workspace: PathBuf::from(plan::WORKSPACE),
    })
}

/// A copy of a process with more threads than one would hold locks that nobody opens.
fn one_thread() -> Result<(), IsolateFault> {
    let tasks = std::fs::read_dir("/proc/self/task").map_err(at("count", "threads"))?;
    if tasks.count() == 1 {
        return Ok(());
    }
    let error = std::io::Error::other("boxd already has threads");
    Err(at("split", "boxd")(error))
}

/// Through a folder that was given as a standard stream, `..` would lead to the whole host.
fn no_folder_inherited() -> Result<(), IsolateFault> {
    for number in 0..=2 {
        let path = format!("/proc/self/fd/{number}");
        if std::fs::metadata(&path).is_ok_and(|found| found.is_dir()) {
            let what = "is a folder; give a file, a pipe or a terminal";
            return Err(IsolateFault::option("a standard stream", path, what));
        }
    }
    Ok(())
}

const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
