//! Token: what a ChatGPT login says about itself, and the account that it acts for. Neither is secret, nor proof of anything.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use serde::Deserialize;
use zeroize::Zeroizing;

/// The ChatGPT account that a login acts for: what `chatgpt-account-id` says. No secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountId(String);

/// A text that names no account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an account id is 1 to {LONGEST_ACCOUNT} visible ASCII characters")]
pub struct AccountFault;

/// The claims of an access token that matter here. An opaque token claims nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Claims {
    pub account: Option<AccountId>,
    /// When the token ceases to be valid (RFC 7519 §4.1.4).
    pub expires: Option<Timestamp>,
}

impl AccountId {
    /// # Errors
    /// It is empty, too long, or no whole header value.
    pub fn parse(text: &str) -> Result<Self, AccountFault> {
        let fits = (1..=LONGEST_ACCOUNT).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(AccountFault) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Claims {
    /// Reads the second part of a JWT (RFC 7519 §3). Its signature is the provider's to check.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self::read(token).unwrap_or_default()
    }

    fn read(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return None;
        };
        let payload = Zeroizing::new(LENIENT.decode(payload).ok()?);
        let payload: Payload = serde_json::from_slice(&payload).ok()?;
        Some(Self {
            account: payload.auth.and_then(|auth| AccountId::parse(&auth.chatgpt_account_id?).ok()),
            expires: payload.exp.and_then(|seconds| Timestamp::from_second(seconds).ok()),
        })
    }
}

#[derive(Deserialize)]
struct Payload {
    exp: Option<i64>,
    #[serde(rename = "https://api.openai.com/auth")]
    auth: Option<Auth>,
}

#[derive(Deserialize)]
struct Auth {
    chatgpt_account_id: Option<String>,
}

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
const LONGEST_ACCOUNT: usize = 128;

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
    use jiff::Timestamp;

    use super::{AccountId, Claims};

    #[test]
    fn a_jwt_tells_its_account_and_its_end() {
        let payload = r#"{"exp":1800000000,"https://api.openai.com/auth":{"chatgpt_account_id":"acc-1","x":1},"y":[]}"#;
        for encoded in [URL_SAFE_NO_PAD.encode(payload), URL_SAFE.encode(payload)] {
            let claims = Claims::of(&format!("e30.{encoded}.c2ln"));
            assert_eq!(claims.account.as_ref().map(AccountId::as_str), Some("acc-1"));
            assert_eq!(claims.expires, Timestamp::from_second(1_800_000_000).ok());
        }
    }

    #[test]
    fn what_is_no_such_token_tells_nothing() {
        let part = |payload: &str| URL_SAFE_NO_PAD.encode(payload);
        for token in [
            "opaque".to_owned(),
            "a.b".to_owned(),
            "a.%%.c".to_owned(),
            format!("e30.{}.c2ln", part("no json")),
            format!("e30.{}.c2ln", part("[]")),
            format!("e30.{}.c2ln", part("{}")),
            format!("e30.{}.c2ln.x", part(r#"{"exp":1800000000}"#)),
            format!("e30.{}.c2ln", part(r#"{"https://api.openai.com/auth":{}}"#)),
            format!("e30.{}.c2ln", part(r#"{"https://api.openai.com/auth":{"chatgpt_account_id":"a b"}}"#)),
        ] {
            assert_eq!(Claims::of(&token), Claims::default(), "{token}");
        }
    }

    #[test]
    fn an_account_id_is_a_whole_header_value() {
        for good in ["a", "00000000-0000-4000-8000-000000000000", &"a".repeat(128)] {
            assert!(AccountId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a\r\nx: y", "é", &"a".repeat(129)] {
            assert!(AccountId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
