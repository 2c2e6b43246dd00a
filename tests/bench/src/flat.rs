//! What must not grow with the house: the instructions of a request with many grants, a long ledger, many doors, and what a
//! door that nobody uses holds. Instructions do not depend on who else works, so these are taken once.

use std::time::Duration;

use anyhow::Result;
use bench::count::{Work, per_unit};
use bench::ground::{Ground, Wanted};

use crate::cost;
use crate::measure::{Measure, Numbers, Size};
use crate::subject::waiting_house;

/// Takes one of them; nothing where the measure is another.
pub(crate) fn take(measure: Measure, ground: &Ground, size: &Size) -> Option<Result<Numbers>> {
    let (little, much) = match measure {
        Measure::ManyGrants => (Wanted { grants: 10, ..small() }, Wanted { grants: 10_000, ..small() }),
        Measure::LongLedger => (small(), Wanted { history: size.history, ..small() }),
        Measure::ManyDoors => (small(), Wanted { boxes: DOORS, ..small() }),
        _ => return None,
    };
    Some(compare(&little, &much).and_then(|mut numbers| {
        if measure == Measure::ManyDoors {
            let more = memory(ground, &much)? - memory(ground, &little)?;
            numbers.insert("door".to_owned(), more / (DOORS - 1) as f64);
        }
        Ok(numbers)
    }))
}

fn small() -> Wanted {
    Wanted { in_memory: false, ..Wanted::default() }
}

fn compare(little: &Wanted, much: &Wanted) -> Result<Numbers> {
    let (less, more) = (per_unit(Work::Requests, little)?, per_unit(Work::Requests, much)?);
    Ok(Numbers::from([("instructions".to_owned(), more), ("ratio".to_owned(), more / less)]))
}

/// KiB of a gateway that waits.
fn memory(ground: &Ground, wanted: &Wanted) -> Result<f64> {
    let waiting = waiting_house(ground, wanted)?;
    std::thread::sleep(Duration::from_millis(500));
    cost::memory(&waiting.roots)
}

const DOORS: usize = 1000;
