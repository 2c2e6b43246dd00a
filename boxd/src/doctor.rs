//! `boxd doctor`: what this box is and whether a run would start in it, for people; with `--attack`, what is refused in it.
//!
//! It hardens itself as a launch does, and claims nothing: it can be asked beside a run.

mod attack;
mod stores;

use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use box_spec::{Agent, BoxFacts, Layer, Layers, Searched};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::geteuid;

use self::attack::Attempt;
use crate::environment::Variables;
use crate::harden::{self, LeftOut};
use crate::inputs::WantedDoctor;
use crate::lock::Network;
use crate::secrets::{Looked, Places};
use crate::{exit, facts, find, launch, live, lock, say, secrets, sys, trust, workspace};

/// Looks, prints what it found, and gives the exit code: 77 where a run would not start or an attack was let in.
pub(crate) fn examine(wanted: &WantedDoctor) -> u8 {
    if let Err(fault) = sys::close_to_others() {
        say::line(&format!("prepare this process: {fault}"));
        return exit::OWN_FAULT;
    }
    let (network, open) = lock::look(wanted.over_network);
    let (layers, scope) = match harden::harden(&LeftOut::default()) {
        Ok(hardened) => hardened,
        Err(fault) => {
            say::line(&say::chain(&fault));
            return exit::UNPROVEN;
        }
    };
    if wanted.attack {
        return attack(scope.as_ref(), wanted);
    }
    let rows = [
        row(true, "box", &box_of(&facts::look(&network, Searched::default()))),
        network_row(wanted, &network, open.as_ref()),
        layers_row(&layers),
        secrets_row(wanted),
        house_row(wanted),
        roots_row(),
        stores_row(wanted),
        agents_row(wanted),
        workspace_row(wanted),
    ];
    let text: String = rows.iter().map(|row| row.text.as_str()).collect();
    let code = if rows.iter().all(|row| row.good) { 0 } else { exit::UNPROVEN };
    print(&text).unwrap_or(code)
}

/// One line of the table.
struct Row {
    good: bool,
    text: String,
}

fn row(good: bool, what: &str, said: &str) -> Row {
    Row { good, text: format!("{}  {what:<10} {said}\n", if good { "ok   " } else { "FAULT" }) }
}

fn box_of(facts: &BoxFacts) -> String {
    let init = if launch::is_namespace_init() { "PID 1" } else { "not PID 1" };
    let root = if facts.read_only_root { "read-only root" } else { "writable root" };
    let image = facts.image.as_deref().unwrap_or("an image without a name");
    format!("{image}, kernel {}, uid {}, {init}, {root}, capabilities {}", facts.kernel, geteuid(), facts.capabilities)
}

fn network_row(wanted: &WantedDoctor, network: &Network, open: Option<&lock::Open>) -> Row {
    match open {
        None => match network.interfaces.first() {
            Some(name) => row(true, "network", &format!("loopback, and {name} as far as {}", wanted.door.name())),
            None => row(true, "network", "loopback alone"),
        },
        // It may be the run of this very box, which has another container: a launch asks the house, and a doctor claims nothing.
        Some(open @ lock::Open::Neighbour { .. }) if has_a_run(wanted) => {
            let said = format!("NOT TOLD beside a run of this box, which may be who is meant: {}", say::chain(open));
            row(true, "network", &said)
        }
        Some(open) => {
            let mut said = format!("not locked: {}", say::chain(open));
            if network.interfaces.len() > 1 {
                let _cannot_fail = write!(said, " (of {})", network.interfaces.join(", "));
            }
            let _cannot_fail = write!(said, "; {}", lock::fix(wanted.over_network.is_some()));
            row(false, "network", &said)
        }
    }
}

/// Whether a run has the session of this box: also one in another container.
fn has_a_run(wanted: &WantedDoctor) -> bool {
    let session = wanted.session.as_deref();
    session.is_some_and(|session| Agent::ALL.into_iter().any(|agent| live::is_at_home(agent, session)))
}

fn layers_row(layers: &Layers) -> Row {
    let state = |layer: &Layer| match layer {
        Layer::On => "on",
        Layer::Absent => "not in this kernel",
        Layer::LeftOut(_) => "left out",
    };
    let said: Vec<String> = layers.named().iter().map(|(name, layer)| format!("{name} {}", state(layer))).collect();
    row(true, "hardening", &said.join(", "))
}

/// Which secrets the house has is told to a run alone; what looks like a credential is seen without that.
fn secrets_row(wanted: &WantedDoctor) -> Row {
    let homes = [wanted.variables.get("HOME").map(Path::new), None];
    let (variables, taken_away) = (&wanted.variables, &wanted.taken_away);
    let session = wanted.session.as_deref().unwrap_or_else(|| Path::new(""));
    let places = Places { variables, extra: &Variables::default(), taken_away, session, homes };
    let Looked { found, searched } = places.real_looking();
    let Searched { variables, files, bytes, left_out } = searched;
    if found.is_empty() {
        let rest = if left_out == 0 { String::new() } else { format!(", {left_out} not looked into") };
        let said = format!("none seen in {variables} variables and {files} files ({} KiB){rest}", bytes / 1024);
        return row(true, "secrets", &said);
    }
    let said = format!(
        "what looks like a credential is in {}; take it out of this box and give it to the house",
        secrets::listed(&found)
    );
    row(false, "secrets", &said)
}

fn house_row(wanted: &WantedDoctor) -> Row {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answered = match runtime {
        Ok(runtime) => runtime.block_on(launch::house_behind(&wanted.door, wanted.house.as_ref())),
        Err(fault) => return row(false, "house", &format!("start the runtime: {fault}")),
    };
    match answered {
        Ok(identity) => {
            let pinned = if wanted.house.is_some() { "pinned" } else { "not pinned" };
            let said = format!("box {} of {}, {pinned}, at {}", identity.box_id, identity.house, wanted.door.name());
            row(true, "house", &said)
        }
        Err(fault) => row(false, "house", &fault),
    }
}

fn roots_row() -> Row {
    match trust::image_roots() {
        Some(path) => row(true, "roots", path),
        None => row(true, "roots", "the image has none: clients will trust the house's certificate alone"),
    }
}

/// No fault: a run starts, and most images have none.
fn stores_row(wanted: &WantedDoctor) -> Row {
    let variable = |name| wanted.variables.get(name);
    let unreached = stores::unreached(variable("PATH"), variable("HOME"), variable("JAVA_HOME"));
    match unreached.is_empty() {
        true => row(true, "stores", "none that the variables do not reach"),
        false => row(true, "stores", &format!("NOT REACHED: {}", unreached.join("; "))),
    }
}

/// A box needs one agent; the others are told of too.
fn agents_row(wanted: &WantedDoctor) -> Row {
    let mut any = false;
    let said = Agent::ALL.map(|agent| match find::find(agent, &wanted.agent_path, wanted.variables.get("PATH")) {
        Ok(found) => {
            any = true;
            let version = found.version.as_deref().unwrap_or("of unknown version");
            format!("{agent} {version}")
        }
        Err(find::FindFault::NotFound { .. }) => format!("no {agent}"),
        Err(fault) => fault.to_string(),
    });
    let fix = if any { "" } else { "; install one, or name its folder by BOXGATE_AGENT_PATH" };
    row(any, "agents", &format!("{}{fix}", said.join(", ")))
}

fn workspace_row(wanted: &WantedDoctor) -> Row {
    let held = wanted.session.as_deref().and_then(workspace::holds_the_house);
    match held.or_else(workspace::unwritable) {
        None => {
            let here = std::env::current_dir().unwrap_or_default();
            row(true, "workspace", &format!("{}, writable", here.display()))
        }
        Some(fault) => row(false, "workspace", &fault),
    }
}

/// Lets a child attack this process, and waits for what it tells.
fn attack(scope: Option<&OwnedFd>, wanted: &WantedDoctor) -> u8 {
    let child = match sys::isolate::clone_into(0) {
        Ok(Some(child)) => child,
        Ok(None) => sys::isolate::end_now(i32::from(attacked(scope, wanted))),
        Err(fault) => {
            say::line(&format!("start the attacker: {fault}"));
            return exit::OWN_FAULT;
        }
    };
    match waitpid(child, None) {
        Ok(WaitStatus::Exited(_, code)) => u8::try_from(code).unwrap_or(exit::OWN_FAULT),
        other => {
            say::line(&format!("the attacker did not end by itself: {other:?}"));
            exit::OWN_FAULT
        }
    }
}

fn attacked(scope: Option<&OwnedFd>, wanted: &WantedDoctor) -> u8 {
    let attempts = match attack::attempts(scope, &wanted.door, &wanted.reach) {
        Ok(attempts) => attempts,
        Err(fault) => {
            say::line(&format!("enter the scope: {fault}"));
            return exit::OWN_FAULT;
        }
    };
    let mut text = String::new();
    for Attempt { what, refused } in &attempts {
        let _cannot_fail = match refused {
            Some(errno) => writeln!(text, "refused  {what:<56} {errno:?}"),
            None => writeln!(text, "LET IN   {what}"),
        };
    }
    let let_in = attempts.iter().filter(|attempt| attempt.refused.is_none()).count();
    let _cannot_fail = writeln!(text, "{} attempts, {let_in} let in", attempts.len());
    print(&text).unwrap_or(if let_in == 0 { 0 } else { exit::UNPROVEN })
}

/// An exit code where it could not be printed.
fn print(text: &str) -> Option<u8> {
    let fault =
        std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).err().and_then(crate::output::matters)?;
    say::line(&format!("print: {fault}"));
    Some(exit::UNREPORTED)
}
