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
    pub bytes: TunnelCount,
}

/// A tunnel that was opened only so that its refusal can be read.
pub struct Outside {
    told: Told,
    stream: Opened,
}

/// What a tunnel was opened for.
pub enum Within {
    Allowed(Inside),
    Told(Outside),
}

/// The TLS of a tunnel, as seen from the box.
pub type Opened = TlsStream<Counting<TokioIo<Upgraded>>>;

/// Opens the TLS of a tunnel that was let in.
///
/// # Errors
/// What comes is no TLS, names another server, or the handshake fails.
pub async fn open(leaves: &LeafConfigs, limits: &Limits, pass: Pass, upgrade: OnUpgrade) -> Result<Inside, Told> {
    let (stream, bytes) = handshake(leaves, limits, pass.caller(), pass.target(), upgrade).await?;
    Ok(Inside { pass, stream, bytes })
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
) -> Result<Outside, Told> {
    let Some(target) = told.target.clone() else { return Err(told) };
    let (stream, _bytes) = handshake(leaves, limits, caller, &target, upgrade).await?;
    Ok(Outside { told, stream })
}

/// Says the refusal to every request that comes, until the box leaves or the time is up.
pub async fn say(outside: Outside, limits: &Limits) {
    let Outside { told, stream } = outside;
    let told = &told;
    let service = service_fn(move |request: Request<Incoming>| async move {
        Ok::<Response<Full<Bytes>>, Infallible>(refused(told, &request))
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
) -> Result<(Opened, TunnelCount), Told> {
    let told =
        |reason, outside: &str, inside: String| Told::new(Some(target.clone()), Refusal::new(reason, outside, inside));
    let work = async {
        let upgraded = upgrade.await.map_err(|error| {
            told(Reason::HandshakeFailed, "the connection ended", format!("the connection ended before TLS: {error}"))
        })?;
        let (counting, bytes) = Counting::new(TokioIo::new(upgraded));
        let start = match LazyConfigAcceptor::new(Acceptor::default(), counting).await {
            Ok(start) => start,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(told(
                    Reason::HandshakeFailed,
                    "the connection ended",
                    "the connection ended before TLS began".to_owned(),
                ));
            }
            Err(error) => {
                return Err(told(Reason::NotTls, "this is not TLS", format!("no TLS after CONNECT: {error}")));
            }
        };
        let named = start.client_hello().server_name().map(str::to_owned);
        if let Err(inside) = same_name(target.host(), named.as_deref()) {
            return Err(told(Reason::SniMismatch, "the TLS server name differs from the CONNECT target", inside));
        }
        let config = leaves.for_target(caller.box_id(), target).map_err(|error| {
            told(Reason::HandshakeFailed, "the house could not make a certificate", error.to_string())
        })?;
        let stream = start.into_stream(config).await.map_err(|error| {
            told(Reason::HandshakeFailed, "the TLS handshake failed", format!("the box ended the handshake: {error}"))
        })?;
        Ok((stream, bytes))
    };
    match tokio::time::timeout(limits.tls_deadline, work).await {
        Ok(done) => done,
        Err(_) => Err(told(
            Reason::HandshakeFailed,
            "the TLS handshake took too long",
            "the TLS handshake did not end in time".to_owned(),
        )),
    }
}

/// Server name = CONNECT target (RFC 6066 §3). A name may be missing only where the target is an address.
fn same_name(host: &Host, named: Option<&str>) -> Result<(), String> {
    match (host, named) {
        (Host::Address(_), None) => Ok(()),
        (_, Some(named)) if Host::parse(named).is_ok_and(|named| named == *host) => Ok(()),
        (_, Some(_)) => Err("the server name in TLS differs from the CONNECT target".to_owned()),
        (Host::Name(_), None) => Err("no server name in TLS".to_owned()),
    }
}

const TOLD_LIFE: Duration = Duration::from_secs(30);
