//! A WebSocket session: the handshake, each message answered by the events of a response, and what can go wrong on the way.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::connection::{Connection, SEND};
use crate::errors;
use crate::frame::{self, Head};
use crate::rule::{Asked, Cut, Fault, Rule, Then, WEBSOCKET};
use crate::seen::{Intake, Seen};
use crate::serve::IDLE;
use crate::stand::Shared;
use crate::steps::Step;
use crate::turn::{Turn, Unknown, Words, is_prewarm};

/// Accepts the upgrade and answers until one side ends the session, or nothing was asked for so long.
pub(crate) async fn session(shared: &Shared, connection: &mut Connection, head: &Head, real: bool) -> io::Result<Then> {
    let id = connection.id;
    let Some(key) = head.header("sec-websocket-key") else {
        shared.book.on_request(id, |seen| seen.answered = Some(400));
        let body = errors::body(&head.path, 400, "stand-in: an upgrade without a key");
        return connection.send(&frame::answer(400, &[], body.as_bytes())).await.map(|()| Then::Close);
    };
    shared.book.on_request(id, |seen| seen.answered = Some(101));
    let accept = derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n"
    );
    connection.send(answer.as_bytes()).await?;
    let socket = WebSocketStream::from_raw_socket(connection, Role::Server, None).await;
    let mut session = Session { shared, socket, waiting: VecDeque::new(), id, path: &head.path, real };
    loop {
        let idle = shared.live(|live| live.idle_close).unwrap_or(IDLE);
        let Some(text) = tokio::time::timeout(idle, session.next()).await.unwrap_or(Ok(None))? else {
            return Ok(Then::Close);
        };
        if let Some(then) = session.message(&text).await? {
            return Ok(then);
        }
    }
}

/// A session that goes on.
struct Session<'a> {
    shared: &'a Shared,
    socket: WebSocketStream<&'a mut Connection>,
    /// What was asked while an answer was on its way.
    waiting: VecDeque<String>,
    id: u64,
    path: &'a str,
    real: bool,
}

impl Session<'_> {
    /// The next message; nothing at the end of the session.
    async fn next(&mut self) -> io::Result<Option<String>> {
        if let Some(text) = self.waiting.pop_front() {
            return Ok(Some(text));
        }
        loop {
            match self.socket.next().await {
                None => return Ok(None),
                Some(message) => {
                    if let Some(text) = text(message.map_err(broken)?) {
                        return Ok(Some(text));
                    }
                }
            }
        }
    }

    /// Answers a message. Says how the connection is to end, if it is.
    async fn message(&mut self, text: &str) -> io::Result<Option<Then>> {
        let request = serde_json::from_str::<Value>(text).unwrap_or_default();
        let prewarm = is_prewarm(&request);
        self.note(text, !prewarm);
        if request["type"] != "response.create" {
            return self.complain("stand-in: no such message").await;
        }
        if prewarm {
            return self.usual(&request, None).await;
        }
        match self.shared.live(|live| live.rules.take(Asked::Message, WEBSOCKET, self.path)) {
            Some(rule) => self.by_rule(rule, &request).await,
            None => self.usual(&request, None).await,
        }
    }

    async fn by_rule(&mut self, rule: Rule, request: &Value) -> io::Result<Option<Then>> {
        self.pause(rule.delay).await?;
        match rule.fault {
            Fault::None | Fault::Packed(_) => self.usual(request, None).await,
            Fault::Status { status, headers: _, body } => self.error(status, &body).await,
            Fault::Early { status, headers: _, body, then } => {
                self.error(status, &body).await?;
                Ok((then != Then::Keep).then_some(then))
            }
            Fault::Before(bytes) => {
                self.socket.get_mut().send(&bytes).await?;
                self.usual(request, None).await
            }
            Fault::Raw { pieces, then } => {
                for (pause, bytes) in pieces {
                    self.pause(pause).await?;
                    self.socket.get_mut().send(&bytes).await?;
                }
                Ok((then != Then::Keep).then_some(then))
            }
            Fault::CutAfter { events, cut } => self.usual(request, Some((events, cut))).await,
            Fault::Event(text) => {
                self.answered(200);
                self.send(Message::text(text)).await.map(|()| None)
            }
            Fault::Hang(time) => {
                self.pause(time).await?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Fault::Reset => Ok(Some(Then::Reset)),
        }
    }

    async fn usual(&mut self, request: &Value, cut: Option<(usize, Cut)>) -> io::Result<Option<Then>> {
        let turn = match Turn::new(self.shared, Words::Responses, request) {
            Ok(turn) => turn,
            Err(Unknown(id)) => return self.complain(&format!("stand-in: nothing was answered as {id}")).await,
        };
        self.answered(200);
        let mut sent = 0;
        for step in turn.stream() {
            let message = match step {
                Step::Pause(time) => {
                    self.pause(time).await?;
                    continue;
                }
                Step::Ping => Message::Ping(b"stand-in".to_vec().into()),
                Step::Event(event) => Message::text(event.to_string()),
                Step::Word(word) => Message::text(word),
            };
            if let Some((_, how)) = cut.filter(|(events, _)| *events == sent) {
                return self.cut(how).await;
            }
            self.send(message).await?;
            sent += 1;
        }
        Ok(None)
    }

    async fn cut(&mut self, how: Cut) -> io::Result<Option<Then>> {
        match how {
            // The peer must have read what was sent before the RST throws it away.
            Cut::Reset => {
                self.pause(Duration::from_millis(100)).await?;
                Ok(Some(Then::Reset))
            }
            Cut::Close => Err(io::ErrorKind::ConnectionAborted.into()),
            Cut::Clean => {
                self.socket.close(None).await.map_err(broken)?;
                Ok(Some(Then::Drain))
            }
        }
    }

    async fn complain(&mut self, message: &str) -> io::Result<Option<Then>> {
        self.error(400, errors::body(self.path, 400, message).as_bytes()).await
    }

    async fn error(&mut self, status: u16, body: &[u8]) -> io::Result<Option<Then>> {
        self.answered(status);
        self.send(Message::text(errors::event(status, body).to_string())).await.map(|()| None)
    }

    async fn send(&mut self, message: Message) -> io::Result<()> {
        let sending = tokio::time::timeout(SEND, self.socket.send(message)).await;
        sending.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map_err(broken)
    }

    /// Waits, answers pings meanwhile, keeps what is asked for later, and fails as soon as the client is gone.
    async fn pause(&mut self, time: Duration) -> io::Result<()> {
        let end = tokio::time::Instant::now() + time;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(()),
                message = self.socket.next() => {
                    let message = message.ok_or(io::ErrorKind::UnexpectedEof)?.map_err(broken)?;
                    self.waiting.extend(text(message));
                    if self.waiting.len() > WAITING {
                        return Err(broken(Error::AttackAttempt));
                    }
                }
            }
        }
    }

    fn note(&self, text: &str, model: bool) {
        let mut seen = Seen::begun(self.id, WEBSOCKET, self.path, self.real, model);
        let mut intake = Intake::new(self.shared.keep);
        intake.take(&mut seen, text.as_bytes());
        intake.finish(&mut seen);
        self.shared.book.begin(seen);
    }

    fn answered(&self, status: u16) {
        self.shared.book.on_request(self.id, |seen| seen.answered = Some(status));
    }
}

/// What a message says; frames of control say nothing.
fn text(message: Message) -> Option<String> {
    match message {
        Message::Text(text) => Some(text.to_string()),
        Message::Binary(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => None,
    }
}

fn broken(fault: Error) -> io::Error {
    match fault {
        Error::Io(fault) => fault,
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    }
}

/// How much may be asked while an answer is on its way.
const WAITING: usize = 100;
