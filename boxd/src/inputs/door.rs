//! How boxd reaches the house, from what it was told: a socket, or an address with a key and a pinned house.

use std::path::{Path, PathBuf};

use box_spec::Fingerprint;
use shim::Door;

use super::{DOOR, InputFault, absolute};
use crate::network_door::{self, NetworkDoor, NetworkDoorFault};

/// The door, as its address says: a socket, or a TCP door with all that such a one needs.
pub(super) struct DoorInputs {
    pub(super) door: Door,
    pub(super) network_door: Option<NetworkDoor>,
}

impl DoorInputs {
    pub(super) fn new(
        given: Option<PathBuf>,
        key_file: Option<&Path>,
        house: Option<&Fingerprint>,
    ) -> Result<Self, InputFault> {
        let given = given.unwrap_or_else(|| PathBuf::from(DOOR));
        let Some(address) = network_door::address_of(&given)? else {
            if key_file.is_some() {
                return Err(NetworkDoorFault::StrayKey.into());
            }
            return Ok(Self { door: Door::at(absolute(given, "--door")?), network_door: None });
        };
        let network_door = NetworkDoor::new(address, key_file)?;
        // Anybody could answer at an address: the key is proved to the pinned house alone.
        house.ok_or(NetworkDoorFault::NoHouse)?;
        Ok(Self { door: network_door.door(), network_door: Some(network_door) })
    }
}

/// The house that the box is pinned to, by its fingerprint or by a file that the house wrote it into.
pub(super) fn pinned(named: Option<Fingerprint>, file: Option<PathBuf>) -> Result<Option<Fingerprint>, InputFault> {
    let Some(path) = file else { return Ok(named) };
    let line = match network_door::read_line(&path) {
        Ok(line) => line,
        Err(source) => return Err(NetworkDoorFault::HouseFile { path, source }.into()),
    };
    let read: Fingerprint = line.parse().map_err(InputFault::House)?;
    match named {
        Some(named) if named != read => Err(NetworkDoorFault::TwoHouses.into()),
        _ => Ok(Some(read)),
    }
}
