//! The little HTTP that a claim needs: one request, its answer, and lines of JSON after an upgrade.

use std::io;
use std::time::Duration;

use box_spec::FromHouse;
use box_spec::wire::{CLAIM_PATH, CLAIM_UPGRADE, HEALTH_PATH, LINE_LIMIT, PROOF_HEADER};
use serde::Serialize;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use ::shim::{Door, DoorStream};

/// What the house says to a request.
pub(super) enum Reply {
    Answer { status: u16, body: Vec<u8> },
    Upgraded(Lines),
}

/// Lines of JSON, both ways.
#[derive(Debug)]
pub(super) struct Lines {
    stream: DoorStream,
    /// Read and not yet given out.
    held: Vec<u8>,
}

#[derive(Debug, Error)]
pub(super) enum HttpFault {
    #[error("connect")]
    Connect(#[source] io::Error),
    #[error("speak")]
    Speak(#[source] io::Error),
    #[error("it closed the connection")]
    Closed,
    #[error("it does not answer within {0} s")]
    Late(u64),
    #[error("it does not speak the protocol: {0}")]
    Protocol(&'static str),
}

/// One connection to the door.
pub(super) async fn open(door: &Door) -> Result<Lines, HttpFault> {
    let stream = door.connect().await.map_err(HttpFault::Connect)?;
    Ok(Lines { stream, held: Vec::new() })
}

/// Asks who is behind the door. The connection goes on.
pub(super) async fn identity(lines: &mut Lines) -> Result<(u16, Vec<u8>), HttpFault> {
    let request = format!("GET {HEALTH_PATH} HTTP/1.1\r\nHost: door\r\n\r\n");
    in_time(lines.answer(request.as_bytes())).await
}

/// Claims with this body, and at a TCP door with the proof of the key.
pub(super) async fn claim(mut lines: Lines, body: &[u8], proof: Option<&str>) -> Result<Reply, HttpFault> {
    let proof = proof.map(|proof| format!("{PROOF_HEADER}: {proof}\r\n")).unwrap_or_default();
    let length = body.len();
    let mut request = format!("POST {CLAIM_PATH} HTTP/1.1\r\nHost: door\r\nConnection: Upgrade\r\nUpgrade: {CLAIM_UPGRADE}\r\n{proof}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    request.extend_from_slice(body);
    in_time(async {
        lines.stream.write_all(&request).await.map_err(HttpFault::Speak)?;
        let head = lines.head().await?;
        if head.status == 101 {
            return if head.upgraded {
                Ok(Reply::Upgraded(lines))
            } else {
                Err(HttpFault::Protocol("a 101 to something else"))
            };
        }
        let body = lines.body(head.length).await?;
        Ok(Reply::Answer { status: head.status, body })
    })
    .await
}

async fn in_time<T>(exchange: impl Future<Output = Result<T, HttpFault>>) -> Result<T, HttpFault> {
    timeout(ANSWER, exchange).await.map_err(|_| HttpFault::Late(ANSWER.as_secs()))?
}

struct Head {
    status: u16,
    length: Option<usize>,
    upgraded: bool,
}

impl Lines {
    /// The next line. Safe to give up on: what was read of it stays.
    pub(super) async fn next(&mut self) -> Result<FromHouse, HttpFault> {
        loop {
            if let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.held.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|_| HttpFault::Protocol("a line that boxd does not know"));
            }
            if self.held.len() > LINE_LIMIT {
                return Err(HttpFault::Protocol("a line above 64 KiB"));
            }
            self.fill().await?;
        }
    }

    pub(super) async fn next_in_time(&mut self) -> Result<FromHouse, HttpFault> {
        let next = timeout(ANSWER, self.next()).await;
        next.unwrap_or(Err(HttpFault::Late(ANSWER.as_secs())))
    }

    pub(super) async fn send(&mut self, message: &impl Serialize) -> Result<(), HttpFault> {
        let mut line =
            serde_json::to_vec(message).map_err(|_| HttpFault::Protocol("a message that cannot be written"))?;
        line.push(b'\n');
        let sent = timeout(ANSWER, self.stream.write_all(&line)).await;
        sent.map_err(|_| HttpFault::Late(ANSWER.as_secs()))?.map_err(HttpFault::Speak)
    }

    async fn answer(&mut self, request: &[u8]) -> Result<(u16, Vec<u8>), HttpFault> {
        self.stream.write_all(request).await.map_err(HttpFault::Speak)?;
        let head = self.head().await?;
        let body = self.body(head.length).await?;
        Ok((head.status, body))
    }

    async fn fill(&mut self) -> Result<(), HttpFault> {
        match self.stream.read_buf(&mut self.held).await {
            Ok(0) => Err(HttpFault::Closed),
            Ok(_) => Ok(()),
            Err(fault) => Err(HttpFault::Speak(fault)),
        }
    }

    async fn head(&mut self) -> Result<Head, HttpFault> {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; 64];
            let mut response = httparse::Response::new(&mut fields);
            match response.parse(&self.held) {
                Ok(httparse::Status::Complete(consumed)) => {
                    let head = head_of(&response)?;
                    self.held.drain(..consumed);
                    return Ok(head);
                }
                Ok(httparse::Status::Partial) if self.held.len() <= HEAD_LIMIT => self.fill().await?,
                Ok(httparse::Status::Partial) => {
                    return Err(HttpFault::Protocol("an answer's head above 16 KiB"));
                }
                Err(_) => return Err(HttpFault::Protocol("no HTTP answer")),
            }
        }
    }

    /// The body by its length, else to the end of the connection.
    async fn body(&mut self, length: Option<usize>) -> Result<Vec<u8>, HttpFault> {
        while length.is_none_or(|length| self.held.len() < length) {
            match self.fill().await {
                Err(HttpFault::Closed) if length.is_none() => break,
                outcome => outcome?,
            }
            if self.held.len() > LINE_LIMIT {
                return Err(HttpFault::Protocol("an answer above 64 KiB"));
            }
        }
        let rest = length.map_or_else(Vec::new, |length| self.held.split_off(length.min(self.held.len())));
        Ok(std::mem::replace(&mut self.held, rest))
    }
}

fn head_of(response: &httparse::Response<'_, '_>) -> Result<Head, HttpFault> {
    let field = |name: &str| {
        let found = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.and_then(|field| std::str::from_utf8(field.value).ok())
    };
    if field("transfer-encoding").is_some() {
        return Err(HttpFault::Protocol("an answer in chunks"));
    }
    let length = match field("content-length").map(str::parse) {
        Some(Ok(length)) => Some(length),
        Some(Err(_)) => return Err(HttpFault::Protocol("a length that is no number")),
        None => None,
    };
    let upgraded = field("upgrade").is_some_and(|token| token.eq_ignore_ascii_case(CLAIM_UPGRADE));
    let status = response.code.ok_or(HttpFault::Protocol("an answer without a status"))?;
    Ok(Head { status, length, upgraded })
}

/// For an answer, and for each line that is waited for before the agent runs.
const ANSWER: Duration = Duration::from_secs(10);
const HEAD_LIMIT: usize = 16 * 1024;
