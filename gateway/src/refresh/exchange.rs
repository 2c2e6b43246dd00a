//! The exchange with a provider's token endpoint (RFC 6749 §6), in the form that the provider's own agents use.

use std::borrow::Cow;
use std::time::Duration;

use box_spec::Provider;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::dial::Dialer;
use crate::host::Target;
use crate::tls::{self, UpstreamTlsFault};
use crate::vault::LoginConfig;
use crate::vault::login::{Attempt, Rotated};
use crate::vault::token::Claims;

/// Where a provider refreshes logins, and as whom its agents ask. A client id is public.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Endpoint {
    target: Target,
    path: &'static str,
    client_id: &'static str,
}

/// A request that is about to be sent.
pub(super) struct Posting {
    endpoint: Endpoint,
    body: Zeroizing<String>,
}

/// What the provider said.
#[derive(Debug)]
pub(super) enum Answer {
    Given(Rotated),
    /// This refresh token is good for nothing any more.
    Refused {
        status: u16,
        said: String,
    },
    /// Neither: it may work another time.
    Unclear {
        status: u16,
        said: String,
    },
}

/// A body that is wiped when it is sent.
struct Wiped(Zeroizing<String>);

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[derive(Serialize)]
struct Ask<'a> {
    grant_type: &'static str,
    refresh_token: &'a str,
    client_id: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
}

/// RFC 6749 §5.1, and OpenID Connect's id_token.
#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    access_token: Cow<'a, str>,
    #[serde(borrow)]
    refresh_token: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id_token: Option<Cow<'a, str>>,
    expires_in: Option<f64>,
    refresh_token_expires_in: Option<f64>,
}

impl Endpoint {
    /// `None` where the provider has keys only.
    pub(super) fn of(provider: Provider) -> Option<Self> {
        let (authority, path, client_id) = match provider {
            Provider::Anthropic => ANTHROPIC,
            Provider::OpenaiCodex => OPENAI,
            Provider::Openai => return None,
        };
        Some(Self { target: Target::from_authority(authority, None).ok()?, path, client_id })
    }

    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    pub(super) const fn path(&self) -> &'static str {
        self.path
    }
}

impl Posting {
    pub(super) fn new(endpoint: Endpoint, attempt: &Attempt) -> Self {
        let ask = Ask {
            grant_type: "refresh_token",
            refresh_token: attempt.refresh.expose(),
            client_id: endpoint.client_id,
            scope: attempt.scopes.as_deref(),
        };
        Self { endpoint, body: Zeroizing::new(serde_json::to_string(&ask).unwrap_or_default()) }
    }

    /// # Errors
    /// There is no answer, or none that can be read; says why.
    pub(super) async fn send(
        self,
        dialer: &Dialer,
        tls: &tls::Upstreams,
        config: &LoginConfig,
    ) -> Result<Answer, String> {
        let host = self.endpoint.target.host().to_string();
        let exchange = tokio::time::timeout(DEADLINE, self.exchange(dialer, tls, config));
        match exchange.await {
            Ok(answered) => answered.map_err(|said| format!("{host}: {said}")),
            Err(_) => Err(format!("{host}: no answer within {} s", DEADLINE.as_secs())),
        }
    }

    async fn exchange(self, dialer: &Dialer, tls: &tls::Upstreams, config: &LoginConfig) -> Result<Answer, String> {
        let Self { endpoint, body } = self;
        let Endpoint { target, path, client_id: _ } = endpoint;
        let host = HeaderValue::try_from(target.host().to_string()).map_err(|error| error.to_string())?;
        let stream = dialer.dial(&target, config.unsafe_refresh_dial).await.map_err(|fault| fault.to_string())?;
        let connector = TlsConnector::from(tls.client_config(config.refresh_ca.as_ref()));
        let stream = connector
            .connect(target.host().server_name(), stream)
            .await
            .map_err(|error| UpstreamTlsFault::classify(&error).to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // It ends with the sender.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to a token endpoint ended");
            }
        });
        let mut request = Request::new(Full::new(Bytes::from_owner(Wiped(body))));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(path);
        for (name, value) in [
            (HOST, host),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static("application/json")),
            (USER_AGENT, HeaderValue::from_static(concat!("boxgate/", env!("CARGO_PKG_VERSION")))),
        ] {
            request.headers_mut().insert(name, value);
        }
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER)
            .collect()
            .await
            .map_err(|error| format!("its answer broke off or is too long: {error}"))?;
        Ok(Answer::read(status, &Zeroizing::new(body.to_bytes().to_vec()), Timestamp::now()))
    }
}

impl Answer {
    fn read(status: StatusCode, body: &[u8], now: Timestamp) -> Self {
        let code = status.as_u16();
        let unclear = |said: String| Self::Unclear { status: code, said };
        if status == StatusCode::OK {
            return match serde_json::from_slice(body).ok().and_then(|told| rotated(&told, now)) {
                Some(rotated) => Self::Given(rotated),
                None => unclear("it answered 200 without tokens and their end".to_owned()),
            };
        }
        match error_word(body) {
            Some(said) if FINAL.contains(&said.as_str()) && status.is_client_error() => {
                Self::Refused { status: code, said }
            }
            Some(said) => unclear(format!("it answered {code} ({said})")),
            None => unclear(format!("it answered {code}")),
        }
    }
}

fn rotated(told: &Told<'_>, now: Timestamp) -> Option<Rotated> {
    let after = |seconds: f64| {
        let seconds = Duration::try_from_secs_f64(seconds).ok()?;
        now.checked_add(SignedDuration::try_from(seconds).ok()?).ok()
    };
    // As agents do: what the token says of itself comes first.
    let expires = Claims::of(&told.access_token).expires.or_else(|| told.expires_in.and_then(after));
    // The old refresh token is spent: what came for it is kept, whatever it does not say.
    let expires = expires.or_else(|| now.checked_add(UNSAID_LIFE).ok())?;
    let refresh_expires = told.refresh_token_expires_in.and_then(after);
    let (refresh, id) = (told.refresh_token.as_deref(), told.id_token.as_deref());
    Rotated::of(&told.access_token, refresh, id, expires, refresh_expires)
}

/// The error of RFC 6749 §5.2, or of the providers' own forms; only what is a plain word.
fn error_word(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = &body["error"];
    let word = [error, &error["code"], &error["type"]].into_iter().find_map(Value::as_str)?;
    let plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    (plain && (1..=64).contains(&word.len())).then(|| word.to_owned())
}

const ANTHROPIC: (&str, &str, &str) =
    ("platform.claude.com:443", "/v1/oauth/token", "9d1c250a-e61b-44d9-88ed-5944d1962f5e");
const OPENAI: (&str, &str, &str) = ("auth.openai.com:443", "/oauth/token", "app_EMoamEEZ73f0CkXaXp7hrann");
/// The words by which a provider says that a refresh token is done with: RFC 6749 §5.2, and OpenAI's own.
const FINAL: [&str; 4] =
    ["invalid_grant", "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated"];
/// From the first packet to the last byte of the answer.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long an access token is believed in whose end nobody tells.
const UNSAID_LIFE: SignedDuration = SignedDuration::from_hours(1);
const LONGEST_ANSWER: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use jiff::Timestamp;

    use super::{Answer, Attempt, Endpoint, Posting};
    use crate::vault::credential::SecretText;
    use crate::vault::login::Rotated;

    fn read(status: u16, body: &str) -> Answer {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        Answer::read(StatusCode::from_u16(status).expect("a status"), body.as_bytes(), now)
    }

    #[test]
    fn only_a_whole_answer_gives_tokens() {
        let whole = r#"{"access_token":"a","refresh_token":"r","expires_in":3600,"refresh_token_expires_in":7200}"#;
        let Answer::Given(Rotated { access, refresh, id_token, expires, refresh_expires }) = read(200, whole) else {
            panic!("no tokens");
        };
        assert_eq!((access.expose(), refresh.as_ref().map(SecretText::expose)), ("a", Some("r")));
        assert!(id_token.is_none());
        assert_eq!(expires.as_second(), 1_800_003_600);
        assert_eq!(refresh_expires.map(Timestamp::as_second), Some(1_800_007_200));
        for broken in [
            "",
            "{}",
            r#"{"access_token":"","expires_in":1}"#,
            r#"{"access_token":"a b","expires_in":1}"#,
            r#"{"access_token":"a","refresh_token":"r s","expires_in":1}"#,
        ] {
            assert!(matches!(read(200, broken), Answer::Unclear { status: 200, .. }), "{broken}");
        }
    }

    #[test]
    fn what_came_for_a_spent_token_is_kept_whatever_it_does_not_say() {
        for odd in [
            r#"{"access_token":"a"}"#,
            r#"{"access_token":"a","expires_in":-1}"#,
            r#"{"access_token":"a","expires_in":1e300}"#,
            r#"{"access_token":"a","refresh_token":"r","id_token":"x y"}"#,
        ] {
            let Answer::Given(Rotated { id_token, expires, .. }) = read(200, odd) else { panic!("lost: {odd}") };
            assert_eq!((id_token.is_none(), expires.as_second()), (true, 1_800_003_600), "{odd}");
        }
    }

    #[test]
    fn only_the_providers_final_word_breaks_a_chain() {
        for (status, body, word) in [
            (400, r#"{"error":"invalid_grant","error_description":"x"}"#, "invalid_grant"),
            (401, r#"{"error":{"message":"m","code":"refresh_token_reused"}}"#, "refresh_token_reused"),
            (400, r#"{"type":"error","error":{"type":"invalid_grant"}}"#, "invalid_grant"),
        ] {
            assert!(matches!(read(status, body), Answer::Refused { said, .. } if said == word), "{body}");
        }
        for (status, body) in [
            (400, r#"{"error":"invalid_request"}"#),
            (400, "no json"),
            (429, r#"{"error":{"type":"rate_limit_error"}}"#),
            (403, "<html>"),
            (503, r#"{"error":"invalid_grant"}"#),
            (302, ""),
        ] {
            assert!(matches!(read(status, body), Answer::Unclear { .. }), "{status} {body}");
        }
        let Answer::Unclear { said, .. } = read(400, r#"{"error":"rt-SECRET echoed"}"#) else { panic!("not unclear") };
        assert_eq!(said, "it answered 400");
    }

    #[test]
    fn the_body_is_what_the_providers_own_agents_send() {
        let attempt =
            |scopes: Option<&str>| Attempt { refresh: SecretText::for_test("rt"), scopes: scopes.map(str::to_owned) };
        let anthropic = Endpoint::of(box_spec::Provider::Anthropic).expect("an endpoint");
        assert_eq!(
            *Posting::new(anthropic, &attempt(Some("user:inference user:profile"))).body,
            r#"{"grant_type":"refresh_token","refresh_token":"rt","client_id":"9d1c250a-e61b-44d9-88ed-5944d1962f5e","scope":"user:inference user:profile"}"#
        );
        let openai = Endpoint::of(box_spec::Provider::OpenaiCodex).expect("an endpoint");
        assert_eq!((openai.target().to_string().as_str(), openai.path()), ("auth.openai.com:443", "/oauth/token"));
        assert_eq!(
            *Posting::new(openai, &attempt(None)).body,
            r#"{"grant_type":"refresh_token","refresh_token":"rt","client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}"#
        );
    }
}
