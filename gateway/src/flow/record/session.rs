//! Session: the line of a WebSocket, open as long as it lasts.

use std::time::Duration;

use http::{Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::body::Reads;
use crate::body::messages::Judged;
use crate::drain::Drain;
use crate::flow::identify::Caller;
use crate::flow::record::Reply;
use crate::flow::record::echo::Bell;
use crate::flow::relay::Switched;
use crate::flow::relay::session::{Ear, Limits, Parting, Passed, carry};
use crate::house::House;
use crate::ledger::{Ended, Ledger, Line, Outcome};
use crate::live::Place;
use crate::refusal::{Reason, Refusal};

use super::told::weigh;

/// A WebSocket with the line of its handshake, and its place among the requests of its box.
struct Session {
    ends: Option<(OnUpgrade, Upgraded)>,
    line: Option<Line>,
    _place: OwnedSemaphorePermit,
    live: Place,
    passed: Passed,
    idle: Duration,
    timings: Vec<(&'static str, Duration)>,
    bell: Option<Bell>,
    reads: Option<Reads>,
    ledger: Ledger,
    caller: Caller,
    over: CancellationToken,
    drain: Drain,
}

/// The 101 for the box, and what its connection becomes then. The line closes when that has ended, or was dropped.
pub fn switched(
    house: &House,
    caller: &Caller,
    switched: Switched,
    mut line: Line,
    (place, live): (OwnedSemaphorePermit, Place),
) -> (Response<Reply>, impl Future<Output = ()> + Send + use<>) {
    let Switched { response, upstream, of_box, injected, watch, reads, timings } = switched;
    line.note_injected(injected);
    let session = Session {
        ends: Some((of_box, upstream)),
        line: Some(line),
        _place: place,
        live,
        passed: Passed::default(),
        idle: house.limits.websocket_idle,
        timings,
        bell: watch.map(|watch| Bell::new(watch, &house.ledger, caller)),
        reads,
        ledger: house.ledger.clone(),
        caller: caller.clone(),
        over: caller.run().over().clone(),
        drain: house.drain.clone(),
    };
    (response.map(|()| Reply::empty()), session.carried())
}

impl Session {
    async fn carried(mut self) {
        let Some((of_box, upstream)) = self.ends.take() else { return };
        // A box that left before it had its answer: the line says aborted.
        let Ok(of_box) = of_box.await else { return };
        let ear =
            self.bell.as_ref().map(|bell| Ear { needles: &bell.watch().needles, heard: |found| bell.heard(found) });
        let judged = self.reads.clone().map(Judged::new);
        let (of_box, upstream) = (TokioIo::new(of_box), TokioIo::new(upstream));
        let limits = Limits { idle: self.idle, withdrawn: self.live.withdrawn(), over: &self.over };
        match carry(of_box, upstream, &self.passed, limits, ear, judged).await {
            Parting::Complete => self.close(Ended::Complete, None),
            Parting::BoxGone => self.close(Ended::Aborted, None),
            Parting::UpstreamGone(inside) => self.failed(inside),
            Parting::Silent => self.failed("nothing passed for too long".to_owned()),
            Parting::Refused(refusal) => self.refused(refusal),
            Parting::Withdrawn => {
                let inside = "a reload withdrew what allowed it".to_owned();
                self.close(Ended::Cut, Some((Reason::GrantWithdrawn, inside)));
            }
            Parting::RunOver => self.close(Ended::Cut, Some((Reason::RunOver, "the run ended under it".to_owned()))),
        }
    }

    fn failed(&mut self, inside: String) {
        self.close(Ended::Incomplete, Some((Reason::UpstreamFailed, inside)));
    }

    fn refused(&mut self, refusal: Refusal) {
        let why = (refusal.reason(), refusal.inside().to_owned());
        if let Some(reads) = &self.reads {
            weigh(&self.ledger, &self.caller, &reads.told(refusal));
        }
        self.close(Ended::Cut, Some(why));
    }

    /// `why` where it ended for more than that one side had done.
    fn close(&mut self, ended: Ended, why: Option<(Reason, String)>) {
        let Some(line) = self.line.take() else { return };
        let (bytes_up, bytes_down) = self.passed.bytes();
        let (reason, inside) = why.unzip();
        line.close(Outcome {
            status: Some(StatusCode::SWITCHING_PROTOCOLS.as_u16()),
            bytes_up,
            bytes_down,
            ended,
            reason,
            inside,
            injected: Vec::new(),
            timings: std::mem::take(&mut self.timings),
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let is_cut = self.over.is_cancelled() || self.drain.is_over();
        self.close(if is_cut { Ended::Cut } else { Ended::Aborted }, None);
    }
}
