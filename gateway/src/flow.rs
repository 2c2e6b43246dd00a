//! The journey of one request, from a box's door to the provider and back. The only file that calls the steps.
//!
//! Read it from the top: a connection comes in, is told who it is, is judged, written down, opened, judged again,
//! written down again, given its credential, relayed, and recorded. Each step takes what the one before it made,
//! so that none can be left out: a [`judge::Permit`] comes only out of the ledger, and only a permit can be injected.

pub mod accept;
pub mod identify;
pub mod claim;
pub mod judge;
pub mod intercept;
pub mod inject;
pub mod relay;
pub mod record;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use box_spec::Provider;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::box_key;
use crate::host::Target;
use crate::house::{BoxHouse, House, Rules};
use crate::ledger::Verdict;
use crate::refusal::Told;

use accept::door::DoorListener;
use accept::exchange::FromBox;
use accept::rest::Lent;
use accept::side::SideHandle;
use accept::{Conn, Served};
use identify::{Caller, Knock};
use intercept::count::TunnelCount;
use intercept::{Inside, Opened};
use judge::{Pass, Ruling};
use record::Reply;
use relay::Answered;

/// One door, until the house drains: every connection of one box, each on its own.
pub async fn door(house: Arc<House>, here: Arc<BoxHouse>, listener: DoorListener) {
    loop {
        let accepted = tokio::select! {
            () = house.drain.started() => return,
            accepted = accept::next(&listener, &house, &here) => accepted,
        };
        match accepted {
            Ok(conn) => drop(tokio::spawn(connection(Arc::clone(&house), Arc::clone(&here), conn))),
            Err(told) => record::refused(&house.ledger, &here.id, None, &told),
        }
    }
}

/// One connection at a door: HTTP/1.1 in the clear, answered by [`at_the_door`].
async fn connection(house: Arc<House>, here: Arc<BoxHouse>, conn: Conn) {
    let _held = house.drain.hold();
    let (stream, side) = accept::watched(conn.stream, &house.limits, true);
    let challenge: Option<Arc<str>> = here.key.is_some().then(|| box_key::challenge().into());
    let service = service_fn(|request: Request<Incoming>| {
        let (house, here, side, challenge) = (Arc::clone(&house), Arc::clone(&here), side.clone(), challenge.clone());
        // A place of its own while it lasts: the connection would keep room for it as long as it is open.
        Box::pin(async move {
            let exchange = side.begin(request.method());
            let response = at_the_door(house, here, side, challenge.as_deref(), request).await;
            Ok::<_, Infallible>(exchange.answered(response))
        })
    });
    let served = accept::http(&house.limits).serve_connection(TokioIo::new(stream), service).with_upgrades();
    if let Err(told) = accept::until(Box::pin(served), house.drain.clone(), &side).await {
        record::refused(&house.ledger, &here.id, None, &told);
    }
}

/// A request at the door: somebody without a run, a tunnel, or a plain request.
async fn at_the_door(
    house: Arc<House>,
    here: Arc<BoxHouse>,
    side: SideHandle,
    challenge: Option<&str>,
    request: Request<Incoming>,
) -> Response<Reply> {
    match identify::knock(&house.runs, &here.id, &request) {
        Knock::Health => record::identity(&house, &here.id, challenge),
        Knock::Claim => claim::begin(house, here, challenge, request).await.map(Reply::Said),
        Knock::Nobody(told) => {
            house.runs.intruded(&here.id);
            record::refuse(&house.ledger, &here.id, None, &told)
        }
        Knock::Caller(caller) if request.method() == Method::CONNECT => connect(house, here, caller, request).await,
        Knock::Caller(caller) => plain(house, here, side, caller, request).await,
    }
}

/// CONNECT. Answered 200 even when it is refused: a refused CONNECT costs an agent minutes of retries,
/// while a refusal inside the tunnel is read at once.
async fn connect(
    house: Arc<House>,
    here: Arc<BoxHouse>,
    caller: Caller,
    request: Request<Incoming>,
) -> Response<Reply> {
    let target = match judge::target(&request) {
        Ok(target) => target,
        Err(told) => return record::refuse(&house.ledger, &here.id, Some(&caller), &told),
    };
    if !here.tunnels_rate.allows() {
        let told = accept::too_often(&here.id, "tunnels", "tunnels_per_minute_per_box");
        return record::refuse(&house.ledger, &here.id, Some(&caller), &told);
    }
    let rules = house.rules();
    let verdict = judge::door(&rules.policy, caller.clone(), target.clone());
    let passed = house.ledger.enter(verdict).await;
    if let Err(told) = &passed {
        record::count(&caller, told);
    }
    let upgraded = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let _held = house.drain.hold();
        let (passed, line) = match passed {
            Ok((pass, line)) => (Ok(pass), Some(line)),
            Err(told) => (Err(told), None),
        };
        let count = TunnelCount::default();
        let ended = tokio::select! {
            biased;
            () = over(&caller, &count) => Ok(record::Tunnel::Cut),
            () = withdrawn(&house, &caller, &target) => Ok(record::Tunnel::Withdrawn),
            ended = tunnel(&house, &here, &caller, passed, upgraded, &count) => ended,
        };
        record::tunnel(&house.ledger, &caller, line, &count, ended);
    });
    Response::new(Reply::empty())
}

/// Resolves when the run is over; a moment later where a session is open, so that it can say its own end.
async fn over(caller: &Caller, count: &TunnelCount) {
    caller.run().over().cancelled().await;
    if count.holds_session() {
        tokio::time::sleep(LAST_WORDS).await;
    }
}

/// Resolves when a reload took away all that a box had toward a target; a moment later, so that what is open inside can say
/// its own end.
async fn withdrawn(house: &House, caller: &Caller, target: &Target) {
    let mut changes = house.source.changes();
    let is_granted = || house.rules().policy.reaches(caller.box_id(), target);
    // A tunnel in which a refusal is said had nothing to lose.
    let mut had = is_granted();
    while had {
        if changes.changed().await.is_err() {
            break;
        }
        had = is_granted();
        if !had {
            return tokio::time::sleep(LAST_WORDS).await;
        }
    }
    std::future::pending().await
}

/// The inside of a tunnel: TLS is opened, and every request in it judged by itself.
async fn tunnel(
    house: &Arc<House>,
    here: &Arc<BoxHouse>,
    caller: &Caller,
    passed: Result<Pass, Told>,
    upgraded: OnUpgrade,
    count: &TunnelCount,
) -> Result<record::Tunnel, Told> {
    match passed {
        Ok(pass) => {
            // Large, and soon over: an idle tunnel is not to hold the room.
            let inside = Box::pin(intercept::open(&house.leaves, &house.limits, pass, upgraded, count)).await?;
            serve_inside(house, here, inside, count).await?;
        }
        Err(told) => {
            let outside = intercept::tell(&house.leaves, &house.limits, caller, told, upgraded, count);
            let outside = Box::pin(outside).await?;
            Box::pin(intercept::say(outside, &house.limits)).await;
        }
    }
    Ok(record::Tunnel::Ended)
}

async fn serve_inside(
    house: &Arc<House>,
    here: &Arc<BoxHouse>,
    inside: Inside,
    count: &TunnelCount,
) -> Result<(), Told> {
    let Inside { pass, stream } = inside;
    let mut stream = Lent::new(stream);
    let mut first = None;
    while serve_until_rest(house, here, &pass, &stream, count, first).await? == Served::Resting {
        first = stream.wake(house.limits.idle_tunnel, &house.drain).await;
        if first.is_none() {
            break;
        }
    }
    Ok(())
}

/// HTTP/1.1 inside a tunnel, until it ends or rests.
async fn serve_until_rest(
    house: &Arc<House>,
    here: &Arc<BoxHouse>,
    pass: &Pass,
    stream: &Lent<Opened>,
    count: &TunnelCount,
    first: Option<u8>,
) -> Result<Served, Told> {
    let (stream, side) = accept::watched_to_rest(stream.lend(), &house.limits, first);
    let side = &side;
    let service = service_fn(move |request: Request<Incoming>| {
        Box::pin(async move {
            let exchange = side.begin(request.method());
            let response = judged(house, here, side, pass, request).await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                count.note_session();
            }
            Ok::<_, Infallible>(exchange.answered(response))
        })
    });
    let served = accept::http(&house.limits).serve_connection(TokioIo::new(stream), service).with_upgrades();
    accept::until(Box::pin(served), house.drain.clone(), side).await
}

/// One request inside a tunnel: judge → ledger → inject → relay → record.
async fn judged(
    house: &Arc<House>,
    here: &Arc<BoxHouse>,
    side: &SideHandle,
    pass: &Pass,
    request: Request<Incoming>,
) -> Response<Reply> {
    let (head, body) = FromBox::part(request, side);
    let shape = judge::model_route(pass.target(), head.uri.path());
    let rules = house.rules();
    let verdict = judge::request(&rules.policy, pass, head);
    proceed(house, here, &rules, pass.caller(), shape, verdict, body).await
}

/// A plain `http://` request in absolute form: the same journey without the tunnel.
async fn plain(
    house: Arc<House>,
    here: Arc<BoxHouse>,
    side: SideHandle,
    caller: Caller,
    request: Request<Incoming>,
) -> Response<Reply> {
    let (head, body) = FromBox::part(request, &side);
    let over = caller.run().over().clone();
    let rules = house.rules();
    match judge::plain(&rules.policy, &caller, head) {
        Ok(verdict) => tokio::select! {
            biased;
            () = over.cancelled() => record::refuse(&house.ledger, &here.id, Some(&caller), &judge::run_over()),
            response = proceed(&house, &here, &rules, &caller, None, verdict, body) => response,
        },
        Err(told) => record::refuse(&house.ledger, &here.id, Some(&caller), &told),
    }
}

/// From the verdict to the answer. `shape` is the provider whose error shape a refusal takes, on its model routes.
async fn proceed(
    house: &Arc<House>,
    here: &Arc<BoxHouse>,
    rules: &Arc<Rules>,
    caller: &Caller,
    shape: Option<Provider>,
    verdict: Verdict<Ruling>,
    body: FromBox<'_>,
) -> Response<Reply> {
    if !here.requests_rate.allows() {
        body.discard();
        let told = accept::too_often(&here.id, "requests", "requests_per_minute_per_box");
        return record::refuse_inside(&house.ledger, caller, &told, shape);
    }
    let Some(place) = here.request_place() else {
        body.discard();
        return record::refuse_inside(&house.ledger, caller, &accept::too_many_requests(&here.id), shape);
    };
    let (ruling, mut line) = match house.ledger.enter(verdict).await {
        Ok(entered) => entered,
        Err(told) => {
            body.discard();
            return record::told(&house.ledger, caller, &told, shape);
        }
    };
    line.note_over(caller.run().over().clone());
    match ruling {
        Ruling::Answer(answer) => {
            body.discard();
            record::answered(caller, &rules.vault, &answer, line)
        }
        Ruling::Relay(permit) => {
            caller.run().count_request();
            let live = house.live.enter(permit.asked());
            // The rules may have changed since it was judged by these.
            if !Arc::ptr_eq(rules, &house.rules()) {
                house.live.cut_what_is_refused(&house.rules().policy);
            }
            inject::freshen(&rules.vault, &house.refresher, &permit).await;
            let gone = judge::Gone::of(&permit);
            let outbound = match inject::inject(&rules.vault, permit) {
                Ok(outbound) => outbound,
                Err(told) => {
                    body.discard();
                    return record::refused_after(&house.ledger, caller, line, &told, shape);
                }
            };
            record::watch_body(&house.ledger, caller, outbound.reads(), &mut line);
            let side = body.side;
            let relayed = tokio::select! {
                biased;
                () = live.withdrawn().cancelled() => Err(gone.told()),
                relayed = relay::relay(&house.upstreams, outbound, body) => relayed,
            };
            match relayed {
                Ok(Answered::Arrived(arrived)) => {
                    record::relayed(&house.ledger, caller, arrived, line, (place, live), house.limits.response_idle)
                }
                Ok(Answered::Switched(switched)) => {
                    let (response, session) = record::switched(house, caller, switched, line, (place, live));
                    side.afterwards(session);
                    response
                }
                Err(told) => record::refused_after(&house.ledger, caller, line, &told, shape),
            }
        }
    }
}

/// From the end of what is open in a tunnel to the end of the tunnel.
const LAST_WORDS: Duration = Duration::from_millis(300);
