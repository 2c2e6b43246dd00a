//! Token host: where a provider gives tokens. One request, with the fences of any that leaves the house, and what came of it.

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
use serde::Deserialize;
use serde_json::Value;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::dial::Dialer;
use crate::host::Target;
use crate::tls::{self, UpstreamTlsFault};
use crate::vault::LoginConfig;
use crate::vault::login::Rotated;
use crate::vault::token::Claims;

/// Where a provider gives tokens, and as whom its agents ask. A client id is public.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TokenHost {
    target: Target,
    path: &'static str,
    client_id: &'static str,
}

/// How the host is reached.
#[derive(Clone, Copy)]
pub(crate) struct Reach<'a> {
    pub(crate) dialer: &'a Dialer,
    pub(crate) tls: &'a tls::Upstreams,
    /// `unsafe_refresh_dial` and `refresh_ca`.
    pub(crate) config: &'a LoginConfig,
}

/// What is asked: a path, a media type, and a body that is wiped once it is sent.
pub(crate) struct Asked {
    pub(crate) path: &'static str,
    pub(crate) media: &'static str,
    pub(crate) body: Zeroizing<String>,
}

/// What the host answered, read whole.
pub(crate) struct Heard {
    pub(crate) status: StatusCode,
    pub(crate) body: Zeroizing<Vec<u8>>,
}

struct Wiped(Zeroizing<String>);

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
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

impl TokenHost {
    /// `None` where the provider has keys only.
    pub(crate) fn of(provider: Provider) -> Option<Self> {
        let (authority, path, client_id) = match provider {
            Provider::Anthropic => ANTHROPIC,
            Provider::OpenaiCodex => OPENAI,
            Provider::Openai => return None,
        };
        Some(Self { target: Target::from_authority(authority, None).ok()?, path, client_id })
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// Where tokens are given.
    pub(crate) const fn path(&self) -> &'static str {
        self.path
    }

    pub(crate) const fn client_id(&self) -> &'static str {
        self.client_id
    }

    /// # Errors
    /// There is no answer, or none that can be read; says why, and names the host.
    pub(crate) async fn post(&self, reach: Reach<'_>, asked: Asked) -> Result<Heard, String> {
        let host = self.target.host();
        match tokio::time::timeout(DEADLINE, self.exchange(reach, asked)).await {
            Ok(heard) => heard.map_err(|said| format!("{host}: {said}")),
            Err(_) => Err(format!("{host}: no answer within {} s", DEADLINE.as_secs())),
        }
    }

    async fn exchange(&self, reach: Reach<'_>, asked: Asked) -> Result<Heard, String> {
        let Reach { dialer, tls, config } = reach;
        let Asked { path, media, body } = asked;
        let target = &self.target;
        let host = HeaderValue::try_from(target.host().to_string()).map_err(|error| error.to_string())?;
        let stream = dialer.dial(target, config.unsafe_refresh_dial).await.map_err(|fault| fault.to_string())?;
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
                tracing::debug!(%error, "the connection to a token host ended");
            }
        });
        let mut request = Request::new(Full::new(Bytes::from_owner(Wiped(body))));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(path);
        for (name, value) in [
            (HOST, host),
            (CONTENT_TYPE, HeaderValue::from_static(media)),
            (ACCEPT, HeaderValue::from_static(JSON)),
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
        Ok(Heard { status, body: Zeroizing::new(body.to_bytes().to_vec()) })
    }
}

impl Heard {
    /// The tokens that it gave, where it gave any.
    pub(crate) fn tokens(&self, now: Timestamp) -> Option<Rotated> {
        let told: Told<'_> = serde_json::from_slice(&self.body).ok()?;
        let after = |seconds: f64| {
            let seconds = Duration::try_from_secs_f64(seconds).ok()?;
            now.checked_add(SignedDuration::try_from(seconds).ok()?).ok()
        };
        // As agents do: what the token says of itself comes first.
        let expires = Claims::of(&told.access_token).expires.or_else(|| told.expires_in.and_then(after));
        // What was sent for them is spent: what came is kept, whatever it does not say.
        let expires = expires.or_else(|| now.checked_add(UNSAID_LIFE).ok())?;
        let refresh_expires = told.refresh_token_expires_in.and_then(after);
        let (refresh, id) = (told.refresh_token.as_deref(), told.id_token.as_deref());
        Rotated::of(&told.access_token, refresh, id, expires, refresh_expires)
    }

    /// The error of RFC 6749 §5.2, or of the providers' own forms; only what is a plain word.
    pub(crate) fn error_word(&self) -> Option<String> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let error = &body["error"];
        let word = [error, &error["code"], &error["type"]].into_iter().find_map(Value::as_str)?;
        let plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        (plain && (1..=64).contains(&word.len())).then(|| word.to_owned())
    }

    /// What it answered, in a few words and without anything that it wrote.
    pub(crate) fn summary(&self) -> String {
        let code = self.status.as_u16();
        self.error_word().map_or_else(|| format!("it answered {code}"), |word| format!("it answered {code} ({word})"))
    }
}

pub(crate) const JSON: &str = "application/json";
const ANTHROPIC: (&str, &str, &str) =
    ("platform.claude.com:443", "/v1/oauth/token", "9d1c250a-e61b-44d9-88ed-5944d1962f5e");
const OPENAI: (&str, &str, &str) = ("auth.openai.com:443", "/oauth/token", "app_EMoamEEZ73f0CkXaXp7hrann");
/// From the first packet to the last byte of the answer.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long an access token is believed in whose end nobody tells.
const UNSAID_LIFE: SignedDuration = SignedDuration::from_hours(1);
const LONGEST_ANSWER: usize = 256 * 1024;
