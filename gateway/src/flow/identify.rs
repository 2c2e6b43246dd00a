//! Identify: who is knocking. The door says which box, the run token says which run.

use std::sync::Arc;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{GeneralPurposeConfig, PAD};
use box_spec::wire::{CLAIM_PATH, HEALTH_PATH};
use box_spec::{BoxId, RunToken};
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, Method, Request};

use crate::refusal::{Reason, Refusal, Told};
use crate::runs::{Run, Runs};

/// The box and run that a connection belongs to. Made only here, from a token that the registry knows.
#[derive(Clone, Debug)]
pub struct Caller {
    run: Arc<Run>,
}

/// A request at the door, told apart.
pub enum Knock {
    /// `GET /healthz`: the house's identity, for anyone.
    Health,
    /// `POST /claim`, from somebody who has no run yet.
    Claim,
    Caller(Caller),
    /// No token, or none that is known: both hear the same.
    Nobody(Told),
}

impl Caller {
    #[must_use]
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    #[must_use]
    pub fn box_id(&self) -> &BoxId {
        &self.run.box_id
    }
}

/// Tells apart who knocks. A request that carries proxy credentials is never taken for a claim.
pub fn knock<B>(runs: &Runs, box_id: &BoxId, request: &Request<B>) -> Knock {
    if !request.headers().contains_key(PROXY_AUTHORIZATION) && request.uri().authority().is_none() {
        match (request.method(), request.uri().path()) {
            (&Method::GET, HEALTH_PATH) => return Knock::Health,
            (&Method::POST, CLAIM_PATH) => return Knock::Claim,
            _ => {}
        }
    }
    match token(request.headers()).and_then(|token| runs.caller(box_id, &token)) {
        Some(run) => Knock::Caller(Caller { run }),
        None => Knock::Nobody(nobody(box_id)),
    }
}

/// The run token of `Proxy-Authorization: Basic` (RFC 7617 §2): the user name alone counts. Anything that is not
/// exactly one well-formed field of that kind is no token.
fn token(headers: &HeaderMap) -> Option<RunToken> {
    let mut fields = headers.get_all(PROXY_AUTHORIZATION).into_iter();
    let field = fields.next()?;
    if fields.next().is_some() {
        return None;
    }
    let (scheme, credentials) = field.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASIC.decode(credentials.trim_matches(' ')).ok()?;
    let text = std::str::from_utf8(&decoded).ok()?;
    let (user, _password) = text.split_once(':')?;
    user.parse().ok()
}

fn nobody(box_id: &BoxId) -> Told {
    Told::new(
        None,
        Refusal::new(
            Reason::NoRunToken,
            "a run token is needed here",
            format!("no run of box {box_id} has the token that was shown, if any was"),
        ),
    )
}

const BASIC: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, {
    let config: GeneralPurposeConfig = PAD;
    config.with_decode_padding_mode(DecodePaddingMode::Indifferent)
});

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests repeat a header on purpose")]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::token;

    const TOKEN: &str = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab";

    fn of(fields: &[&[u8]]) -> bool {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append("proxy-authorization", HeaderValue::from_bytes(field).expect("a field"));
        }
        token(&headers).is_some()
    }

    fn basic(user_and_password: &str) -> String {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(user_and_password)
    }

    #[test]
    fn a_token_is_the_user_name_of_one_basic_field() {
        let good = basic(&format!("{TOKEN}:x"));
        let unpadded = good.trim_end_matches('=').to_owned();
        for field in [
            format!("Basic {good}"),
            format!("basic {good}"),
            format!("BASIC   {good}"),
            format!("Basic {}", basic(&format!("{TOKEN}:"))),
            format!("Basic {}", basic(&format!("{TOKEN}:a:b"))),
            format!("Basic {unpadded}"),
        ] {
            assert!(of(&[field.as_bytes()]), "{field}");
        }
    }

    #[test]
    fn everything_else_is_nobody() {
        let good = format!("Basic {}", basic(&format!("{TOKEN}:x")));
        let upper = basic(&format!("{}:x", TOKEN.to_uppercase()));
        assert!(!of(&[]));
        assert!(!of(&[good.as_bytes(), good.as_bytes()]), "two fields");
        for field in [
            format!("Bearer {TOKEN}"),
            format!("Basic {TOKEN}"),
            format!("Basic {}", basic(TOKEN)),
            format!("Basic {}", basic(":x")),
            "Basic :".to_owned(),
            "Basic".to_owned(),
            String::new(),
            format!("Basic {}", basic("/etc/passwd:x")),
            format!("Basic {}", basic("../../x:x")),
            format!("Basic {upper}"),
        ] {
            assert!(!of(&[field.as_bytes()]), "{field}");
        }
        assert!(!of(&[b"Basic \xff\xfe"]), "no text");
        assert!(
            !of(&[format!("Basic {}", {
                use base64::Engine;
                base64::engine::general_purpose::STANDARD.encode(b"\xff\xfe:x")
            })
            .as_bytes()]),
            "no text inside"
        );
    }
}
