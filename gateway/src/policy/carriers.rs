//! Where a credential can travel in a request: every place that is emptied before the real one is set.

use std::borrow::Cow;

use http::HeaderName;

/// Whether a header carries a credential. Takes any case, and `_` for `-`: some servers fold one into the other.
#[must_use]
pub fn header_carries_credential(name: &HeaderName) -> bool {
    let name = folded_header(name);
    HEADERS.contains(&&*name) || HEADER_ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a key of the query carries a credential, alone or as the name of a list (`key[]`). The key is given decoded,
/// but for a `+` that stands for a blank.
#[must_use]
pub fn query_key_carries_credential(key: &str) -> bool {
    let name = key.split('[').next().unwrap_or_default();
    let key = folded(name.trim_matches(['+', ' ']));
    QUERY_KEYS.contains(&&*key) || HEADERS.contains(&&*key) || HEADER_ENDS.iter().any(|end| key.ends_with(end))
}

/// Whether one item of `Sec-WebSocket-Protocol` carries a credential: browsers cannot set headers, so APIs hide keys there.
#[must_use]
pub fn protocol_carries_credential(item: &str) -> bool {
    let item = item.trim().to_ascii_lowercase();
    PROTOCOL_MARKS.iter().any(|mark| item.starts_with(mark)) || PROTOCOL_PARTS.iter().any(|part| item.contains(part))
}

/// A header's name in the form that all its spellings share. It is in lower case already.
#[must_use]
pub fn folded_header(name: &HeaderName) -> Cow<'_, str> {
    let name = name.as_str();
    if name.as_bytes().contains(&b'_') { Cow::Owned(name.replace('_', "-")) } else { Cow::Borrowed(name) }
}

/// A name of a header or key in the one form that all its spellings share: lower case, and `-` for `_`.
#[must_use]
pub fn folded(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    if name.bytes().any(|byte| byte == b'_' || byte.is_ascii_uppercase()) {
        return Cow::Owned(name.to_ascii_lowercase().replace('_', "-"));
    }
    Cow::Borrowed(name)
}

/// Whole names, folded.
const HEADERS: &[&str] = &[
    "authorization",
    "authentication",
    "proxy-authorization",
    "cookie",
    "cookie2",
    "api-key",
    "apikey",
    "x-api-key",
    "x-apikey",
    "x-api-token",
    "x-token",
    "x-session-token",
    "x-secret",
    "private-token",
    "job-token",
    "deploy-token",
    "circle-token",
    "x-github-token",
    "x-gitlab-token",
    "x-vault-token",
    "x-figma-token",
    "x-subscription-token",
    "x-amz-security-token",
    "x-goog-iam-authorization-token",
    "x-client-secret",
    "dd-application-key",
    "ocp-apim-subscription-key",
    "x-functions-key",
    "x-auth-key",
];

/// Ends of names that say it for whole families: `x-goog-api-key`, `anthropic-api-key`, `x-shopify-access-token`.
const HEADER_ENDS: &[&str] = &[
    "-api-key",
    "-apikey",
    "-access-token",
    "-auth-token",
    "-authorization",
    "-refresh-token",
    "-id-token",
    "-oauth-token",
    "-bearer-token",
];

/// Keys of a query, folded, beside the names of headers.
const QUERY_KEYS: &[&str] = &[
    "key",
    "token",
    "auth",
    "access-token",
    "auth-token",
    "oauth-token",
    "refresh-token",
    "id-token",
    "bearer-token",
    "session-token",
    "session-key",
    "api-token",
    "client-secret",
    "secret",
    "password",
    "passwd",
    "subscription-key",
];

const PROTOCOL_MARKS: &[&str] = &[
    "authorization",
    "bearer",
    "basic.",
    "token",
    "base64url.bearer.",
    "base64.bearer.",
    "openai-insecure-api-key",
    "openai-ephemeral-api-key",
    "sk-",
    "jwt",
    // What every JWT begins with: `{"` in base64url.
    "eyj",
];

const PROTOCOL_PARTS: &[&str] = &[
    "api-key",
    "api_key",
    "apikey",
    "access-token",
    "access_token",
    "auth-token",
    "auth_token",
    ".bearer.",
    "authorization.",
    "sk-ant-",
    "password",
    "secret",
    ".eyj",
    "-eyj",
];

#[cfg(test)]
mod tests {
    use super::{header_carries_credential, protocol_carries_credential, query_key_carries_credential};

    #[test]
    fn a_header_carries_a_credential_in_any_spelling() {
        for name in [
            "Authorization",
            "AUTHORIZATION",
            "X-Api-Key",
            "x_api_key",
            "X_API-KEY",
            "api-key",
            "x-goog-api-key",
            "Cookie",
            "PRIVATE-TOKEN",
            "Proxy-Authorization",
            "anthropic-api-key",
            "openai_api_key",
            "X-Auth-Token",
        ] {
            assert!(header_carries_credential(&name.parse().expect("a name")), "{name}");
        }
        for name in [
            "accept",
            "anthropic-beta",
            "anthropic-version",
            "content-type",
            "x-stainless-timeout",
            "user-agent",
            "idempotency-key",
            "sec-websocket-key",
            "x-csrf-token",
            "chatgpt-account-id",
        ] {
            assert!(!header_carries_credential(&name.parse().expect("a name")), "{name}");
        }
    }

    #[test]
    fn a_query_key_carries_a_credential_in_any_spelling() {
        for key in [
            "key",
            "api_key",
            "API-KEY",
            "access_token",
            "token",
            "x-goog-api-key",
            "client_secret",
            "token[]",
            "key[a]",
            "+api_key",
        ] {
            assert!(query_key_carries_credential(key), "{key}");
        }
        for key in ["beta", "q", "page_token", "cursor", "keyword", "tokens"] {
            assert!(!query_key_carries_credential(key), "{key}");
        }
    }

    #[test]
    fn a_websocket_protocol_can_hide_a_key() {
        for item in [
            "openai-insecure-api-key.sk-1",
            " Bearer.abc",
            "base64url.bearer.authorization.k8s.io.YQ",
            "Authorization",
            "x.access_token.y",
            "sk-proj-1",
            "eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
            "jwt.x",
            "header-eyJob3N0IjoieCJ9",
            "id_token.eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
        ] {
            assert!(protocol_carries_credential(item), "{item}");
        }
        for item in ["realtime", "graphql-ws", "openai-beta.realtime-v1", "v4.channel.k8s.io", "mqtt"] {
            assert!(!protocol_carries_credential(item), "{item}");
        }
    }
}
