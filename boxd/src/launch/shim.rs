//! Shim: the loopback end of the wire, listening before the agent exists.

use std::path::Path;
use std::time::Duration;

use ::shim::{Loopback, RunTag, ShimFault};
use box_spec::Attestation;
use nix::sys::prctl;
use nix::unistd::geteuid;
use tokio::task::JoinHandle;

use super::claim::Claimed;
use super::seed::Seeded;
use super::{Before, Secrets, is_namespace_init};
use crate::environment::{self, Surroundings, Variables};
use crate::inputs::Wanted;
use crate::live::{self, Live, Notice};
use crate::{facts, say, sys, trust};

/// Proof that the shim listens; only with it can an agent be started.
pub(super) struct ShimUp {
    pub(super) seeded: Seeded,
    port: Loopback,
    /// Ends only when the shim cannot go on, and then the run cannot either; the text says why.
    pub(super) serving: JoinHandle<String>,
    /// Tells a later `boxd exec` of this run, where that can be written.
    _notice: Option<Notice>,
}

/// Listens at the usual port, or at a free one, and starts serving.
pub(super) async fn raise(wanted: &Wanted, claimed: &Claimed, seeded: Seeded) -> Result<ShimUp, ShimFault> {
    let tag = RunTag::new(&claimed.spec.run, &claimed.spec.token);
    let listening = ::shim::listen(Loopback::port(PORT), wanted.door.clone(), tag).await?;
    let port = listening.at();
    let serving =
        tokio::spawn(async move { format!("the shim cannot go on: {}", say::chain(&listening.serve().await)) });
    tokio::spawn(stay_small());
    let notice = live(claimed, &seeded, port, &wanted.session).tell(&wanted.session);
    let notice = notice.inspect_err(|fault| {
        say::line(&format!("WARNING: `boxd exec` will not find this run: {}", say::chain(fault)));
    });
    Ok(ShimUp { seeded, port, serving, _notice: notice.ok() })
}

/// What many tunnels held for a moment leaves holes in the heap; they go back now and then, as long as boxd runs.
async fn stay_small() {
    loop {
        tokio::time::sleep(LOW_TIDE).await;
        sys::give_memory_back();
    }
}

/// The run, as a command that joins it must know it.
fn live(claimed: &Claimed, seeded: &Seeded, shim: Loopback, session: &Path) -> Live {
    let spec = &claimed.spec;
    let own = seeded.variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let exposed = spec.exposed.iter().map(|one| (one.name.to_string(), one.value.clone()));
    let more = own.chain(exposed).filter(|(name, value)| live::may_be_told(name, value));
    Live {
        run: spec.run.clone(),
        box_id: spec.box_id.clone(),
        agent: spec.agent,
        network: live::own_network(),
        shim,
        ca: seeded.ca.clone(),
        bundle: seeded.bundle.clone(),
        home: seeded.home.clone(),
        session: session.to_owned(),
        workspace: seeded.workspace.clone(),
        ceiling: spec.ceiling_seconds.map(environment::minutes),
        more: more.collect(),
    }
}

impl ShimUp {
    /// What this box can prove, as it is now.
    pub(super) fn attestation(&self, claimed: &Claimed, before: &Before, secrets: Secrets) -> Attestation {
        let spec = &claimed.spec;
        Attestation {
            locked: before.locked,
            non_dumpable: prctl::get_dumpable().is_ok_and(|dumpable| !dumpable),
            no_new_privileges: prctl::get_no_new_privs().unwrap_or(false),
            namespace_init: is_namespace_init(),
            pinned: claimed.pinned,
            trusts_house: trust::is_in([&self.seeded.ca, &self.seeded.bundle], &spec.ca_pem)
                && trust::wget_is_told(&self.seeded.bundle),
            secret_free: secrets.free,
            layers: before.layers.clone(),
            uid: geteuid().as_raw(),
            agent_version: self.seeded.agent_version.clone(),
            facts: facts::look(&before.network, secrets.searched),
        }
    }

    /// The agent's whole environment.
    pub(super) fn environment(&self, wanted: &Wanted, claimed: &Claimed) -> Variables {
        let spec = &claimed.spec;
        let around = Surroundings {
            port: self.port.number(),
            ca: &self.seeded.ca,
            bundle: &self.seeded.bundle,
            home: &self.seeded.home,
            session: &wanted.session,
            workspace: self.seeded.workspace.as_deref(),
            run: spec.run.as_str(),
            ceiling_seconds: spec.ceiling_seconds,
            exposed: &spec.exposed,
        };
        let mut variables = environment::build(&wanted.variables, &wanted.extra, &around);
        for (name, value) in &self.seeded.variables {
            variables.set(*name, value);
        }
        variables
    }
}

const LOW_TIDE: Duration = Duration::from_secs(2);
const PORT: u16 = 3128;
