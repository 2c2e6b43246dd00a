//! Relay: the request goes out and its answer comes back, streamed both ways and never held.

mod pool;
mod upload;
mod interim;
mod echo;
pub mod session;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use http::{HeaderName, Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use tokio_rustls::TlsConnector;

use crate::config::Limits;
use crate::dial::{DialFault, Dialer};
use crate::flow::accept::exchange::FromBox;
use crate::flow::identify::Caller;
use crate::flow::inject::Outbound;
use crate::hops;
use crate::policy::Scheme;
use crate::refusal::{Reason, Refusal, Told};
use crate::tls::{UpstreamTlsFault, Upstreams as UpstreamTls};

use interim::Gate;
use pool::{Key, Pool};
use upload::Upload;

pub use echo::Watch;
pub use pool::Lease;
pub use session::Switched;

/// What all relays share: how to reach upstreams, and the connections kept to them.
pub struct Upstreams {
    dialer: Arc<Dialer>,
    tls: Arc<UpstreamTls>,
    pool: Pool,
    head_deadline: Duration,
    tls_deadline: Duration,
}

/// How a request was answered.
pub enum Answered {
    Arrived(Arrived),
    /// By 101: the connection is a WebSocket now.
    Switched(Switched),
}

/// An answer that began to arrive.
pub struct Arrived {
    pub response: Response<Incoming>,
    /// The connection that it arrives on, to be given back when it is whole.
    pub lease: Lease,
    pub sent: Arc<AtomicU64>,
    pub injected: Vec<HeaderName>,
    /// What the body is looked through for.
    pub watch: Option<Watch>,
    pub timings: Vec<(&'static str, Duration)>,
}

impl Upstreams {
    #[must_use]
    pub fn new(dialer: Arc<Dialer>, tls: Arc<UpstreamTls>, limits: &Limits) -> Self {
        Self {
            dialer,
            tls,
            pool: Pool::new(limits.upstream_idle, limits.upstream_per_target, limits.requests_in_flight_per_box),
            head_deadline: limits.response_head_deadline,
            tls_deadline: limits.tls_deadline,
        }
    }
}

/// Sends a request and waits for the head of its answer.
///
/// A connection that the upstream closed while it was idle is replaced, if hyper hands the unsent request back
/// (RFC 9112 §9.3.1); a request that may have been sent is never sent again. A WebSocket handshake has a connection of its
/// own from the start.
///
/// # Errors
/// The upstream cannot be reached, is not who it should be, or fails; it rejects the credential that was injected; or it
/// switches protocols in another way than it was asked to.
pub async fn relay(upstreams: &Upstreams, outbound: Outbound, from_box: FromBox<'_>) -> Result<Answered, Told> {
    let key = Key::of(&outbound);
    let target = outbound.target().clone();
    let grant = outbound.grant().name.clone();
    let injected = outbound.injected().to_vec();
    let told = move |refusal: Refusal| Told::new(Some(target.clone()), refusal.with_grant(grant.as_str()));
    let (watch, reads) = (Watch::of(&outbound), outbound.reads().clone());
    let mut timings = Vec::new();
    let begun = Instant::now();

    let way = Way::of(&outbound);
    let (head, handshake) = outbound.into_head();
    let read = (!from_box.body.is_end_stream()).then(|| reads.body(&head.headers));
    let reading = read.transpose().map_err(&told)?;
    let kept_one = if handshake.is_none() { upstreams.pool.take(&key) } else { None };
    let (mut lease, mut kept) = match kept_one {
        Some(lease) => (lease, true),
        // Large, and not often wanted.
        None => (Box::pin(connect(upstreams, &way, &key, &mut timings)).await.map_err(&told)?, false),
    };
    let (body, side) = (from_box.body, from_box.side);
    let (gate, word) = Gate::of(&head.headers).unzip();
    let (upload, verdict) = Upload::new(body, gate, reading, &way.caller);
    let sent = Arc::clone(&upload.progress().sent);
    side.body(upload.size_hint().exact(), Arc::clone(&sent));
    let mut request = Request::from_parts(head, upload);
    interim::listen(&mut request, side, word.clone(), watch.clone());
    let mut response = loop {
        match tokio::time::timeout(upstreams.head_deadline, lease.send(request)).await {
            Ok(Ok(response)) => break response,
            Ok(Err(mut error)) => match error.take_message() {
                // Unsent on a connection that was kept: it was closed meanwhile. On a fresh one the host has a fault.
                Some(unsent) if kept => {
                    request = unsent;
                    kept = false;
                    lease = Box::pin(connect(upstreams, &way, &key, &mut timings)).await.map_err(&told)?;
                }
                Some(_) | None => {
                    return Err(told(verdict.refusal().unwrap_or_else(|| no_answer(error.error(), &way))));
                }
            },
            Err(_) => return Err(told(late())),
        }
    };
    if let Some(word) = word {
        word.answered();
    }
    if let Some(refusal) = verdict.at_answer() {
        return Err(told(refusal));
    }
    side.hinted().await;
    timings.push(("head", begun.elapsed()));
    look_at(&response, !injected.is_empty()).map_err(&told)?;
    if let Some(watch) = &watch {
        watch.look_at(&mut response).map_err(&told)?;
    }
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // The connection is let go only when hyper has given its stream away.
        let (response, upstream) = session::switch(handshake.as_ref(), response).await.map_err(told)?;
        return Ok(Answered::Switched(Switched {
            response,
            upstream,
            of_box: from_box.upgrade,
            injected,
            watch,
            reads: reads.is_for_a_model().then_some(reads),
            timings,
        }));
    }
    hops::strip_answer(response.headers_mut());
    Ok(Answered::Arrived(Arrived { response, lease, sent, injected, watch, timings }))
}

/// How to reach an upstream again after its request was taken apart.
struct Way {
    caller: Caller,
    target: crate::host::Target,
    scheme: Scheme,
    dial: Option<std::net::SocketAddr>,
    ca: Option<crate::tls::UpstreamCa>,
}

impl Way {
    fn of(outbound: &Outbound) -> Self {
        Self {
            caller: outbound.caller().clone(),
            target: outbound.target().clone(),
            scheme: outbound.scheme(),
            dial: outbound.grant().dial_instead(outbound.target()),
            ca: outbound.grant().upstream_ca.clone(),
        }
    }
}

async fn connect(
    upstreams: &Upstreams,
    way: &Way,
    key: &Key,
    timings: &mut Vec<(&'static str, Duration)>,
) -> Result<Lease, Refusal> {
    let begun = Instant::now();
    let stream = upstreams.dialer.dial(&way.target, way.dial).await.map_err(|fault| dial_refusal(&fault))?;
    timings.push(("dial", begun.elapsed()));
    let over = way.caller.run().over().clone();
    if way.scheme == Scheme::Http {
        return upstreams.pool.open(key.clone(), stream, over).await.map_err(|error| failed(&error));
    }
    let tls = TlsConnector::from(upstreams.tls.client_config(way.ca.as_ref()));
    let handshake = tls.connect(way.target.host().server_name(), stream);
    let stream = match tokio::time::timeout(upstreams.tls_deadline, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(tls_refusal(UpstreamTlsFault::classify(&error))),
        Err(_) => {
            return Err(Refusal::new(
                Reason::UpstreamUnreachable,
                "the host did not finish its TLS handshake",
                "upstream TLS handshake took too long",
            ));
        }
    };
    timings.push(("tls", begun.elapsed()));
    upstreams.pool.open(key.clone(), stream, over).await.map_err(|error| failed(&error))
}

/// The run ended, the box's body was no body, or the upstream went away.
fn no_answer(error: &hyper::Error, way: &Way) -> Refusal {
    if way.caller.run().over().is_cancelled() {
        return Refusal::new(Reason::RunOver, "the run is over", "the run ended while the request was under way");
    }
    if error.is_user() {
        let inside = format!("the request body broke off: {error}");
        return Refusal::new(Reason::BadRequest, "the request body is not well-formed", inside);
    }
    let inside = format!("upstream: {error}");
    Refusal::new(Reason::UpstreamFailed, "the host closed the connection without an answer", inside)
}

fn late() -> Refusal {
    Refusal::new(Reason::UpstreamFailed, "the host did not answer in time", "no response head within the deadline")
}

fn dial_refusal(fault: &DialFault) -> Refusal {
    match fault {
        DialFault::Screened { .. } => {
            Refusal::new(Reason::AddressRefused, "the host's address is private, local or reserved", fault.to_string())
        }
        _ => Refusal::new(Reason::UpstreamUnreachable, "the host could not be reached", fault.to_string()),
    }
}

fn tls_refusal(fault: UpstreamTlsFault) -> Refusal {
    let inside = format!("upstream TLS: {fault}");
    if fault.is_distrust() {
        return Refusal::new(Reason::UpstreamUntrusted, format!("the host is not trusted: {fault}"), inside);
    }
    Refusal::new(Reason::UpstreamUnreachable, "the host did not finish its TLS handshake", inside)
}

fn failed(error: &hyper::Error) -> Refusal {
    Refusal::new(Reason::UpstreamFailed, "the host did not speak HTTP/1.1", format!("upstream: {error}"))
}

/// What of an answer is an outage of the house and must not reach the agent as the host's own word.
fn look_at(response: &Response<Incoming>, injected: bool) -> Result<(), Refusal> {
    match response.status() {
        // The box's stand-in never reached the host: what was rejected is the house's credential.
        StatusCode::UNAUTHORIZED if injected => Err(Refusal::new(
            Reason::CredentialRejected,
            "the host rejected the house's credential",
            "upstream answered 401 to an injected credential",
        )),
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Err(Refusal::new(Reason::UpstreamFailed, "the host asked for proxy credentials", "upstream answered 407"))
        }
        _ => Ok(()),
    }
}
