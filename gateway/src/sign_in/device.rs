//! Device: a code that is shown here and typed in a browser anywhere. OpenAI's own form of it, which is not RFC 8628's.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use crate::token_host::{Asked, Heard, JSON};

use super::form::{member, urlencoded};
use super::{Given, Provider, SignInFault, refused};

/// A sign-in at OpenAI that has begun: its code waits to be typed.
pub struct Begun {
    id: String,
    code: String,
    /// Between two questions whether it was typed.
    pause: Duration,
    until: Instant,
}

impl Begun {
    /// Asks for a code.
    ///
    /// # Errors
    /// The provider gives none.
    pub async fn new(provider: &Provider<'_>) -> Result<Self, SignInFault> {
        let body = json!({ "client_id": provider.host.client_id() }).to_string();
        let heard = provider.ask(Asked { path: ASK, media: JSON, body: Zeroizing::new(body) }).await?;
        if heard.status == StatusCode::NOT_FOUND {
            return Err(SignInFault::NoDeviceCode);
        }
        if !heard.status.is_success() {
            return Err(refused(&heard));
        }
        let text = |name: &str| member(&heard.body, name).filter(|text| text.len() <= 256);
        let (Some(id), Some(code)) = (text("device_auth_id"), text("user_code")) else {
            return Err(SignInFault::Unclear("it gave no code".to_owned()));
        };
        Ok(Self { id, code, pause: pause(&heard), until: Instant::now() + LIFE })
    }

    /// Where the code is typed.
    #[must_use]
    pub const fn address(&self) -> &'static str {
        PAGE
    }

    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Waits until the code was typed and the login allowed, and takes the tokens.
    ///
    /// # Errors
    /// It was refused, or took too long.
    pub async fn finish(self, provider: &Provider<'_>) -> Result<Given, SignInFault> {
        let heard = self.allowed(provider).await?;
        let part = |name: &str| {
            let text = member(&heard.body, name).map(Zeroizing::new);
            text.ok_or_else(|| SignInFault::Unclear(format!("it gave no {name}")))
        };
        let body = urlencoded(&[
            ("grant_type", "authorization_code"),
            ("client_id", provider.host.client_id()),
            ("code", &part("authorization_code")?),
            ("code_verifier", &part("code_verifier")?),
            ("redirect_uri", REDIRECT),
        ]);
        provider.exchange(Asked { path: provider.host.path(), media: URLENCODED, body }).await
    }

    async fn allowed(&self, provider: &Provider<'_>) -> Result<Heard, SignInFault> {
        let mut pause = self.pause;
        let mut failures = 0;
        let body = json!({ "device_auth_id": self.id, "user_code": self.code }).to_string();
        loop {
            if Instant::now() + pause > self.until {
                return Err(SignInFault::Expired(format!("nobody typed it within {} minutes", LIFE.as_secs() / 60)));
            }
            sleep(pause).await;
            let asked = Asked { path: POLL, media: JSON, body: Zeroizing::new(body.clone()) };
            match provider.ask(asked).await.map(Said::of) {
                Ok(Said::Allowed(heard)) => return Ok(heard),
                Ok(Said::Pending) => failures = 0,
                Ok(Said::Slower) => pause += SLOWER,
                Ok(Said::Refused(fault)) => return Err(fault),
                // Nothing is spent by asking again.
                Err(fault) => {
                    failures += 1;
                    if failures == FAILURES {
                        return Err(fault);
                    }
                }
            }
        }
    }
}

/// What the provider says while the code may not have been typed yet.
enum Said {
    Allowed(Heard),
    Pending,
    Slower,
    Refused(SignInFault),
}

impl Said {
    fn of(heard: Heard) -> Self {
        if heard.status.is_success() {
            return Self::Allowed(heard);
        }
        match heard.error_word().as_deref() {
            Some("slow_down") => Self::Slower,
            Some("access_denied" | "authorization_denied" | "expired_token") => Self::Refused(refused(&heard)),
            Some("deviceauth_authorization_pending" | "authorization_pending") => Self::Pending,
            // The provider says so of a code that nobody has typed.
            _ if matches!(heard.status, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND) => Self::Pending,
            _ => Self::Refused(refused(&heard)),
        }
    }
}

/// `interval`, a number of seconds or a text of one; RFC 8628 §3.5 where it is not told.
fn pause(heard: &Heard) -> Duration {
    let body: Value = serde_json::from_slice(&heard.body).unwrap_or_default();
    let told = &body["interval"];
    let seconds = told.as_f64().or_else(|| told.as_str()?.trim().parse().ok());
    let pause = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    pause.unwrap_or(USUAL).clamp(SHORTEST, LONGEST)
}

/// These are what OpenAI's own agents ask, send and show.
const ASK: &str = "/api/accounts/deviceauth/usercode";
const POLL: &str = "/api/accounts/deviceauth/token";
const PAGE: &str = "https://auth.openai.com/codex/device";
const REDIRECT: &str = "https://auth.openai.com/deviceauth/callback";
const URLENCODED: &str = "application/x-www-form-urlencoded";
/// How long a code is waited for.
const LIFE: Duration = Duration::from_mins(15);
const USUAL: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// RFC 8628 §3.5.
const SLOWER: Duration = Duration::from_secs(5);
/// So many questions in a row may stay without an answer.
const FAILURES: u32 = 3;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;
    use zeroize::Zeroizing;

    use super::super::SignInFault;
    use super::{Heard, Said, pause};

    fn heard(status: u16, body: &str) -> Heard {
        let status = StatusCode::from_u16(status).expect("a status");
        Heard { status, body: Zeroizing::new(body.as_bytes().to_vec()) }
    }

    #[test]
    fn a_code_that_nobody_typed_is_waited_for_and_a_refusal_is_not() {
        for (status, body) in [
            (403, ""),
            (404, "<html>"),
            (400, r#"{"error":{"code":"deviceauth_authorization_pending"}}"#),
            (400, r#"{"error":"authorization_pending"}"#),
        ] {
            assert!(matches!(Said::of(heard(status, body)), Said::Pending), "{status} {body}");
        }
        assert!(matches!(Said::of(heard(429, r#"{"error":"slow_down"}"#)), Said::Slower));
        assert!(matches!(Said::of(heard(200, "{}")), Said::Allowed(_)));
        let refused = |status, body| match Said::of(heard(status, body)) {
            Said::Refused(fault) => fault,
            _ => panic!("not refused: {status} {body}"),
        };
        assert!(matches!(refused(403, r#"{"error":"access_denied"}"#), SignInFault::Denied(_)));
        assert!(matches!(refused(400, r#"{"error":"expired_token"}"#), SignInFault::Expired(_)));
        assert!(matches!(refused(503, ""), SignInFault::Unreachable(_)));
        assert!(matches!(refused(400, "x"), SignInFault::Unclear(_)));
    }

    #[test]
    fn the_pause_is_what_was_told_within_bounds() {
        for (body, seconds) in [
            (r#"{"interval":7}"#, 7),
            (r#"{"interval":" 8 "}"#, 8),
            (r#"{"interval":0}"#, 1),
            (r#"{"interval":1e9}"#, 60),
            (r#"{"interval":-1}"#, 5),
            (r#"{"interval":"soon"}"#, 5),
            ("{}", 5),
            ("", 5),
        ] {
            assert_eq!(pause(&heard(200, body)), Duration::from_secs(seconds), "{body}");
        }
    }
}
