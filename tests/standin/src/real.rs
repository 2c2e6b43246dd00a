//! The credentials that a stand-in takes for real, and how each provider's routes want them.

use base64::Engine;
use serde_json::json;

/// A credential that the stand-in takes for real.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Real {
    /// A login at Anthropic: `authorization: Bearer …`.
    Bearer(String),
    /// An API key: `x-api-key: …` at Anthropic's routes, `authorization: Bearer …` at OpenAI's.
    ApiKey(String),
    /// A login at ChatGPT: `authorization: Bearer …`, and `chatgpt-account-id` with this account and no other.
    Login { token: String, account: String },
}

/// Whose routes a request asks for. What belongs to nobody takes every credential, each in its own form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Routes {
    Anthropic,
    OpenAi,
    ChatGpt,
    Nobodys,
}

impl Real {
    /// From one text, as the command line takes it: `ACCOUNT=TOKEN` is a login at ChatGPT, what starts like a key is one,
    /// all else a login at Anthropic.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        match text.split_once('=') {
            Some((account, token)) => Self::Login { token: token.to_owned(), account: account.to_owned() },
            None if text.starts_with("sk-ant-oat") || !text.starts_with("sk-") => Self::Bearer(text.to_owned()),
            None => Self::ApiKey(text.to_owned()),
        }
    }

    /// A login at ChatGPT whose token is a JWT that names the account and ends in a century, as stock agents want it.
    #[must_use]
    pub fn chatgpt(account: &str, mark: &str) -> Self {
        let part = |bytes: &[u8]| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
        let claims = json!({"iss": "https://auth.openai.com", "iat": 1_700_000_000, "exp": 4_900_000_000_u64,
            "https://api.openai.com/auth": {"chatgpt_account_id": account, "chatgpt_plan_type": "pro", "chatgpt_user_id": "user-real"}});
        let token = [
            part(json!({"alg": "RS256", "typ": "JWT"}).to_string().as_bytes()),
            part(claims.to_string().as_bytes()),
            part(format!("signature-{mark}").as_bytes()),
        ]
        .join(".");
        Self::Login { token, account: account.to_owned() }
    }

    /// The text that must not be found in a box.
    #[must_use]
    pub fn value(&self) -> &str {
        match self {
            Self::Bearer(value) | Self::ApiKey(value) | Self::Login { token: value, account: _ } => value,
        }
    }

    /// The account of a login at ChatGPT.
    #[must_use]
    pub fn account(&self) -> Option<&str> {
        match self {
            Self::Bearer(_) | Self::ApiKey(_) => None,
            Self::Login { token: _, account } => Some(account),
        }
    }

    /// Whether these headers carry exactly one credential, it is one of `real`, and this path's provider takes it.
    pub(crate) fn accepts(real: &[Self], path: &str, headers: &[(String, String)]) -> bool {
        let values = |wanted: &str| -> Vec<&str> {
            let named = headers.iter().filter(|(name, _)| name.to_ascii_lowercase().replace('_', "-") == wanted);
            named.map(|(_, value)| value.as_str()).collect()
        };
        let (bearers, keys, accounts) = (values("authorization"), values("x-api-key"), values("chatgpt-account-id"));
        let (form, value) = match (&bearers[..], &keys[..]) {
            ([one], []) => ("bearer", one.strip_prefix("Bearer ")),
            ([], [one]) => ("key", Some(*one)),
            _ => return false,
        };
        let routes = Routes::of(path);
        real.iter().any(|real| {
            let fits = match real {
                Self::Bearer(_) => form == "bearer" && matches!(routes, Routes::Anthropic | Routes::Nobodys),
                Self::ApiKey(_) => match routes {
                    Routes::OpenAi => form == "bearer",
                    Routes::Anthropic | Routes::Nobodys => form == "key",
                    Routes::ChatGpt => false,
                },
                Self::Login { token: _, account } => {
                    let own = matches!(routes, Routes::ChatGpt | Routes::Nobodys);
                    form == "bearer" && own && accounts == [account.as_str()]
                }
            };
            fits && value == Some(real.value())
        })
    }
}

impl Routes {
    fn of(path: &str) -> Self {
        let starts = |all: &[&str]| all.iter().any(|start| path.starts_with(start));
        if starts(&["/v1/messages", "/api/"]) {
            Self::Anthropic
        } else if starts(&["/backend-api/"]) {
            Self::ChatGpt
        } else if starts(&["/v1/responses", "/v1/chat/"]) {
            Self::OpenAi
        } else {
            Self::Nobodys
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Real;

    type Headers<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn only_one_credential_that_is_real_is_accepted() {
        let real = [Real::Bearer("r".into()), Real::ApiKey("k".into())];
        let cases: [(Headers<'_>, bool); 9] = [
            (&[("Authorization", "Bearer r")], true),
            (&[("X-API-Key", "k")], true),
            (&[], false),
            (&[("authorization", "Bearer k")], false),
            (&[("authorization", "bearer r")], false),
            (&[("authorization", "Basic r")], false),
            (&[("x-api-key", "r")], false),
            (&[("x-api-key", "k"), ("authorization", "Bearer r")], false),
            (&[("authorization", "Bearer r"), ("authorization", "Bearer s")], false),
        ];
        for (headers, accepted) in cases {
            assert_eq!(accepts(&real, "/v1/messages", headers), accepted, "{headers:?}");
        }
    }

    #[test]
    fn a_provider_takes_its_own_credential_only() {
        let login = Real::Login { token: "t".into(), account: "a".into() };
        let real = [Real::Bearer("r".into()), Real::ApiKey("k".into()), login];
        let (bearer, account) = ("authorization", "chatgpt-account-id");
        let cases: [(&str, Headers<'_>, bool); 11] = [
            ("/v1/responses", &[(bearer, "Bearer k")], true),
            ("/v1/responses", &[("x-api-key", "k")], false),
            ("/v1/responses", &[(bearer, "Bearer r")], false),
            ("/v1/messages", &[(bearer, "Bearer k")], false),
            ("/v1/messages", &[(bearer, "Bearer t"), (account, "a")], false),
            ("/backend-api/codex/responses", &[(bearer, "Bearer t"), ("ChatGPT-Account-Id", "a")], true),
            ("/backend-api/codex/responses", &[(bearer, "Bearer t")], false),
            ("/backend-api/codex/responses", &[(bearer, "Bearer t"), (account, "b")], false),
            ("/backend-api/codex/responses", &[(bearer, "Bearer t"), (account, "a"), (account, "a")], false),
            (
                "/backend-api/codex/responses",
                &[(bearer, "Bearer t"), (account, "a"), ("chatgpt_account_id", "b")],
                false,
            ),
            ("/backend-api/codex/responses", &[(bearer, "Bearer r")], false),
        ];
        for (path, headers, accepted) in cases {
            assert_eq!(accepts(&real, path, headers), accepted, "{path} {headers:?}");
        }
    }

    #[test]
    fn a_text_tells_what_it_is() {
        assert_eq!(Real::from_text("sk-ant-api03-k"), Real::ApiKey("sk-ant-api03-k".into()));
        assert_eq!(Real::from_text("sk-proj-k"), Real::ApiKey("sk-proj-k".into()));
        assert_eq!(Real::from_text("sk-ant-oat01-t"), Real::Bearer("sk-ant-oat01-t".into()));
        assert_eq!(Real::from_text("a-1=t"), Real::Login { token: "t".into(), account: "a-1".into() });
    }

    fn accepts(real: &[Real], path: &str, headers: Headers<'_>) -> bool {
        let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Real::accepts(real, path, &headers)
    }
}
