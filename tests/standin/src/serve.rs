//! The dialogue on one connection: requests in, noted, judged by rule and credential, and answered.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::TcpStream;

use crate::connection::{Connection, Leg};
use crate::events::{self, Step};
use crate::frame::{self, Head};
use crate::model::Answer;
use crate::options::Expect;
use crate::real::Real;
use crate::rule::{Cut, Fault, Rule, Then};
use crate::seen::{Intake, Seen};
use crate::stand::Shared;

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
    let rule = shared.live(|live| live.rules.take(&head.method, &head.path));
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
    let reply = Reply { shared, connection, head: &head, body: &body, real };
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
            let body = events::error_body(417, "stand-in: no expectations");
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
    Seen {
        at: Instant::now(),
        connection,
        head: head.raw.clone(),
        method: head.method.clone(),
        path: head.path.clone(),
        headers: head.headers.clone(),
        body_first: None,
        body_last: None,
        body_len: 0,
        body_sha256: String::new(),
        body: Vec::new(),
        trailers: Vec::new(),
        complete: false,
        real,
        answered: None,
    }
}

/// All that an answer needs.
struct Reply<'a> {
    shared: &'a Shared,
    connection: &'a mut Connection,
    head: &'a Head,
    body: &'a [u8],
    real: bool,
}

impl Reply<'_> {
    async fn by_rule(mut self, rule: Rule) -> io::Result<Then> {
        self.connection.pause(rule.delay).await?;
        match rule.fault {
            Fault::None | Fault::Early { .. } => self.usual(None).await,
            Fault::Status { status, headers, body } => self.plain(status, &headers, &body).await,
            Fault::Before(bytes) => {
                self.connection.send(&bytes).await?;
                self.usual(None).await
            }
            Fault::Raw { pieces, then } => {
                for (pause, bytes) in pieces {
                    self.connection.pause(pause).await?;
                    self.connection.send(&bytes).await?;
                }
                Ok(then)
            }
            Fault::CutAfter { events, cut } => self.usual(Some((events, cut))).await,
            Fault::Hang(time) => {
                self.connection.pause(time).await?;
                Ok(Then::Close)
            }
            Fault::Reset => Ok(Then::Reset),
        }
    }

    async fn usual(mut self, cut: Option<(usize, Cut)>) -> io::Result<Then> {
        let path = self.head.path.split('?').next().unwrap_or_default();
        let post = self.head.method == "POST";
        if post && path.ends_with("/oauth/token") {
            return self
                .json(400, r#"{"error":"invalid_grant","error_description":"stand-in: nothing is refreshed here"}"#)
                .await;
        }
        if !self.real {
            return self.json(401, &events::error_body(401, "stand-in: no real credential")).await;
        }
        match path {
            "/v1/messages" if post => self.message(cut).await,
            "/v1/messages/count_tokens" if post => self.json(200, r#"{"input_tokens":10}"#).await,
            _ => match path.strip_prefix("/standin/bytes/").and_then(|n| n.parse().ok()) {
                Some(bytes) => self.bulk(bytes).await,
                None => self.json(404, &events::error_body(404, "stand-in: no such route")).await,
            },
        }
    }

    async fn message(mut self, cut: Option<(usize, Cut)>) -> io::Result<Then> {
        let Ok(request) = serde_json::from_slice::<Value>(self.body) else {
            return self.json(400, &events::error_body(400, "stand-in: the body is no JSON")).await;
        };
        let scripted = self.shared.live(|live| live.script.pop_front());
        let answer = scripted.unwrap_or_else(|| Answer::from_conversation(&request));
        let model = request["model"].as_str().unwrap_or("stand-in");
        if request["stream"] == true {
            return self.events(events::stream(&answer, model), cut).await;
        }
        let (wait, message) = events::whole(&answer, model);
        self.connection.pause(wait).await?;
        self.json(200, &message.to_string()).await
    }

    async fn events(&mut self, steps: Vec<Step>, cut: Option<(usize, Cut)>) -> io::Result<Then> {
        self.answered(200);
        self.connection.send(STREAM_HEAD).await?;
        let mut sent = 0;
        for step in steps {
            match step {
                Step::Pause(time) => self.connection.pause(time).await?,
                Step::Event(text) => {
                    if let Some((_, how)) = cut.filter(|(events, _)| *events == sent) {
                        return self.cut(how).await;
                    }
                    self.connection.send(&frame::chunk(text.as_bytes())).await?;
                    sent += 1;
                }
            }
        }
        self.connection.send(b"0\r\n\r\n").await?;
        Ok(Then::Keep)
    }

    async fn cut(&mut self, how: Cut) -> io::Result<Then> {
        match how {
            // The peer must have read what was sent before the RST throws it away.
            Cut::Reset => {
                self.connection.pause(Duration::from_millis(100)).await?;
                Ok(Then::Reset)
            }
            Cut::Close => Err(io::ErrorKind::ConnectionAborted.into()),
            Cut::Clean => {
                self.connection.send(b"0\r\n\r\n").await?;
                Ok(Then::Close)
            }
        }
    }

    async fn bulk(&mut self, bytes: u64) -> io::Result<Then> {
        self.answered(200);
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {bytes}\r\n\r\n");
        self.connection.send(head.as_bytes()).await?;
        let piece = vec![b'z'; 64 * 1024];
        let mut left = bytes;
        while left > 0 {
            let now = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.connection.send(&piece[..now]).await?;
            left -= now as u64;
        }
        Ok(Then::Keep)
    }

    async fn json(&mut self, status: u16, body: &str) -> io::Result<Then> {
        self.plain(status, &[("content-type".into(), "application/json".into())], body.as_bytes()).await
    }

    async fn plain(&mut self, status: u16, headers: &[(String, String)], body: &[u8]) -> io::Result<Then> {
        self.answered(status);
        let mut headers = headers.to_vec();
        headers.push(("request-id".into(), "req_standin".into()));
        let body = if self.head.method == "HEAD" { &[][..] } else { body };
        self.connection.send(&frame::answer(status, &headers, body)).await?;
        Ok(Then::Keep)
    }

    fn answered(&self, status: u16) {
        self.shared.book.on_request(self.connection.id, |seen| seen.answered = Some(status));
    }
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\nrequest-id: req_standin\r\ntransfer-encoding: chunked\r\n\r\n";
const HANDSHAKE: Duration = Duration::from_secs(20);
/// A connection without a request is closed after this, where nothing shorter was asked for.
const IDLE: Duration = Duration::from_secs(600);
const DRAIN: Duration = Duration::from_secs(10);
/// A body above this is noted but not understood.
const READ_LIMIT: usize = 64 * 1024 * 1024;
