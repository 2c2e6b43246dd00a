//! Token: what a ChatGPT login says about itself, and the account that it acts for. Neither is secret, nor proof of anything.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
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
            account: payload.auth.get("chatgpt_account_id").and_then(|id| AccountId::parse(id.as_str()?).ok()),
            expires: numeric_date(&payload.exp),
        })
    }
}

/// Each claim is read by itself: one of an odd type is not there, and hides no other.
#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    exp: Value,
    #[serde(default, rename = "https://api.openai.com/auth")]
    auth: Value,
}

/// Seconds since the epoch, which need not be whole (RFC 7519 §2).
fn numeric_date(claim: &Value) -> Option<Timestamp> {
    match claim.as_i64() {
        Some(seconds) => Timestamp::from_second(seconds).ok(),
        None => Timestamp::from_duration(SignedDuration::try_from_secs_f64(claim.as_f64()?).ok()?).ok(),
    }
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
    fn a_claim_of_an_odd_type_is_not_there_and_hides_no_other() {
        let account = r#"{"chatgpt_account_id":"acc-1"}"#;
        let whole = Timestamp::from_second(1_800_000_000).ok();
        let half = Timestamp::from_millisecond(1_800_000_000_500).ok();
        for (exp, auth, expires, is_named) in [
            ("1800000000.5", account, half, true),
            ("1.8e9", account, whole, true),
            ("\"1800000000\"", account, None, true),
            ("1e300", account, None, true),
            ("[1800000000]", account, None, true),
            ("null", account, None, true),
            ("-377705023201", account, Some(Timestamp::MIN), true),
            ("1800000000", "\"acc-1\"", whole, false),
            ("1800000000", "[[\"acc-1\"]]", whole, false),
            ("1800000000", r#"{"chatgpt_account_id":7}"#, whole, false),
            ("1800000000", r#"{"chatgpt_account_id":["acc-1"]}"#, whole, false),
            ("1800000000", r#"{"chatgpt_account_id":{"id":"acc-1"}}"#, whole, false),
        ] {
            let payload = format!(r#"{{"exp":{exp},"https://api.openai.com/auth":{auth}}}"#);
            let claims = Claims::of(&format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(&payload)));
            assert_eq!((claims.expires, claims.account.is_some()), (expires, is_named), "{payload}");
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
