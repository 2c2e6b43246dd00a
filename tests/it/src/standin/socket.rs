//! The client's end of a WebSocket, by the byte.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail, ensure};
use harness::raw::{Response, response};
use serde_json::Value;

/// A session over plain TCP.
pub(super) struct Socket(TcpStream);

/// What comes over it.
#[derive(PartialEq, Debug)]
pub(super) enum Came {
    Text(Value),
    Ping,
    Pong,
    /// The session's end, in due form.
    Close,
    /// The connection's end.
    Nothing,
}

impl Socket {
    /// Asks for a session; gives back the answer if it is no 101.
    pub(super) fn open(mut stream: TcpStream, path: &str, headers: &str) -> Result<Result<Self, Response>> {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).context("ask for a session")?;
        let answer = response(&mut stream, false)?;
        if answer.status != 101 {
            return Ok(Err(answer));
        }
        // Of RFC 6455 §1.3, for the key above.
        let accept = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-accept"));
        ensure!(accept.is_some_and(|(_, value)| value == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer:?}");
        Ok(Ok(Self(stream)))
    }

    pub(super) fn say(&mut self, message: &Value) -> Result<()> {
        self.frame(0x1, message.to_string().as_bytes())
    }

    pub(super) fn ping(&mut self) -> Result<()> {
        self.frame(0x9, b"mine")
    }

    pub(super) fn close(&mut self) -> Result<()> {
        self.frame(0x8, &[])
    }

    /// A masked frame of at most 64 KiB.
    fn frame(&mut self, opcode: u8, payload: &[u8]) -> Result<()> {
        let length = u16::try_from(payload.len()).context("a longer message than tests have")?;
        let mut frame = vec![0x80 | opcode, 0x80 | 126];
        frame.extend_from_slice(&length.to_be_bytes());
        let mask = [1, 2, 3, 4];
        frame.extend_from_slice(&mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).context("send a frame")
    }

    /// What comes next. The stand-in never splits a message.
    pub(super) fn next(&mut self) -> Result<Came> {
        let mut head = [0; 2];
        if self.0.read_exact(&mut head).is_err() {
            return Ok(Came::Nothing);
        }
        ensure!(head[0] & 0x80 != 0 && head[1] & 0x80 == 0, "an odd frame: {head:?}");
        let length = match head[1] {
            126 => self.number::<2>()?,
            127 => self.number::<8>()?,
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).context("a long frame")?];
        self.0.read_exact(&mut payload).context("read a frame")?;
        match head[0] & 0x0f {
            0x1 => Ok(Came::Text(serde_json::from_slice(&payload).context("parse a message")?)),
            0x8 => Ok(Came::Close),
            0x9 => Ok(Came::Ping),
            0xa => Ok(Came::Pong),
            other => bail!("a frame of kind {other}"),
        }
    }

    fn number<const BYTES: usize>(&mut self) -> Result<u64> {
        let mut bytes = [0; BYTES];
        self.0.read_exact(&mut bytes).context("read a length")?;
        Ok(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// All events of an answer, to the one that ends it.
    pub(super) fn events(&mut self) -> Result<Vec<Value>> {
        let mut events = Vec::new();
        loop {
            match self.next()? {
                Came::Text(event) => {
                    let kind = event["type"].as_str().unwrap_or_default().to_owned();
                    events.push(event);
                    if ["response.completed", "response.failed", "error"].contains(&kind.as_str()) {
                        return Ok(events);
                    }
                }
                Came::Ping | Came::Pong => {}
                end => bail!("{end:?} after {events:?}"),
            }
        }
    }
}
