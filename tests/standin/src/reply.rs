//! What is answered: by a rule, or as the provider would.

use std::io;
use std::time::Duration;

use serde_json::Value;

use crate::connection::Connection;
use crate::decode::decoded;
use crate::frame::{self, Head};
use crate::pack::Packing;
use crate::rule::{Cut, Fault, Rule, Then};
use crate::stand::Shared;
use crate::steps::Step;
use crate::turn::{Turn, Unknown, Words};
use crate::{account, errors, ws};

/// All that an answer needs.
pub(crate) struct Reply<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) connection: &'a mut Connection,
    pub(crate) head: &'a Head,
    pub(crate) body: &'a [u8],
    /// The request carried a real credential.
    pub(crate) real: bool,
    /// A model's answer is packed so.
    pub(crate) packing: Option<Packing>,
}

impl Reply<'_> {
    pub(crate) async fn by_rule(mut self, rule: Rule) -> io::Result<Then> {
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
            Fault::Event(text) => self.one_event(&text).await,
            Fault::Packed(packing) => {
                self.packing = Some(packing);
                self.usual(None).await
            }
            Fault::Hang(time) => {
                self.connection.pause(time).await?;
                Ok(Then::Close)
            }
            Fault::Reset => Ok(Then::Reset),
        }
    }

    pub(crate) async fn usual(mut self, cut: Option<(usize, Cut)>) -> io::Result<Then> {
        if let Some(repositories) = &self.shared.repositories {
            let (status, headers, body) = repositories.answer(self.head, self.body).await?;
            return self.plain(status, &headers, &body).await;
        }
        let path = self.head.path.split('?').next().unwrap_or_default();
        let post = self.head.method == "POST";
        let sign_in =
            self.shared.live(|live| live.sign_in.as_mut()?.step(&self.head.method, &self.head.path, self.body));
        if let Some((status, mut headers, body)) = sign_in {
            headers.push(("content-type".into(), "application/json".into()));
            return self.plain(status, &headers, body.to_string().as_bytes()).await;
        }
        if post && path.ends_with("/oauth/token") {
            let (status, body) = self.shared.live(|live| match &mut live.chain {
                Some(chain) => chain.turn(self.body),
                None => account::token(live.refresh.as_ref()),
            });
            return self.json(status, &body.to_string()).await;
        }
        if !self.real {
            return self.error(401, "stand-in: no real credential").await;
        }
        if self.head.is_upgrade() && Words::at(path) == Some(Words::Responses) {
            return self.upgrade().await;
        }
        match (path, Words::at(path)) {
            (_, Some(words)) if post => self.model(words, cut).await,
            ("/v1/messages/count_tokens", _) if post => self.json(200, r#"{"input_tokens":10}"#).await,
            (_, _) if post && path.ends_with("/responses/compact") => self.json(200, r#"{"output":[]}"#).await,
            ("/backend-api/wham/accounts/check", _) => {
                let accounts = account::list(&self.shared.real);
                self.json(200, &accounts.to_string()).await
            }
            ("/backend-api/wham/settings/user", _) => self.json(200, "{}").await,
            _ => match path.strip_prefix("/standin/bytes/").and_then(|n| n.parse().ok()) {
                Some(bytes) => self.bulk(bytes).await,
                None => self.error(404, "stand-in: no such route").await,
            },
        }
    }

    async fn upgrade(&mut self) -> io::Result<Then> {
        if !self.shared.live(|live| live.websocket) {
            return self.error(426, "stand-in: no WebSockets here").await;
        }
        ws::session(self.shared, self.connection, self.head, self.real).await
    }

    async fn model(&mut self, words: Words, cut: Option<(usize, Cut)>) -> io::Result<Then> {
        let Some(body) = decoded(self.head.header("content-encoding"), self.body) else {
            return self.error(415, "stand-in: the body's encoding cannot be read").await;
        };
        let Ok(request) = serde_json::from_slice::<Value>(&body) else {
            return self.error(400, "stand-in: the body is no JSON").await;
        };
        let turn = match Turn::new(self.shared, words, &request) {
            Ok(turn) => turn,
            Err(Unknown(id)) => return self.error(400, &format!("stand-in: nothing was answered as {id}")).await,
        };
        let is_streamed = request["stream"] == true;
        if is_streamed && self.packing.is_none() {
            return self.events(turn.stream(), cut).await;
        }
        let (wait, whole) = turn.whole();
        self.connection.pause(wait).await?;
        let (kind, body) = if is_streamed {
            ("text/event-stream", turn.stream().iter().filter_map(Step::sent).collect())
        } else {
            ("application/json", whole.to_string())
        };
        let mut headers = vec![("content-type".to_owned(), kind.to_owned())];
        let Some(packing) = self.packing else {
            return self.plain(200, &headers, body.as_bytes()).await;
        };
        headers.push(("content-encoding".to_owned(), packing.name().to_owned()));
        self.plain(200, &headers, &packing.pack(body.as_bytes())).await
    }

    async fn events(&mut self, steps: Vec<Step>, cut: Option<(usize, Cut)>) -> io::Result<Then> {
        self.answered(200);
        self.connection.send(STREAM_HEAD).await?;
        let mut sent = 0;
        for step in steps {
            if let Step::Pause(time) = step {
                self.connection.pause(time).await?;
            }
            let Some(text) = step.sent() else {
                continue;
            };
            if let Some((_, how)) = cut.filter(|(events, _)| *events == sent) {
                return self.cut(how).await;
            }
            self.connection.send(&frame::chunk(text.as_bytes())).await?;
            sent += 1;
        }
        self.connection.send(b"0\r\n\r\n").await?;
        Ok(Then::Keep)
    }

    /// A stream of this one event.
    async fn one_event(&mut self, data: &str) -> io::Result<Then> {
        self.answered(200);
        self.connection.send(STREAM_HEAD).await?;
        let event: Value = serde_json::from_str(data).unwrap_or_default();
        let name = event["type"].as_str().unwrap_or("error");
        let text = format!("event: {name}\ndata: {data}\n\n");
        self.connection.send(&frame::chunk(text.as_bytes())).await?;
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

    async fn error(&mut self, status: u16, message: &str) -> io::Result<Then> {
        self.json(status, &errors::body(&self.head.path, status, message)).await
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

const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\nrequest-id: req_standin\r\ntransfer-encoding: chunked\r\n\r\n";
