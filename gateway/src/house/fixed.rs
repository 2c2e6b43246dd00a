//! Fixed: what of a configuration cannot change while the house stands.

use std::path::PathBuf;

use box_spec::BoxId;

use crate::config::{Config, DoorConfig, Limits};
use crate::dial::DialConfig;
use crate::ledger::Settings;

/// Places, doors and limits: changing one takes a restart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fixed {
    state: PathBuf,
    operator_socket: PathBuf,
    ledger: Settings,
    limits: Limits,
    dial: DialConfig,
    doors: Vec<(BoxId, DoorConfig)>,
}

impl Fixed {
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            state: config.state.clone(),
            operator_socket: config.operator_socket.clone(),
            ledger: config.ledger.clone(),
            limits: config.limits.clone(),
            dial: config.dial.clone(),
            doors: config.boxes.iter().map(|one| (one.id.clone(), one.door.clone())).collect(),
        }
    }

    /// What another configuration says otherwise, each by its name in the file.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let Self { state, operator_socket, ledger, limits, dial, doors } = other;
        let mut found = Vec::new();
        for (differs, name) in [
            (*state != self.state, "`state`"),
            (*operator_socket != self.operator_socket, "`socket` in [operator]"),
            (*ledger != self.ledger, "[ledger]"),
            (*limits != self.limits, "[limits]"),
            (*dial != self.dial, "[dial]"),
        ] {
            if differs {
                found.push(name.to_owned());
            }
        }
        let door_in = |doors: &[(BoxId, DoorConfig)], id: &BoxId| {
            doors.iter().find(|(other, _)| other == id).map(|(_, door)| door.clone())
        };
        for (id, door) in doors {
            match door_in(&self.doors, id) {
                None => found.push(format!("box {id}, which is new")),
                Some(before) if before != *door => found.push(format!("the door of box {id}")),
                Some(_) => {}
            }
        }
        let gone = self.doors.iter().filter(|(id, _)| door_in(doors, id).is_none());
        found.extend(gone.map(|(id, _)| format!("box {id}, which is gone")));
        found
    }
}
