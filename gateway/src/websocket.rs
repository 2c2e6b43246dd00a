//! WebSocket: the opening handshake as RFC 6455 has it, read strictly from a request and checked in its answer.

mod head;
pub mod frames;
pub mod messages;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Version};

/// What a request asks of its connection (RFC 9110 §7.8).
#[derive(Debug)]
pub enum Asked {
    /// It stays HTTP.
    Nothing,
    WebSocket(Handshake),
    /// Any other protocol, alone or beside WebSocket.
    Other,
}

/// An opening handshake that was offered: what its answer must say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handshake {
    accept: String,
    protocols: Vec<String>,
    extensions: Vec<String>,
}

/// Why a request that asks for a WebSocket is no opening handshake (RFC 6455 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    #[error("its method is not GET")]
    Method,
    #[error("it is not HTTP/1.1")]
    Version,
    #[error("it has a body")]
    Body,
    #[error("`Upgrade` names websocket more than once")]
    Upgrade,
    #[error("`Connection` does not name Upgrade, or takes a field of the handshake away")]
    Connection,
    #[error("`Sec-WebSocket-Version` is not 13, once")]
    SocketVersion,
    #[error("`Sec-WebSocket-Key` is not one base64 text of 16 bytes")]
    Key,
}

/// Why a 101 does not answer the handshake (RFC 6455 §4.1, what the client must check).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Mismatch {
    #[error("it is not HTTP/1.1")]
    Version,
    #[error("`Upgrade` is not websocket")]
    Upgrade,
    #[error("`Connection` does not name Upgrade, or takes a field of the handshake away")]
    Connection,
    #[error("`Sec-WebSocket-Accept` does not answer the key")]
    Accept,
    #[error("it chose a subprotocol that was not offered")]
    Protocol,
    #[error("it uses an extension that was not offered")]
    Extension,
}

impl Asked {
    /// What this head asks for.
    ///
    /// # Errors
    /// It asks for a WebSocket alone, and is no well-formed opening handshake.
    pub fn by(head: &Parts) -> Result<Self, Malformed> {
        if !head.headers.contains_key(UPGRADE) {
            return Ok(Self::Nothing);
        }
        let is_websocket = |name: &String| name.eq_ignore_ascii_case("websocket");
        let Some(named) = items(&head.headers, &UPGRADE) else { return Ok(Self::Other) };
        if named.is_empty() || !named.iter().all(is_websocket) {
            return Ok(Self::Other);
        }
        if named.len() > 1 {
            return Err(Malformed::Upgrade);
        }
        Handshake::read(head).map(Self::WebSocket)
    }
}

impl Handshake {
    fn read(head: &Parts) -> Result<Self, Malformed> {
        let fields = &head.headers;
        if head.method != Method::GET {
            return Err(Malformed::Method);
        }
        if head.version != Version::HTTP_11 {
            return Err(Malformed::Version);
        }
        if [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT].iter().any(|name| fields.contains_key(name)) {
            return Err(Malformed::Body);
        }
        if !switches(fields) {
            return Err(Malformed::Connection);
        }
        if only(fields, &SEC_WEBSOCKET_VERSION) != Some("13") {
            return Err(Malformed::SocketVersion);
        }
        let key = only(fields, &SEC_WEBSOCKET_KEY).ok_or(Malformed::Key)?;
        if STANDARD.decode(key).map_or(true, |nonce| nonce.len() != 16) {
            return Err(Malformed::Key);
        }
        Ok(Self {
            accept: accept(key),
            protocols: items(fields, &SEC_WEBSOCKET_PROTOCOL).unwrap_or_default(),
            extensions: extensions(fields).unwrap_or_default(),
        })
    }

    /// Whether a 101 of this version and with these fields answers this handshake.
    ///
    /// # Errors
    /// What the client of RFC 6455 §4.1 would have to fail the connection for.
    pub fn check(&self, version: Version, fields: &HeaderMap) -> Result<(), Mismatch> {
        if version != Version::HTTP_11 {
            return Err(Mismatch::Version);
        }
        if !only(fields, &UPGRADE).is_some_and(|name| name.eq_ignore_ascii_case("websocket")) {
            return Err(Mismatch::Upgrade);
        }
        if !switches(fields) {
            return Err(Mismatch::Connection);
        }
        if only(fields, &SEC_WEBSOCKET_ACCEPT) != Some(&self.accept) {
            return Err(Mismatch::Accept);
        }
        if fields.contains_key(SEC_WEBSOCKET_PROTOCOL)
            && !only(fields, &SEC_WEBSOCKET_PROTOCOL)
                .is_some_and(|chosen| self.protocols.iter().any(|one| one == chosen))
        {
            return Err(Mismatch::Protocol);
        }
        let used = extensions(fields).ok_or(Mismatch::Extension)?;
        if !used.iter().all(|name| self.extensions.iter().any(|offered| offered.eq_ignore_ascii_case(name))) {
            return Err(Mismatch::Extension);
        }
        Ok(())
    }
}

/// The answer to a key (RFC 6455 §4.2.2, step 5.4).
fn accept(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()))
}

/// Whether `Connection` says that the connection switches, and leaves the fields of the handshake where they are.
fn switches(fields: &HeaderMap) -> bool {
    items(fields, &CONNECTION).is_some_and(|named| {
        named.iter().any(|name| name.eq_ignore_ascii_case("upgrade"))
            && !named.iter().any(|name| name.to_ascii_lowercase().starts_with("sec-websocket-"))
    })
}

/// The value of a field that is there exactly once.
fn only<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = fields.get_all(name).into_iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The items of a list (RFC 9110 §5.6.1) over all fields of this name; `None` where one is no text.
fn items(fields: &HeaderMap, name: &HeaderName) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for value in fields.get_all(name) {
        let named = value.to_str().ok()?.split(',').map(str::trim).filter(|item| !item.is_empty());
        all.extend(named.map(str::to_owned));
    }
    Some(all)
}

/// The names of the extensions without their parameters; `None` where they cannot be read.
fn extensions(fields: &HeaderMap) -> Option<Vec<String>> {
    // A comma inside a quoted parameter makes a name that nobody offered: refused, never misread.
    let all = items(fields, &SEC_WEBSOCKET_EXTENSIONS)?;
    Some(all.iter().map(|item| item.split(';').next().unwrap_or_default().trim().to_owned()).collect())
}

/// Of RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[cfg(test)]
mod tests;
