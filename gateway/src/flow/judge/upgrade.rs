//! Upgrade: a request may ask its connection to become a WebSocket where the grant says so, and nothing else anywhere.

use http::request::Parts;

use crate::policy::Grant;
use crate::refusal::{Reason, Refusal};
use crate::websocket::Asked;

/// Lets a head through that asks for nothing, or for a WebSocket that its grant lets through. An upgrade is never ignored:
/// whoever asked for one and is answered as if not would have to find out by itself.
pub(super) fn check(grant: &Grant, head: &Parts) -> Result<(), Refusal> {
    let refused = |outside: &str, inside: &str| {
        Refusal::new(Reason::UpgradeRefused, outside, inside).with_grant(grant.name.as_str())
    };
    match Asked::by(head) {
        Ok(Asked::Nothing) => Ok(()),
        Ok(Asked::WebSocket(_)) if grant.websocket => Ok(()),
        Ok(Asked::WebSocket(_)) => {
            Err(refused("no WebSocket is let through here", "a WebSocket toward a grant without `websocket`")
                .with_hint(format!(
                    "send plain requests; an operator can let WebSockets through by `websocket = true` in grant {:?}",
                    grant.name.as_str()
                )))
        }
        Ok(Asked::Other) => Err(refused("only an upgrade to WebSocket can be granted", "an upgrade to something else")),
        Err(malformed) => Err(Refusal::new(
            Reason::BadRequest,
            format!("this is no WebSocket handshake: {malformed}"),
            format!("malformed WebSocket handshake: {malformed}"),
        )
        .with_grant(grant.name.as_str())),
    }
}
