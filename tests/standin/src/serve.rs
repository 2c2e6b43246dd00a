//! The dialogue on one connection: requests in, noted, judged by rule and credential, and answered.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::connection::Connection;
use crate::errors;
use crate::frame::{self, Head};
use crate::leg::Leg;
use crate::options::Expect;
use crate::real::Real;
use crate::reply::Reply;
use crate::rule::{Asked, Fault, Rule, Then};
use crate::seen::{Intake, Seen};
use crate::stand::Shared;
use crate::turn::Words;

/// Serves a connection to its end.
pub(crate) async fn connection(shared: Arc<Shared>, stream: TcpStream) {
    let id = shared.book.connect();
    let _only_slower = stream.set_nodelay(true);
    let leg = match &shared.tls {
        None => Leg::Plain(stream),
        Some(tls) => {
            let shaking = tokio::time::timeout(HANDSHAKE, tokio_rustls::TlsAcceptor::from(tls.clone()).accept(stream));
            match shaking.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => {
                    let (_, session) = stream.get_ref();
                    shared.book.on_connection(id, |seen| {
                        seen.sni = session.server_name().map(str::to_owned);
                        seen.alpn = session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
                        seen.tls = session.protocol_version().map(|version| format!("{version:?}"));
                    });
                    Leg::Tls(Box::new(stream))
                }
                Err(fault) => {
                    shared.book.on_connection(id, |seen| seen.tls_failed = Some(fault.to_string()));
                    return;
                }
            }
        }
    };
    let mut connection = Connection::new(leg, shared.book.clone(), id, shared.keep);
    loop {
        match exchange(&shared, &mut connection).await {
            Ok(Then::Keep) => {}
            Ok(Then::Close) => return connection.close().await,
            Ok(Then::Drain) => {
                connection.drain(DRAIN).await;
                return connection.close().await;
            }
            Ok(Then::Reset) => return connection.reset(),
            Err(_) => return connection.cut(),
        }
    }
}

/// One request and its answer.
async fn exchange(shared: &Shared, connection: &mut Connection) -> io::Result<Then> {
    let idle = shared.live(|live| live.idle_close).unwrap_or(IDLE);
    let head = match tokio::time::timeout(idle, frame::head(connection)).await {
        Ok(head) => head?,
        Err(_) => None,
    };
    let Some(head) = head else {
        return Ok(Then::Close);
    };
    let real = Real::accepts(&shared.real, &head.path, &head.headers);
    shared.book.begin(note(&head, connection.id, real));
    let asked = if head.is_upgrade() { Asked::Upgrade } else { Asked::Request };
    let rule = shared.live(|live| live.rules.take(asked, &head.method, &head.path));
    if let Some(Rule { fault: Fault::Early { status, headers, body, then }, delay, .. }) = &rule {
        connection.pause(*delay).await?;
        shared.book.on_request(connection.id, |seen| seen.answered = Some(*status));
        connection.send(&frame::answer(*status, headers, body)).await?;
        return Ok(*then);
    }
    if !expectation(shared, connection, &head).await? {
        return Ok(Then::Close);
    }
    let body = take_body(shared, connection, &head).await?;
    let reply = Reply { shared, connection, head: &head, body: &body, real, packing: None };
    let then = match rule {
        Some(rule) => reply.by_rule(rule).await?,
        None => reply.usual(None).await?,
    };
    let last = head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(if last && then == Then::Keep { Then::Close } else { then })
}

/// Sends `100 Continue` as configured. False when the request was refused for its expectation.
async fn expectation(shared: &Shared, connection: &mut Connection, head: &Head) -> io::Result<bool> {
    if head.header("expect").is_none() {
        return Ok(true);
    }
    match shared.live(|live| live.expect) {
        Expect::Continue => connection.send(CONTINUE).await?,
        Expect::Late(time) => {
            connection.pause(time).await?;
            connection.send(CONTINUE).await?;
        }
        Expect::Ignore => {}
        Expect::Refuse => {
            shared.book.on_request(connection.id, |seen| seen.answered = Some(417));
            let body = errors::body(&head.path, 417, "stand-in: no expectations");
            connection.send(&frame::answer(417, &[], body.as_bytes())).await?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads the body into the book. Returns what is needed to answer.
async fn take_body(shared: &Shared, connection: &mut Connection, head: &Head) -> io::Result<Vec<u8>> {
    let mut intake = Intake::new(shared.keep);
    let mut body = Vec::new();
    let (book, id) = (shared.book.clone(), connection.id);
    let trailers = frame::body(connection, head.body()?, |piece| {
        book.on_request(id, |seen| intake.take(seen, piece));
        if body.len() + piece.len() <= READ_LIMIT {
            body.extend_from_slice(piece);
        }
    })
    .await?;
    shared.book.on_request(connection.id, |seen| {
        seen.trailers = trailers;
        intake.finish(seen);
    });
    Ok(body)
}

fn note(head: &Head, connection: u64, real: bool) -> Seen {
    let model = head.method == "POST" && Words::at(&head.path).is_some();
    let begun = Seen::begun(connection, &head.method, &head.path, real, model);
    Seen { head: head.raw.clone(), headers: head.headers.clone(), ..begun }
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const HANDSHAKE: Duration = Duration::from_secs(20);
/// A connection without a request is closed after this, where nothing shorter was asked for.
pub(crate) const IDLE: Duration = Duration::from_secs(600);
const DRAIN: Duration = Duration::from_secs(10);
/// A body above this is noted but not understood.
const READ_LIMIT: usize = 64 * 1024 * 1024;
