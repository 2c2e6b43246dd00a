//! Record: what the box is answered, and how the line of its request is closed.

mod reply;
mod echo;
mod session;
mod told;
mod local;

use std::time::Duration;

use box_spec::BoxId;
use box_spec::wire::{Identity, PROTOCOL};
use http::Response;
use tokio::sync::OwnedSemaphorePermit;

use crate::flow::identify::Caller;
use crate::flow::intercept::count::TunnelCount;
use crate::flow::relay::Arrived;
use crate::house::House;
use crate::ledger::{Ended, Ledger, Line, Outcome};
use crate::live::Place;
use crate::refusal::{Reason, Told};

use echo::Bell;

pub use echo::watch_body;
pub use local::answered;
pub use reply::{Recorded, Reply};
pub use session::switched;
pub use told::{count, refuse, refuse_inside, refused, refused_after, told};

/// `GET /healthz` at a door: which house this is, and nothing else.
#[must_use]
pub fn identity(house: &House, box_id: &BoxId, challenge: Option<&str>) -> Response<Reply> {
    let identity = Identity {
        house: house.fingerprint.clone(),
        box_id: box_id.clone(),
        protocol: PROTOCOL,
        challenge: challenge.map(str::to_owned),
    };
    Response::new(Reply::json(serde_json::to_vec(&identity).unwrap_or_default()))
}

/// An answer from upstream, on its way to the box. Its line closes when the body ended, or was dropped.
#[must_use]
pub fn relayed(
    ledger: &Ledger,
    caller: &Caller,
    arrived: Arrived,
    mut line: Line,
    held: (OwnedSemaphorePermit, Place),
    idle: Duration,
) -> Response<Reply> {
    let Arrived { response, lease, sent, injected, watch, timings } = arrived;
    line.note_injected(injected);
    let (head, body) = response.into_parts();
    let recorded = Recorded::new(
        body,
        line,
        lease,
        held,
        idle,
        watch.map(|watch| Bell::new(watch, ledger, caller)),
        reply::Facts { status: head.status.as_u16(), sent, timings, over: caller.run().over().clone() },
    );
    Response::from_parts(head, Reply::Relayed(Box::new(recorded)))
}

/// How a tunnel ended that was not refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tunnel {
    /// The box closed it, or the house went down.
    Ended,
    /// Its run was over.
    Cut,
    /// A reload took away all that its box had there.
    Withdrawn,
}

/// A tunnel is gone: its refusal has a line, and its own line is closed.
pub fn tunnel(ledger: &Ledger, caller: &Caller, line: Option<Line>, count: &TunnelCount, ended: Result<Tunnel, Told>) {
    let reason = matches!(ended, Ok(Tunnel::Withdrawn)).then_some(Reason::GrantWithdrawn);
    let ended = match ended {
        Ok(Tunnel::Ended) => Ended::Complete,
        Ok(Tunnel::Cut | Tunnel::Withdrawn) => Ended::Cut,
        Err(told) => {
            refused(ledger, caller.box_id(), Some(caller), &told);
            Ended::Failed
        }
    };
    let Some(line) = line else { return };
    let (bytes_up, bytes_down) = count.seen();
    line.close(Outcome { bytes_up, bytes_down, ended, reason, ..Outcome::default() });
}
