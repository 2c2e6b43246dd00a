//! What all subjects of a bench stand on, and the house as it is measured: everything on.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use harness::{Claimed, House, HouseBuilder};
use tempfile::TempDir;

use crate::certs::{self, HOST, MANY};
use crate::wire::{Entrance, Route};

/// The certificates of this bench, in a folder of its own, and the origin's address.
pub struct Ground {
    folder: TempDir,
    pub origin: SocketAddr,
}

/// What differs between houses.
///
/// # Defaults
///
/// 200 grants, one box, an empty ledger in `batch`.
#[derive(Clone)]
pub struct Wanted {
    pub grants: usize,
    pub boxes: usize,
    /// Bytes of ledger that the house wrote before.
    pub history: u64,
    pub sync: &'static str,
    /// The state lies in memory.
    pub in_memory: bool,
    /// The house waits longer than it does by itself: it is slow under callgrind.
    pub patient: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { grants: 200, boxes: 1, history: 0, sync: "batch", in_memory: false, patient: false }
    }
}

impl Ground {
    /// Makes the certificates; the origin comes later.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made.
    pub fn folder() -> Result<TempDir> {
        let folder = tempfile::Builder::new().prefix("bench-").tempdir().context("make the bench's folder")?;
        certs::write(folder.path())?;
        Ok(folder)
    }

    #[must_use]
    pub const fn new(folder: TempDir, origin: SocketAddr) -> Self {
        Self { folder, origin }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// # Errors
    ///
    /// When it is not there.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        std::fs::read(self.path().join(name)).with_context(|| format!("read {name}"))
    }

    /// A house with everything on: the grant of the host stands behind all but one of the others, and hosts that are asked
    /// once come last. Its limits are raised to what the figures hold open at once.
    ///
    /// # Errors
    ///
    /// When the origin's certificate is not there.
    pub fn house(&self, wanted: &Wanted) -> Result<HouseBuilder> {
        let mut grants = String::new();
        let address = self.origin;
        for at in 0..wanted.grants.saturating_sub(2) {
            let _infallible = write!(
                grants,
                "[[grant]]\nname = \"other-{at}\"\nhosts = [\"service-{at}.example.com\", \"*.zone-{at}.example.org\"]\nmethods = [\"GET\", \"POST\"]\npaths = [\"/v1/things\", \"/v2/things-{at}\"]\n"
            );
        }
        let there = format!("unsafe_dial = \"{address}\"\nupstream_ca = \"{}\"\n", certs::ORIGIN_CA);
        let _infallible = write!(
            grants,
            "[[grant]]\nname = \"host\"\nhosts = [\"{HOST}\"]\npaths = [\"/json\", \"/echo\", \"/bytes\", \"/sink\", \"/events\"]\nsecret = \"anthropic\"\n{there}[[grant]]\nname = \"many\"\nhosts = [\"*.{MANY}\"]\n{there}"
        );
        let (deadline, waits) = if wanted.patient {
            ("1m", "tls_deadline = \"1m\"\nhead_deadline = \"1m\"\nresponse_head_deadline = \"5m\"\n")
        } else {
            ("2s", "")
        };
        let mut house = House::builder()
            .secret(standin::Real::Bearer(SECRET.to_owned()))
            .file(certs::ORIGIN_CA, &self.read(certs::ORIGIN_CA)?)
            .ceiling("10h")
            .ledger(&format!("sync = \"{}\"\ndeadline = \"{deadline}\"", wanted.sync))
            .extra(&format!(
                "[limits]\nconnections_per_box = 8000\nrequests_in_flight_per_box = 4000\n{RATES}{waits}{grants}"
            ));
        for at in 1..wanted.boxes {
            house = house.add_box(&format!("more-{at}"), "");
        }
        Ok(if wanted.in_memory { house.in_memory() } else { house })
    }

    /// The way to the host through the door of this house's first box, with the run that this claim holds.
    ///
    /// # Errors
    ///
    /// When the house's certificate cannot be read.
    pub fn by_door(&self, house: &House, claimed: &Claimed) -> Result<Route> {
        let sentinel = claimed.spec.sentinels.first().context("find the run's sentinel")?;
        Ok(Route {
            entrance: Entrance::Door(house.door(FIRST)),
            port: 443,
            token: Some(claimed.token().to_owned()),
            authorization: sentinel.access.clone(),
            tls: certs::client(house.ca_pem()?.as_bytes())?,
        })
    }
}

/// The box that the harness gives every house.
pub const FIRST: &str = "one";
/// What must arrive at the origin in place of what a client sent.
pub const SECRET: &str = "sk-ant-oat01-the-real-one-of-the-bench-0123456789abcdef";

/// More than can be measured here.
const RATES: &str = "requests_per_minute_per_box = 10000000\ntunnels_per_minute_per_box = 10000000\n";
