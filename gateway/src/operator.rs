//! The operator's socket: liveness, readiness, status, and the few deeds that only an operator may do.

use std::convert::Infallible;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use box_spec::BoxId;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::runtime::Handle;

use crate::files::{self, FileError};
use crate::house::House;
use crate::ledger::{Entry, Kind};
use crate::reload::{self, Why};
use crate::runs::DoorView;
use crate::sign_in::line::{self, LOGINS};
use crate::vault::SecretStatus;

/// The socket, bound and not yet served. Mode 0600 from its first moment.
pub struct OperatorListener {
    listener: UnixListener,
    path: PathBuf,
}

/// The socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OperatorFault {
    #[error("open the operator's socket {path}: another gateway answers there")]
    Answered { path: PathBuf },
    #[error("open the operator's socket {path}")]
    Bind { path: PathBuf, source: std::io::Error },
    #[error("open the operator's socket {path}: it exists and is no socket; remove it or choose another path")]
    NoSocket { path: PathBuf },
    #[error("open the operator's socket {path}: something else was put in its place")]
    Mode { path: PathBuf, source: FileError },
}

impl OperatorListener {
    /// # Errors
    /// Another gateway answers there, or it cannot be bound.
    pub fn bind(path: &Path) -> Result<Self, OperatorFault> {
        let fault = |source| OperatorFault::Bind { path: path.to_owned(), source };
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(OperatorFault::Answered { path: path.to_owned() });
        }
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(OperatorFault::NoSocket { path: path.to_owned() });
            }
            Ok(_) => std::fs::remove_file(path).map_err(fault)?,
            Err(_) => {}
        }
        // The house's umask is 077, so nobody else reaches the socket before its mode is set.
        let listener = UnixListener::bind(path).map_err(fault)?;
        files::set_socket_mode(path, 0o600).map_err(|source| OperatorFault::Mode { path: path.to_owned(), source })?;
        Ok(Self { listener, path: path.to_owned() })
    }
}

impl Drop for OperatorListener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Serves the operator until the process ends.
pub async fn serve(house: Arc<House>, listener: OperatorListener) {
    loop {
        let Ok((stream, _)) = listener.listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let house = Arc::clone(&house);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let house = Arc::clone(&house);
                async move { Ok::<_, Infallible>(answer(&house, &request).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(5))
                .serve_connection(TokioIo::new(stream), service);
            // An operator who hangs up in the middle loses nothing but the answer.
            let _ = served.await;
        });
    }
}

async fn answer(house: &House, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/livez") => reply(StatusCode::OK, &json!({ "live": true })),
        (&Method::GET, "/readyz") => ready(house),
        (&Method::GET, "/status") => reply(StatusCode::OK, &status(house)),
        (&Method::POST, TEST) => test(house, None).await,
        (&Method::POST, path) if path.starts_with(TEST_ONE) => test(house, Some(&path[TEST_ONE.len()..])).await,
        (&Method::POST, path) if path.starts_with(LOGINS) => login(house, &path[LOGINS.len()..]).await,
        (&Method::POST, RELOAD) => reloaded(house).await,
        (&Method::POST, path) if path.starts_with(STOP) => stop(house, &path[STOP.len()..]).await,
        (&Method::POST, path) if path.starts_with(RELEASE) => release(house, &path[RELEASE.len()..]).await,
        (_, path) => reply(
            StatusCode::NOT_FOUND,
            &json!({ "error": format!("there is no {path} here"), "known": ["GET /livez", "GET /readyz", "GET /status", "POST /reload", "POST /runs/stop/RUN", "POST /runs/release/BOX", "POST /credentials/test", "POST /credentials/test/NAME", "POST /logins/PROVIDER/AGENT/NAME"] }),
        ),
    }
}

/// Ready: the doors are open and the ledger can be written. An upstream that is down changes nothing here.
fn ready(house: &House) -> Response<Full<Bytes>> {
    let ledger = house.ledger.health();
    let ready = ledger.writable && !house.drain.has_started();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply(status, &json!({ "ready": ready, "ledger_writable": ledger.writable, "draining": house.drain.has_started() }))
}

fn status(house: &House) -> Value {
    let ledger = house.ledger.health();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "house": house.fingerprint,
        "draining": house.drain.has_started(),
        "connections": house.drain.held(),
        "tasks": Handle::current().metrics().num_alive_tasks(),
        "ledger": {
            "writable": ledger.writable,
            "last_error": ledger.last_error,
            "head": ledger.head.to_string(),
            "lines": ledger.lines,
            "open": ledger.open,
            "unrecorded": ledger.unrecorded,
            "history": ledger.history.word(),
        },
        "alarms": ledger.alarms,
        "refusals": ledger.refusals,
        "boxes": house.runs.view().iter().map(|view| door(house, view)).collect::<Vec<_>>(),
        "config": house.source.status(&house.rules().digest),
        "secrets": house.rules().vault.status().iter().map(secret).collect::<Vec<_>>(),
    })
}

/// A door, with where it is.
fn door(house: &House, view: &DoorView) -> Value {
    let mut told = json!(view);
    let at = house.boxes.iter().find(|of| of.id == view.box_id);
    told["door"] = json!(at.map(|of| &of.door));
    told["over_network"] = json!(at.is_some_and(|of| of.key.is_some()));
    told
}

fn secret(status: &SecretStatus) -> Value {
    let SecretStatus { name, provider, kind, source, expires, outage, note } = status;
    let state = match (outage, note) {
        (Some(outage), _) => format!("OUTAGE: {outage}"),
        (None, Some(note)) => format!("usable; {note}"),
        (None, None) => "usable".to_owned(),
    };
    json!({
        "name": name.as_str(), "provider": provider, "kind": kind, "source": source,
        "expires": expires.map(|time| time.to_string()), "usable": outage.is_none(), "state": state,
    })
}

/// Refreshes a login that is due, and says how every secret stands then, or the one of this name. Asks no model.
async fn test(house: &House, name: Option<&str>) -> Response<Full<Bytes>> {
    let chosen = |status: &SecretStatus| name.is_none_or(|name| status.name.as_str() == name);
    let vault = &house.rules().vault;
    let names: Vec<_> = vault.status().into_iter().filter(chosen).map(|status| status.name).collect();
    if let (Some(name), []) = (name, &names[..]) {
        return reply(StatusCode::NOT_FOUND, &json!({ "error": format!("there is no secret {name} in this house") }));
    }
    let logins = names.iter().filter_map(|name| vault.login(name));
    futures_util::future::join_all(logins.map(|login| house.refresher.fresh(login, true))).await;
    let status = vault.status();
    // Whoever tests wants a login that works now, not one that may be made to.
    let told: Vec<Value> = status
        .iter()
        .filter(|status| chosen(status))
        .map(|status| {
            let mut told = secret(status);
            if let (None, Err(outage)) = (&status.outage, vault.credential(&status.name)) {
                told["usable"] = json!(false);
                told["state"] = json!(format!("OUTAGE: {outage}"));
            }
            told
        })
        .collect();
    let all = told.iter().all(|one| one["usable"] == true);
    reply(if all { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &json!({ "secrets": told }))
}

/// Writes down that a person has made a login, for the command that is about to keep it.
async fn login(house: &House, asked: &str) -> Response<Full<Bytes>> {
    let Some(entry) = line::entry(asked) else {
        return reply(StatusCode::BAD_REQUEST, &json!({ "error": "that is no PROVIDER/AGENT/NAME" }));
    };
    match house.ledger.note(entry).await {
        Ok(_) => reply(StatusCode::OK, &json!({ "recorded": true })),
        Err(error) => reply(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": error.to_string() })),
    }
}

/// Reads the configuration again, and says whether it is the house's now.
async fn reloaded(house: &House) -> Response<Full<Bytes>> {
    match reload::reload(house, Why::Operator).await {
        Ok(applied) => reply(StatusCode::OK, &json!({ "config": applied.digest, "cut": applied.cut })),
        Err(fault) => reply(StatusCode::CONFLICT, &json!({ "error": fault.to_string() })),
    }
}

/// Ends a run: its token is dead at once, everything that it has open is cut, and its boxd is told to end the agent.
async fn stop(house: &House, id: &str) -> Response<Full<Bytes>> {
    let Some(run) = house.runs.under_way(id) else {
        return reply(StatusCode::NOT_FOUND, &json!({ "error": format!("no run {id} is under way in this house") }));
    };
    // What it may do ends first; that the line could not be written is said, and brings nothing back.
    run.stop();
    let entry = Entry::new(Kind::Cut).box_id(&run.box_id).run_id(&run.id).fact("ended_by", "operator");
    match house.ledger.note(entry).await {
        Ok(_) => reply(StatusCode::OK, &json!({ "stopped": run.id, "box": run.box_id })),
        Err(error) => reply(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({ "error": format!("run {} was stopped, and that could not be recorded: {error}", run.id) }),
        ),
    }
}

async fn release(house: &House, name: &str) -> Response<Full<Bytes>> {
    let Ok(box_id) = name.parse::<BoxId>() else {
        return reply(StatusCode::BAD_REQUEST, &json!({ "error": "that is no box id" }));
    };
    if !house.boxes.iter().any(|of| of.id == box_id) {
        return reply(StatusCode::NOT_FOUND, &json!({ "error": format!("there is no box {box_id} in this house") }));
    }
    let not_shut = || reply(StatusCode::CONFLICT, &json!({ "error": format!("the door of box {box_id} is not shut") }));
    if !house.runs.is_shut(&box_id) {
        return not_shut();
    }
    // Written down first: a door that opens unrecorded would be worse than one that stays shut.
    let entry = Entry::new(Kind::Released).box_id(&box_id);
    if let Err(error) = house.ledger.note(entry).await {
        return reply(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({ "error": format!("the release could not be recorded: {error}") }),
        );
    }
    match house.runs.release(&box_id) {
        Ok(Some(run)) => reply(StatusCode::OK, &json!({ "released": box_id, "run": run })),
        Ok(None) => not_shut(),
        Err(fault) => reply(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": fault.to_string() })),
    }
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

const RELOAD: &str = "/reload";
const STOP: &str = "/runs/stop/";
const RELEASE: &str = "/runs/release/";
const TEST: &str = "/credentials/test";
const TEST_ONE: &str = "/credentials/test/";
