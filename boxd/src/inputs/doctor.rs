//! What `boxd doctor` is asked for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use box_spec::Fingerprint;
use shim::Door;

use super::door::DoorInputs;
use super::{InputFault, OwnVariables, session_of};
use crate::cli::DoctorArguments;
use crate::environment::{self, TakenAway, Variables};
use crate::isolate::Inside;
use crate::reach::Reach;

/// `boxd doctor`.
#[derive(Debug)]
pub(crate) struct WantedDoctor {
    pub(crate) attack: bool,
    /// What else the attack tries to reach.
    pub(crate) reach: Vec<Reach>,
    pub(crate) door: Door,
    pub(crate) over_network: Option<SocketAddr>,
    pub(crate) house: Option<Fingerprint>,
    pub(crate) agent_path: Vec<PathBuf>,
    pub(crate) session: Option<PathBuf>,
    pub(crate) variables: Variables,
    pub(crate) taken_away: TakenAway,
}

impl WantedDoctor {
    pub(crate) fn new(arguments: DoctorArguments, given: BTreeMap<OsString, OsString>) -> Result<Self, InputFault> {
        let DoctorArguments { attack, reach, door } = arguments;
        let reach = reach
            .into_iter()
            .map(|text| Reach::read(&text).ok_or(InputFault::Reach(text)))
            .collect::<Result<_, _>>()?;
        let mut given = given;
        let OwnVariables { agent: _, system: _, door: named, session, house, key_file, agent_path } =
            OwnVariables::take(&mut given)?;
        let DoorInputs { door, network_door } = DoorInputs::new(door.or(named), key_file.as_deref(), house.as_ref())?;
        let over_network = network_door.map(|door| door.address);
        let (variables, taken_away) = environment::scrub(given);
        // A box that has no place for a session yet is no fault of the doctor's to tell.
        let session = session_of(session, &variables).ok();
        Ok(Self { attack, reach, door, over_network, house, agent_path, session, variables, taken_away })
    }

    /// Into the box that boxd has made.
    pub(crate) fn move_in(&mut self, inside: Inside) {
        self.variables.keep_for_isolation();
        self.session = Some(inside.session);
        self.door = inside.door;
        self.over_network = None;
    }
}
