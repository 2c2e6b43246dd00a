//! Intercept: the TLS of a tunnel is opened with a leaf for its target, and for nothing else.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use rustls::server::Acceptor;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::Limits;
use crate::flow::accept;
use crate::flow::identify::Caller;
use crate::flow::judge::{self, Pass};
use crate::host::{Host, Target};
use crate::refusal::{Reason, Refusal, Told, answer};
use crate::tls::LeafConfigs;

use count::{Counting, TunnelCount};

pub mod count;

/// The opened inside of a tunnel, and the pass that it was opened with.
pub struct Inside {
    pub pass: Pass,
    pub stream: Opened,
}

/// A tunnel that was opened only so that its refusal can be read.
pub struct Outside {
    told: Told,
    stream: Opened,
}

/// The TLS of a tunnel, as seen from the box. It is large, and handed on from step to step.
pub type Opened = Box<TlsStream<Counting<TokioIo<Upgraded>>>>;

/// Opens the TLS of a tunnel that was let in.
///
/// # Errors
/// What comes is no TLS, names another server, or the handshake fails.
pub async fn open(
    leaves: &LeafConfigs,
    limits: &Limits,
    pass: Pass,
    upgrade: OnUpgrade,
    count: &TunnelCount,
) -> Result<Inside, Told> {
    let stream = handshake(leaves, limits, pass.caller(), pass.target(), upgrade, count).await?;
    Ok(Inside { pass, stream })
}

/// Opens the TLS of a tunnel that was refused, so that the box can be told why.
///
/// # Errors
/// As [`open`]. A refusal without a target cannot be told inside.
pub async fn tell(
    leaves: &LeafConfigs,
    limits: &Limits,
    caller: &Caller,
    told: Told,
    upgrade: OnUpgrade,
    count: &TunnelCount,
) -> Result<Outside, Told> {
    let Some(target) = told.target.clone() else { return Err(told) };
    let stream = handshake(leaves, limits, caller, &target, upgrade, count).await?;
    Ok(Outside { told, stream })
}

/// Says the refusal to every request that comes, until the box leaves or the time is up.
pub async fn say(outside: Outside, limits: &Limits) {
    let Outside { told, stream } = outside;
    let told = &told;
    let (stream, side) = accept::watched(stream, limits, false);
    let side = &side;
    let service = service_fn(move |request: Request<Incoming>| async move {
        let exchange = side.begin(request.method());
        Ok::<_, Infallible>(exchange.answered(refused(told, &request)))
    });
    let served = pin!(accept::http(limits).serve_connection(TokioIo::new(stream), service));
    // The box has its answer; how the connection ends is of no matter.
    let _ = tokio::time::timeout(TOLD_LIFE, served).await;
}

fn refused(told: &Told, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let model = told.target.as_ref().and_then(|target| judge::model_route(target, request.uri().path()));
    answer::response(&told.refusal, model)
}

async fn handshake(
    leaves: &LeafConfigs,
    limits: &Limits,
    caller: &Caller,
    target: &Target,
    upgrade: OnUpgrade,
    count: &TunnelCount,
) -> Result<Opened, Told> {
    let work = async {
        let upgraded = upgrade.await.map_err(|error| Failed::Ended(error.to_string()))?;
        let stream = Counting::new(TokioIo::new(upgraded), count);
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await.map_err(Failed::of_hello)?;
        same_name(target.host(), start.client_hello().server_name())?;
        let leaf = leaves.for_target(caller.box_id(), target).map_err(|error| Failed::NoLeaf(error.to_string()))?;
        start.into_stream(leaf).await.map(Box::new).map_err(|error| Failed::Handshake(error.to_string()))
    };
    match tokio::time::timeout(limits.tls_deadline, work).await {
        Ok(opened) => opened.map_err(|failed| Told::new(Some(target.clone()), failed.refusal())),
        Err(_) => Err(Told::new(Some(target.clone()), Failed::Late.refusal())),
    }
}

/// Why the TLS of a tunnel was not opened.
enum Failed {
    Ended(String),
    NotTls(String),
    OtherName(&'static str),
    NoLeaf(String),
    Handshake(String),
    Late,
}

impl Failed {
    fn of_hello(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return Self::Ended("before TLS began".to_owned());
        }
        Self::NotTls(error.to_string())
    }

    fn refusal(self) -> Refusal {
        let failed = Reason::HandshakeFailed;
        match self {
            Self::Ended(how) => Refusal::new(failed, "the connection ended", format!("the connection ended: {how}")),
            Self::NotTls(how) => {
                Refusal::new(Reason::NotTls, "this is not TLS", format!("no TLS after CONNECT: {how}"))
            }
            Self::OtherName(how) => {
                Refusal::new(Reason::SniMismatch, "the TLS server name differs from the CONNECT target", how)
            }
            Self::NoLeaf(how) => Refusal::new(failed, "the house could not make a certificate", how),
            Self::Handshake(how) => {
                Refusal::new(failed, "the TLS handshake failed", format!("the box ended the handshake: {how}"))
            }
            Self::Late => Refusal::new(failed, "the TLS handshake took too long", "the handshake did not end in time"),
        }
    }
}

/// Server name = CONNECT target (RFC 6066 §3). A name may be missing only where the target is an address.
fn same_name(host: &Host, named: Option<&str>) -> Result<(), Failed> {
    match (host, named) {
        (Host::Address(_), None) => Ok(()),
        (_, Some(named)) if Host::parse(named).is_ok_and(|named| named == *host) => Ok(()),
        (_, Some(_)) => Err(Failed::OtherName("the server name in TLS differs from the CONNECT target")),
        (Host::Name(_), None) => Err(Failed::OtherName("there is no server name in TLS")),
    }
}

const TOLD_LIFE: Duration = Duration::from_secs(30);
