//! The exchange of a refresh token (RFC 6749 §6), in the form that the provider's own agents use.

use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::token_host::{Asked, Heard, JSON, Reach, TokenHost};
use crate::vault::login::{Attempt, Rotated};

/// A request that is about to be sent.
pub(super) struct Posting {
    host: TokenHost,
    asked: Asked,
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

#[derive(Serialize)]
struct Ask<'a> {
    grant_type: &'static str,
    refresh_token: &'a str,
    client_id: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
}

impl Posting {
    pub(super) fn new(host: TokenHost, attempt: &Attempt) -> Self {
        let ask = Ask {
            grant_type: "refresh_token",
            refresh_token: attempt.refresh.expose(),
            client_id: host.client_id(),
            scope: attempt.scopes.as_deref(),
        };
        let body = Zeroizing::new(serde_json::to_string(&ask).unwrap_or_default());
        Self { asked: Asked { path: host.path(), media: JSON, body }, host }
    }

    /// # Errors
    /// There is no answer, or none that can be read; says why.
    pub(super) async fn send(self, reach: Reach<'_>) -> Result<Answer, String> {
        let Self { host, asked } = self;
        host.post(reach, asked).await.map(|heard| Answer::read(&heard, Timestamp::now()))
    }
}

impl Answer {
    fn read(heard: &Heard, now: Timestamp) -> Self {
        let status = heard.status.as_u16();
        if heard.status == StatusCode::OK {
            return heard.tokens(now).map_or_else(
                || Self::Unclear { status, said: "it answered 200 without tokens and their end".to_owned() },
                Self::Given,
            );
        }
        match heard.error_word() {
            Some(said) if FINAL.contains(&said.as_str()) && heard.status.is_client_error() => {
                Self::Refused { status, said }
            }
            _ => Self::Unclear { status, said: heard.summary() },
        }
    }
}

/// The words by which a provider says that a refresh token is done with: RFC 6749 §5.2, and OpenAI's own.
const FINAL: [&str; 4] =
    ["invalid_grant", "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated"];

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use jiff::Timestamp;
    use zeroize::Zeroizing;

    use super::{Answer, Attempt, Heard, Posting, TokenHost};
    use crate::vault::credential::SecretText;
    use crate::vault::login::Rotated;

    fn read(status: u16, body: &str) -> Answer {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let status = StatusCode::from_u16(status).expect("a status");
        Answer::read(&Heard { status, body: Zeroizing::new(body.as_bytes().to_vec()) }, now)
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
        let anthropic = TokenHost::of(box_spec::Provider::Anthropic).expect("a token host");
        assert_eq!(
            *Posting::new(anthropic, &attempt(Some("user:inference user:profile"))).asked.body,
            r#"{"grant_type":"refresh_token","refresh_token":"rt","client_id":"9d1c250a-e61b-44d9-88ed-5944d1962f5e","scope":"user:inference user:profile"}"#
        );
        let openai = TokenHost::of(box_spec::Provider::OpenaiCodex).expect("a token host");
        assert_eq!((openai.target().to_string().as_str(), openai.path()), ("auth.openai.com:443", "/oauth/token"));
        assert_eq!(
            *Posting::new(openai, &attempt(None)).asked.body,
            r#"{"grant_type":"refresh_token","refresh_token":"rt","client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}"#
        );
    }
}
