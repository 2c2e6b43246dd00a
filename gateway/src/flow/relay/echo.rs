//! Echo: an answer from where a credential was put in. It must be readable, and its head is cleared of what the box must not
//! have; the watch goes on with the body.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{CONTENT_ENCODING, SET_COOKIE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use hyper::body::{Body, Incoming};
use hyper::ext::ReasonPhrase;

use crate::echo::Needles;
use crate::flow::inject::Outbound;
use crate::host::Target;
use crate::policy::GrantName;
use crate::refusal::{Reason, Refusal};

/// What is watched for in one answer, and where it comes from.
#[derive(Clone, Debug)]
pub struct Watch {
    pub needles: Arc<Needles>,
    pub target: Target,
    pub grant: GrantName,
    /// How many were blotted out of the head, and of what came before it.
    pub in_heads: Arc<AtomicU64>,
}

impl Watch {
    pub(super) fn of(outbound: &Outbound) -> Option<Self> {
        let needles = Arc::clone(outbound.needles()?);
        let (target, grant) = (outbound.target().clone(), outbound.grant().name.clone());
        Some(Self { needles, target, grant, in_heads: Arc::default() })
    }

    /// Clears the head of an answer.
    ///
    /// # Errors
    /// The answer is packed, although it was asked not to be: it cannot be looked through.
    pub(super) fn look_at(&self, response: &mut Response<Incoming>) -> Result<(), Refusal> {
        if !response.body().is_end_stream() && is_packed(response.headers()) {
            return Err(Refusal::new(
                Reason::UpstreamFailed,
                "the host answered in a coding that was not asked for",
                "a packed answer to an injected credential: it cannot be looked through",
            ));
        }
        let phrase = response.extensions().get::<ReasonPhrase>();
        if phrase.is_some_and(|phrase| self.needles.are_in(phrase.as_bytes())) {
            response.extensions_mut().remove::<ReasonPhrase>();
            self.in_heads.fetch_add(1, Ordering::Relaxed);
        }
        self.clear(response.headers_mut());
        Ok(())
    }

    /// Removes from a head, or from trailers, what gives a credential of its own, and blots out every echo.
    pub fn clear(&self, headers: &mut HeaderMap) {
        for name in GIVING {
            headers.remove(name);
        }
        self.blot(headers);
    }

    /// A field with one in its name goes altogether.
    fn blot(&self, headers: &mut HeaderMap) {
        let named: Vec<HeaderName> =
            headers.keys().filter(|name| self.needles.are_in_folded(name.as_str().as_bytes())).cloned().collect();
        for name in named {
            headers.remove(name);
            self.in_heads.fetch_add(1, Ordering::Relaxed);
        }
        for value in headers.values_mut().filter(|value| self.needles.are_in(value.as_bytes())) {
            let mut bytes = value.as_bytes().to_vec();
            self.in_heads.fetch_add(self.needles.blot(&mut bytes), Ordering::Relaxed);
            // What was a value is one with stars in it.
            *value = HeaderValue::from_bytes(&bytes).unwrap_or_else(|_| HeaderValue::from_static("***"));
        }
    }
}

/// A coding of the content, or of the transfer besides the one that hyper took away.
fn is_packed(headers: &HeaderMap) -> bool {
    let names = |name: &HeaderName, plain: &str| {
        let values = headers.get_all(name).into_iter();
        values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).any(|coding| {
            let coding = coding.trim_ascii();
            !coding.is_empty() && !coding.eq_ignore_ascii_case(plain.as_bytes())
        })
    };
    names(&CONTENT_ENCODING, "identity") || names(&TRANSFER_ENCODING, "chunked")
}

/// A cookie or a token of the account's own is worth as much as the credential that it was given for, and `Alt-Svc` leads to
/// where nobody looks. The box has no use for them: what it sends of them is taken out.
const GIVING: [HeaderName; 4] = [
    SET_COOKIE,
    HeaderName::from_static("set-cookie2"),
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("alt-svc"),
];
