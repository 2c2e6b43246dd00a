//! Streamable HTTP: one request on a connection, its answer as JSON or, where the client takes one, as an event stream.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Echo, answer};

impl Echo {
    /// Serves each connection in a thread of its own, for ever.
    ///
    /// # Errors
    ///
    /// When no connection can be accepted any more.
    pub fn by_http(self, listener: &TcpListener) -> Result<()> {
        let echo = Arc::new(self);
        for stream in listener.incoming() {
            let stream = stream.context("accept a connection")?;
            let echo = Arc::clone(&echo);
            // A client that breaks off concerns nobody else.
            std::thread::spawn(move || echo.connection(stream));
        }
        Ok(())
    }

    fn connection(&self, stream: TcpStream) -> Result<()> {
        let mut reader = BufReader::new(stream.try_clone().context("read a connection")?);
        let mut stream = stream;
        let request = Request::read(&mut reader)?;
        let by_events = request.field("accept").is_some_and(|takes| takes.contains("text/event-stream"));
        match request.first.split(' ').next() {
            Some("POST") => {
                let message: Value = serde_json::from_slice(&request.body).context("parse a message")?;
                self.note(&message, &json!({"over": "http", "first": request.first, "fields": request.fields}))?;
                let Some(answer) = answer(&message) else {
                    return send(&mut stream, "202 Accepted", "application/json", "");
                };
                if by_events {
                    return events(&mut stream, &message, &answer);
                }
                send(&mut stream, "200 OK", "application/json", &answer.to_string())
            }
            Some("DELETE") => send(&mut stream, "200 OK", "application/json", ""),
            // It has nothing to say by itself.
            _ => send(&mut stream, "405 Method Not Allowed", "text/plain", "use POST\n"),
        }
    }
}

/// A call of the tool streams: each event comes after a pause, so that a stream that is held back is noticed.
fn events(stream: &mut TcpStream, message: &Value, answer: &Value) -> Result<()> {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n";
    put(stream, head)?;
    if message["method"] == "tools/call" {
        for step in 1..=STEPS {
            let note =
                json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": step}});
            put(stream, &format!("event: message\ndata: {note}\n\n"))?;
            std::thread::sleep(PAUSE);
        }
    }
    put(stream, &format!("event: message\ndata: {answer}\n\n"))
}

fn send(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> Result<()> {
    let length = body.len();
    put(
        stream,
        &format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ),
    )
}

fn put(stream: &mut TcpStream, text: &str) -> Result<()> {
    stream.write_all(text.as_bytes()).context("answer")
}

/// A request, read to its end.
struct Request {
    first: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut BufReader<TcpStream>) -> Result<Self> {
        let first = line(reader)?;
        let mut fields = Vec::new();
        loop {
            let line = line(reader)?;
            let Some((name, value)) = line.split_once(':') else { break };
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { first, fields, body: Vec::new() };
        let length: u64 = request.field("content-length").unwrap_or("0").parse().context("read a length")?;
        reader.take(length.min(BODY_LIMIT)).read_to_end(&mut request.body).context("read a body")?;
        if request.body.len() as u64 != length {
            bail!("the body is too long or cut");
        }
        Ok(request)
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    let read = reader.take(LINE_LIMIT).read_line(&mut line).context("read a head")?;
    if read == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof)).context("read a head");
    }
    Ok(line.trim_end().to_owned())
}

/// Events before the answer to a call, and the pause behind each.
const STEPS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(300);
const BODY_LIMIT: u64 = 1024 * 1024;
const LINE_LIMIT: u64 = 64 * 1024;
