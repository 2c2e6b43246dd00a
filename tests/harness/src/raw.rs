//! HTTP answers by the byte.

use std::io::{ErrorKind, Read};

use anyhow::{Context, Result, bail};

/// An answer, with its head as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    pub status: u16,
    pub head: Vec<u8>,
    pub headers: Vec<(String, String)>,
    /// The body without its chunks.
    pub body: Vec<u8>,
    /// The body came to its stated end.
    pub complete: bool,
}

impl Response {
    /// The first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The reason of a refusal.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.header(box_spec::wire::REASON_HEADER)
    }

    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// # Errors
    ///
    /// When the body is no JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("parse {}", self.text()))
    }
}

/// Reads one answer; informational ones are answers too. `with_body` is false after HEAD and CONNECT.
///
/// # Errors
///
/// When no whole head comes.
pub fn response(stream: &mut impl Read, with_body: bool) -> Result<Response> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Some(byte) = byte(stream).context("read a head")? else {
            bail!("the end came within a head: {:?}", String::from_utf8_lossy(&head))
        };
        head.push(byte);
        if head.len() > LIMIT {
            bail!("a head above {LIMIT} bytes");
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut lines = text.trim_end().split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1)?.parse().ok())
        .with_context(|| format!("find a status in {text:?}"))?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let mut response = Response { status, head, headers, body: Vec::new(), complete: true };
    let none = status < 200
        || status == 204
        || status == 304
        || !with_body && (status < 300 || response.header("content-length").is_none());
    if !none {
        let length = response.header("content-length").map(str::to_owned);
        let chunked = response.header("transfer-encoding").is_some();
        (response.body, response.complete) = body(stream, chunked, length.as_deref())?;
    }
    Ok(response)
}

/// Everything until the end.
///
/// # Errors
///
/// When the end does not come in time.
pub fn rest(stream: &mut impl Read) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(fresh) => all.extend_from_slice(&piece[..fresh]),
            Err(fault) if is_end(fault.kind()) => return Ok(all),
            Err(fault) => return Err(fault).context("wait for the end"),
        }
    }
}

fn body(stream: &mut impl Read, chunked: bool, length: Option<&str>) -> Result<(Vec<u8>, bool)> {
    let mut body = Vec::new();
    if chunked {
        loop {
            let Some(size) = line(stream)? else {
                return Ok((body, false));
            };
            let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)
                .context("read a chunk size")?;
            if size == 0 {
                while line(stream)?.is_some_and(|line| !line.is_empty()) {}
                return Ok((body, true));
            }
            if !exactly(stream, size, &mut body)? || line(stream)?.is_none() {
                return Ok((body, false));
            }
        }
    }
    match length {
        Some(length) => {
            let whole = exactly(stream, length.parse().context("read a content-length")?, &mut body)?;
            Ok((body, whole))
        }
        None => Ok((rest(stream)?, true)),
    }
}

fn exactly(stream: &mut impl Read, size: usize, into: &mut Vec<u8>) -> Result<bool> {
    let end = into.len() + size;
    let mut piece = vec![0; 64 * 1024];
    while into.len() < end {
        let now = piece.len().min(end - into.len());
        match stream.read(&mut piece[..now]) {
            Ok(0) => return Ok(false),
            Ok(fresh) => into.extend_from_slice(&piece[..fresh]),
            Err(fault) if is_end(fault.kind()) => return Ok(false),
            Err(fault) => return Err(fault).context("read a body"),
        }
    }
    Ok(true)
}

fn line(stream: &mut impl Read) -> Result<Option<String>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let Some(byte) = byte(stream)? else {
            return Ok(None);
        };
        line.push(byte);
        if line.len() > LIMIT {
            bail!("a line above {LIMIT} bytes");
        }
    }
    Ok(Some(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned()))
}

fn byte(stream: &mut impl Read) -> Result<Option<u8>> {
    let mut one = [0];
    match stream.read(&mut one) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(one[0])),
        Err(fault) if is_end(fault.kind()) => Ok(None),
        Err(fault) => Err(fault).context("read a byte"),
    }
}

const fn is_end(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

const LIMIT: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::response;

    #[test]
    fn answers_are_read_to_their_stated_end() {
        let mut wire: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n0\r\nT: 1\r\n\r\nHTTP/1.1 403 No\r\nContent-Length: 5\r\n\r\nhal";
        assert_eq!(response(&mut wire, true).expect("hints").status, 103);
        let answer = response(&mut wire, true).expect("an answer");
        assert_eq!((answer.status, answer.body.as_slice(), answer.complete), (200, b"ab".as_slice(), true));
        let cut = response(&mut wire, true).expect("a head");
        assert_eq!((cut.status, cut.body.as_slice(), cut.complete), (403, b"hal".as_slice(), false));
    }
}
