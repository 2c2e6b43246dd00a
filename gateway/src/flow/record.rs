//! Record: what the box is answered, and how the line of its request is closed.

mod reply;
mod told;
mod local;

use std::time::Duration;

use box_spec::BoxId;
use box_spec::wire::{Identity, PROTOCOL};
use http::Response;
use tokio::sync::OwnedSemaphorePermit;

use crate::flow::identify::Caller;
use crate::flow::relay::Arrived;
use crate::house::House;
use crate::ledger::{Ended, Ledger, Line, Outcome};
use crate::refusal::Told;

pub use local::answered;
pub use reply::{Recorded, Reply};
pub use told::{refuse, refused, refused_after, told};

/// `GET /healthz` at a door: which house this is, and nothing else.
#[must_use]
pub fn identity(house: &House, box_id: &BoxId) -> Response<Reply> {
    let identity = Identity { house: house.fingerprint.clone(), box_id: box_id.clone(), protocol: PROTOCOL };
    Response::new(Reply::json(serde_json::to_vec(&identity).unwrap_or_default()))
}

/// An answer from upstream, on its way to the box. Its line closes when the body ended, or was dropped.
#[must_use]
pub fn relayed(
    caller: &Caller,
    arrived: Arrived,
    mut line: Line,
    place: OwnedSemaphorePermit,
    idle: Duration,
) -> Response<Reply> {
    let Arrived { response, lease, sent, injected, timings } = arrived;
    line.note_injected(injected);
    let (head, body) = response.into_parts();
    let recorded = Recorded::new(
        body,
        line,
        lease,
        place,
        idle,
        reply::Facts { status: head.status.as_u16(), sent, timings, over: caller.run().over().clone() },
    );
    Response::from_parts(head, Reply::Relayed(Box::new(recorded)))
}

/// A tunnel ended.
pub fn tunnel_closed(
    ledger: &Ledger,
    box_id: &BoxId,
    caller: &Caller,
    line: Option<Line>,
    bytes: (u64, u64),
    failed: Option<Told>,
) {
    if let Some(told) = &failed {
        refused(ledger, box_id, Some(caller), told);
    }
    let ended = if failed.is_some() { Ended::Failed } else { Ended::Complete };
    if let Some(line) = line {
        line.close(Outcome { bytes_up: bytes.0, bytes_down: bytes.1, ended, ..Outcome::default() });
    }
}

/// A tunnel could not be opened.
pub fn tunnel_failed(ledger: &Ledger, box_id: &BoxId, caller: &Caller, line: Option<Line>, told: &Told) {
    refused(ledger, box_id, Some(caller), told);
    if let Some(line) = line {
        line.close(Outcome {
            ended: Ended::Failed,
            reason: Some(told.refusal.reason()),
            inside: Some(told.refusal.inside().to_owned()),
            ..Outcome::default()
        });
    }
}
