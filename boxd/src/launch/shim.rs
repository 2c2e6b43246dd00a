//! Shim: the loopback end of the wire, listening before the agent exists.

use ::shim::{Loopback, RunTag, ShimFault};
use box_spec::Attestation;
use nix::sys::prctl;
use nix::unistd::geteuid;
use tokio::task::JoinHandle;

use super::claim::Claimed;
use super::seed::Seeded;
use super::{Before, is_namespace_init};
use crate::environment::{self, Surroundings, Variables};
use crate::inputs::Wanted;
use crate::{facts, trust};

/// Proof that the shim listens; only with it can an agent be started.
pub(super) struct ShimUp {
    pub(super) seeded: Seeded,
    port: Loopback,
    /// Ends only when the shim cannot go on, and then the run cannot either.
    pub(super) serving: JoinHandle<ShimFault>,
}

/// Listens at the usual port, or at a free one, and starts serving.
pub(super) async fn raise(wanted: &Wanted, claimed: &Claimed, seeded: Seeded) -> Result<ShimUp, ShimFault> {
    let tag = RunTag::new(&claimed.spec.run, &claimed.spec.token);
    let listening = ::shim::listen(Loopback::port(PORT), wanted.door.clone(), tag).await?;
    let port = listening.at();
    Ok(ShimUp { seeded, port, serving: tokio::spawn(listening.serve()) })
}

impl ShimUp {
    /// What this box can prove, as it is now.
    pub(super) fn attestation(&self, claimed: &Claimed, before: &Before) -> Attestation {
        let spec = &claimed.spec;
        Attestation {
            locked: before.locked,
            non_dumpable: prctl::get_dumpable().is_ok_and(|dumpable| !dumpable),
            no_new_privileges: prctl::get_no_new_privs().unwrap_or(false),
            namespace_init: is_namespace_init(),
            pinned: claimed.pinned,
            trusts_house: trust::is_in([&self.seeded.ca, &self.seeded.bundle], &spec.ca_pem),
            layers: before.layers.clone(),
            uid: geteuid().as_raw(),
            agent_version: self.seeded.found.version.clone(),
            facts: facts::look(&before.network),
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
        };
        let mut variables = environment::build(&wanted.variables, &wanted.extra, &around);
        for (name, value) in &self.seeded.plan.variables {
            variables.set(*name, value);
        }
        variables
    }
}

const PORT: u16 = 3128;
