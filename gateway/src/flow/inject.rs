//! Inject: every carrier of a credential is emptied, then the real one is set. Nothing is substituted anywhere else.

use std::sync::{Arc, LazyLock};

use box_spec::wire::SENTINEL_MARK;
use http::header::{ACCEPT_ENCODING, HOST, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Uri};
use memchr::memmem::Finder;

use crate::body::{self, Reads};
use crate::echo::Needles;
use crate::flow::identify::Caller;
use crate::flow::judge::Permit;
use crate::hops;
use crate::host::Target;
use crate::policy::escapes::{Piece, pieces};
use crate::policy::{Grant, Scheme, carriers};
use crate::refresh::Refresher;
use crate::refusal::{Reason, Refusal, Told};
use crate::vault::Vault;
use crate::websocket::{Asked, Handshake};

/// A request as it will be sent: judged, written down, and with its real credential.
#[derive(Debug)]
pub struct Outbound {
    caller: Caller,
    target: Target,
    scheme: Scheme,
    grant: Arc<Grant>,
    head: Parts,
    injected: Vec<HeaderName>,
    handshake: Option<Handshake>,
    needles: Option<Arc<Needles>>,
    reads: Reads,
}

impl Outbound {
    #[must_use]
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    #[must_use]
    pub const fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    /// The names of the headers that were set from the vault.
    #[must_use]
    pub fn injected(&self) -> &[HeaderName] {
        &self.injected
    }

    /// What the answer is looked through for, so that the credential does not come back to the box.
    #[must_use]
    pub const fn needles(&self) -> Option<&Arc<Needles>> {
        self.needles.as_ref()
    }

    /// What its body is read for.
    #[must_use]
    pub const fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The head to send, and the WebSocket handshake that it is.
    #[must_use]
    pub fn into_head(self) -> (Parts, Option<Handshake>) {
        (self.head, self.handshake)
    }
}

/// Sees to it that a login is fresh, where the permit's secret is one and is due: requests wait for one refresh together.
pub async fn freshen(vault: &Vault, refresher: &Refresher, permit: &Permit) {
    if let Some(login) = permit.secret().and_then(|name| vault.login(name)) {
        refresher.fresh(login, false).await;
    }
}

/// Makes a permit into what is sent.
///
/// # Errors
/// The credential is missing, expired or renders no header; or a sentinel is left over. Nothing is sent then.
pub fn inject(vault: &Vault, permit: Permit) -> Result<Outbound, Told> {
    let (caller, target, scheme, grant, mut head) = permit.into_parts();
    let told = |refusal: Refusal| Told::new(Some(target.clone()), refusal.with_grant(grant.name.as_str()));
    let (rendered, needles) = match &grant.secret {
        Some(name) => {
            let credential =
                vault.credential(name).map_err(|outage| told(outage_refusal(name.as_str(), &outage.to_string())))?;
            let rendered = credential.headers(grant.sent_as());
            if rendered.is_empty() {
                return Err(told(outage_refusal(name.as_str(), "it rendered no header")));
            }
            (rendered, Some(Arc::clone(credential.needles())))
        }
        None => (Vec::new(), None),
    };
    let guard = vault.guard().map_err(|fault| told(outage_refusal("(all)", &fault.to_string())))?;
    if let Some(place) = secret_in(&head, &guard) {
        return Err(told(body::secret_outbound(place)));
    }
    if grant.secret.is_some() || !grant.keeps_credentials {
        strip_credentials(&mut head);
    }
    if needles.is_some() {
        ask_plainly(&mut head);
    }
    let reads = Reads::of(&target, &grant, &head, guard);
    if reads.is_for_a_model() {
        // What is said in a WebSocket is read: it comes unpacked.
        head.headers.remove(SEC_WEBSOCKET_EXTENSIONS);
    }
    // Read before its hop-by-hop fields go, and after the credentials went: a subprotocol that carried one is not offered.
    let handshake = match Asked::by(&head) {
        Ok(Asked::WebSocket(handshake)) => Some(handshake),
        Ok(Asked::Nothing) => None,
        // It was one when it was judged, and must not go out as a plain request.
        Ok(Asked::Other) | Err(_) => {
            let inside = "no WebSocket handshake is left without its credentials";
            return Err(told(Refusal::new(Reason::BadRequest, "the WebSocket handshake carries a credential", inside)));
        }
    };
    // Before the real credential is set: a name that the box lists in Connection must not take it away.
    hops::strip_request(&mut head.headers);
    if handshake.is_some() {
        hops::keep_websocket(&mut head.headers);
    }
    for (name, _) in &rendered {
        strip_spellings(&mut head, name);
    }
    let injected = rendered.iter().map(|(name, _)| name.clone()).collect();
    for (name, value) in rendered {
        head.headers.insert(name, value);
    }
    address(&mut head, &target, scheme)
        .map_err(|inside| told(Refusal::new(Reason::BadRequest, "the address could not be understood", inside)))?;
    if still_holds_a_sentinel(&head) {
        return Err(told(Refusal::new(
            Reason::SentinelAstray,
            "a stand-in credential was left in the request",
            "a sentinel was left over after the overwrite",
        )));
    }
    Ok(Outbound { caller, target, scheme, grant, head, injected, handshake, needles, reads })
}

fn outage_refusal(name: &str, inside: &str) -> Refusal {
    Refusal::new(
        Reason::CredentialOutage,
        format!("the house's credential {name:?} cannot be used now"),
        format!("credential {name}: {inside}"),
    )
}

/// Asks for an answer that can be looked through. A request that says nothing of codings would take any (RFC 9110 §12.5.3);
/// a handshake is answered without a body.
fn ask_plainly(head: &mut Parts) {
    let headers = &mut head.headers;
    if headers.contains_key(ACCEPT_ENCODING) || !headers.contains_key(UPGRADE) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    headers.remove(SEC_WEBSOCKET_EXTENSIONS);
}

/// Empties every carrier of a credential, in any spelling.
fn strip_credentials(head: &mut Parts) {
    let carriers: Vec<HeaderName> =
        head.headers.keys().filter(|name| carriers::header_carries_credential(name)).cloned().collect();
    for name in carriers {
        head.headers.remove(name);
    }
    let protocols = head
        .headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .into_iter()
        // What cannot be read is nothing that was found harmless.
        .any(|value| value.to_str().map_or(true, |list| list.split(',').any(carriers::protocol_carries_credential)));
    if protocols {
        head.headers.remove(SEC_WEBSOCKET_PROTOCOL);
    }
    if let Some(path) = head.uri.path_and_query()
        && let Some(kept) = without_credential_keys(path)
    {
        head.uri = Uri::from(kept);
    }
}

/// Empties a header that is about to be set, in every spelling: what the house sets there stands alone.
fn strip_spellings(head: &mut Parts, name: &HeaderName) {
    let name = carriers::folded_header(name);
    let same: Vec<HeaderName> =
        head.headers.keys().filter(|other| carriers::folded_header(other) == name).cloned().collect();
    for name in same {
        head.headers.remove(name);
    }
}

/// The address without the query keys that carry credentials; `None` when there are none.
fn without_credential_keys(path: &PathAndQuery) -> Option<PathAndQuery> {
    let query = path.query()?;
    // Some servers part a query at `;` too.
    let carries = |pair: &&str| {
        pair.split(';').any(|piece| {
            let key = piece.split('=').next().unwrap_or_default();
            carriers::query_key_carries_credential(&decoded(key))
        })
    };
    if !query.split('&').any(|pair| carries(&pair)) {
        return None;
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !carries(pair)).collect();
    let text = if kept.is_empty() { path.path().to_owned() } else { format!("{}?{}", path.path(), kept.join("&")) };
    text.parse().ok()
}

fn decoded(key: &str) -> String {
    let bytes: Vec<u8> = pieces(key)
        .map(|piece| match piece {
            Piece::Plain(byte) | Piece::Escaped(byte) => byte,
            Piece::Stray => b'%',
        })
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The address in origin form, and the Host of the target (RFC 9112 §3.2.1).
fn address(head: &mut Parts, target: &Target, scheme: Scheme) -> Result<(), String> {
    let path = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    head.uri = Uri::from(path);
    let host = if target.port() == scheme.default_port() { target.host().to_string() } else { target.to_string() };
    let value = HeaderValue::try_from(host).map_err(|error| error.to_string())?;
    head.headers.insert(HOST, value);
    Ok(())
}

/// Where a head carries a real secret of the house: the box should have none, and whatever it does with one must not go out.
fn secret_in(head: &Parts, guard: &Needles) -> Option<&'static str> {
    let address = head.uri.path_and_query().map_or("", |path| path.as_str());
    if guard.are_in(address.as_bytes()) || guard.are_in(decoded(address).as_bytes()) {
        return Some("in the address");
    }
    head.headers.values().any(|value| guard.are_in(value.as_bytes())).then_some("in a header")
}

fn still_holds_a_sentinel(head: &Parts) -> bool {
    let holds = |bytes: &[u8]| MARK.find(bytes).is_some();
    holds(head.uri.path_and_query().map_or("", |path| path.as_str()).as_bytes())
        || head.headers.values().any(|value| holds(value.as_bytes()))
}

static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(SENTINEL_MARK));

#[cfg(test)]
mod tests;
