//! Chatgpt: a stand-in for a ChatGPT login's token, which agents read and will not take unless it is a whole JWT.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use box_spec::wire::{SENTINEL_ACCOUNT, SENTINEL_MARK};
use jiff::Timestamp;
use serde_json::json;

/// A JWT (RFC 7519) in the form of OpenAI's own, for both access and identity. It is a century from its end, so that
/// no agent thinks of refreshing it. Its third part is no signature but the sentinel's mark, in clear where a search finds it.
pub(super) fn token(random: &str, now: Timestamp) -> String {
    let issued = now.as_second();
    let header = json!({ "alg": "RS256", "typ": "JWT", "kid": "boxgate" });
    let payload = json!({
        "iss": "https://auth.openai.com",
        "aud": ["https://api.openai.com/v1"],
        "sub": "boxgate",
        "jti": random,
        "iat": issued,
        "nbf": issued,
        "exp": issued.saturating_add(CENTURY),
        "email": "box@boxgate.invalid",
        "https://api.openai.com/auth": {
            "chatgpt_account_id": SENTINEL_ACCOUNT,
            "chatgpt_plan_type": "pro",
            "chatgpt_user_id": "user-boxgate",
            "user_id": "user-boxgate",
        },
        "https://api.openai.com/profile": { "email": "box@boxgate.invalid", "email_verified": true },
    });
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    // 52 characters: a length that strict decoders take, with no bits left over.
    format!("{}.{}.{SENTINEL_MARK}-at-{random}", part(header), part(payload))
}

/// In seconds.
const CENTURY: i64 = 100 * 365 * 24 * 3600;

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use box_spec::wire::{SENTINEL_ACCOUNT, SENTINEL_MARK};
    use jiff::{SignedDuration, Timestamp};
    use uuid::Uuid;

    use super::token;
    use crate::vault::token::Claims;

    #[test]
    fn a_strict_reader_takes_it_and_finds_account_and_end() {
        let now = Timestamp::now();
        let token = token(&Uuid::new_v4().simple().to_string(), now);
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(parts.len(), 3);
        for part in &parts {
            let decoded = URL_SAFE_NO_PAD.decode(part).expect("strict base64url without padding");
            assert_eq!(URL_SAFE_NO_PAD.encode(decoded), **part, "no other text decodes to the same");
        }
        for part in &parts[..2] {
            let decoded = URL_SAFE_NO_PAD.decode(part).expect("decoded before");
            serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&decoded).expect("an object");
        }
        assert_eq!(parts[2].len() % 4, 0);
        assert!(parts[2].starts_with(SENTINEL_MARK));
        let claims = Claims::of(&token);
        assert_eq!(claims.account.as_ref().map(crate::vault::AccountId::as_str), Some(SENTINEL_ACCOUNT));
        assert!(claims.expires.expect("an end").duration_since(now) > SignedDuration::from_hours(99 * 365 * 24));
    }
}
