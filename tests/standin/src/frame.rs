//! HTTP/1.1 framing by hand, so that heads are kept to the byte: heads and bodies in, answers out.

use std::io;

use crate::connection::Connection;

/// A request's head.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) raw: Vec<u8>,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// How a request's body is framed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    Length(u64),
    Chunked,
}

/// The next head; `None` when the client ended the connection between requests.
pub(crate) async fn head(connection: &mut Connection) -> io::Result<Option<Head>> {
    loop {
        if let Some(end) = find(&connection.buffer, b"\r\n\r\n") {
            let raw: Vec<u8> = connection.buffer.drain(..end + 4).collect();
            return Head::parse(raw).map(Some).ok_or_else(|| broken("a head that is no HTTP/1.1"));
        }
        if connection.buffer.len() > HEAD_LIMIT {
            return Err(broken("a head above 1 MiB"));
        }
        if connection.fill().await? == 0 {
            return if connection.buffer.is_empty() { Ok(None) } else { Err(broken("half a head")) };
        }
    }
}

/// Reads a body to its end and gives each piece to `take`. Returns the trailers.
pub(crate) async fn body(connection: &mut Connection, body: Body, mut take: impl FnMut(&[u8])) -> io::Result<Vec<u8>> {
    match body {
        Body::Length(length) => {
            exactly(connection, length, &mut take).await?;
            Ok(Vec::new())
        }
        Body::Chunked => loop {
            let size = line(connection).await?;
            let digits = size.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let digits = std::str::from_utf8(digits).map_err(|_| broken("a chunk size"))?;
            let size = u64::from_str_radix(digits, 16).map_err(|_| broken("a chunk size"))?;
            if size == 0 {
                return trailers(connection).await;
            }
            exactly(connection, size, &mut take).await?;
            if !line(connection).await?.is_empty() {
                return Err(broken("a chunk without an end"));
            }
        },
    }
}

/// The bytes of an answer with a body of known length.
pub(crate) fn answer(status: u16, headers: &[(String, String)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} {}\r\n", phrase(status));
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    if status >= 200 && status != 204 {
        out.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    out.push_str("\r\n");
    let mut out = out.into_bytes();
    if status != 204 {
        out.extend_from_slice(body);
    }
    out
}

/// One chunk of a chunked body.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}

impl Head {
    fn parse(raw: Vec<u8>) -> Option<Self> {
        let text = String::from_utf8_lossy(&raw);
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, path, version) = (first.next()?.to_owned(), first.next()?.to_owned(), first.next()?);
        if !version.starts_with("HTTP/1.") || first.next().is_some() {
            return None;
        }
        let headers = lines
            .map(|line| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned())))
            .collect::<Option<Vec<_>>>()?;
        Some(Self { raw, method, path, headers })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether the client wants a WebSocket.
    pub(crate) fn is_upgrade(&self) -> bool {
        self.header("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
    }

    pub(crate) fn body(&self) -> io::Result<Body> {
        let chunked =
            self.header("transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked"));
        if chunked {
            return Ok(Body::Chunked);
        }
        let length = self.header("content-length").unwrap_or("0");
        length.parse().map(Body::Length).map_err(|_| broken("a content-length"))
    }
}

async fn exactly(connection: &mut Connection, length: u64, take: &mut impl FnMut(&[u8])) -> io::Result<()> {
    let mut left = length;
    while left > 0 {
        if connection.buffer.is_empty() && connection.fill().await? == 0 {
            return Err(broken("half a body"));
        }
        let have = connection.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        take(&connection.buffer[..have]);
        connection.buffer.drain(..have);
        left -= have as u64;
    }
    Ok(())
}

async fn trailers(connection: &mut Connection) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let line = line(connection).await?;
        if line.is_empty() || all.len() > HEAD_LIMIT {
            return Ok(all);
        }
        all.extend_from_slice(&line);
        all.extend_from_slice(b"\r\n");
    }
}

async fn line(connection: &mut Connection) -> io::Result<Vec<u8>> {
    loop {
        if let Some(end) = find(&connection.buffer, b"\r\n") {
            let line = connection.buffer[..end].to_vec();
            connection.buffer.drain(..end + 2);
            return Ok(line);
        }
        if connection.buffer.len() > HEAD_LIMIT || connection.fill().await? == 0 {
            return Err(broken("half a line"));
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

const fn phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        103 => "Early Hints",
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Answer",
    }
}

const HEAD_LIMIT: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::{Body, Head, answer};

    #[test]
    fn a_head_keeps_its_bytes_order_and_spelling() {
        let raw = b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: a\r\nX-B:  c \r\nx-b: d\r\nContent-Length: 5\r\n\r\n"
            .to_vec();
        let head = Head::parse(raw.clone()).expect("a head");
        assert_eq!((head.method.as_str(), head.path.as_str(), &head.raw), ("POST", "/v1/messages?beta=true", &raw));
        assert_eq!(head.headers[1], ("X-B".to_owned(), "c".to_owned()));
        assert_eq!(head.headers[2], ("x-b".to_owned(), "d".to_owned()));
        assert_eq!(head.body().expect("a length"), Body::Length(5));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for bad in
            ["GET / HTTP/2\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1\r\nnocolon\r\n\r\n"]
        {
            assert!(Head::parse(bad.as_bytes().to_vec()).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn an_answer_states_its_length_unless_it_has_no_body() {
        assert_eq!(answer(403, &[], b"no"), b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno");
        assert_eq!(answer(204, &[], b"no"), b"HTTP/1.1 204 No Content\r\n\r\n");
    }
}
