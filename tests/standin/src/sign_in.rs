//! Sign in: what a person and a program need for a new login, at both providers: pages, codes, and tokens for them.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::account;
use crate::real::Real;

/// One sign-in: each code is good once, for whoever knows its verifier.
pub(crate) struct SignIn {
    gives: Real,
    /// What is answered while the code was not typed yet.
    before: VecDeque<(u16, String)>,
    open: Option<Open>,
}

/// A code that was given out, and what must come with it.
struct Open {
    challenge: String,
    redirect: String,
    /// Only Anthropic wants it with the code.
    state: Option<String>,
}

/// Status, header fields, body.
pub(crate) type Told = (u16, Vec<(String, String)>, Value);

impl SignIn {
    pub(crate) fn new(gives: Real, before: Vec<(u16, String)>) -> Self {
        Self { gives, before: before.into(), open: None }
    }

    /// Nothing where this is no step of a sign-in.
    pub(crate) fn step(&mut self, method: &str, target: &str, body: &[u8]) -> Option<Told> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let json = || serde_json::from_slice::<Value>(body).unwrap_or_default();
        match (method, path) {
            ("GET", "/oauth/authorize") => Some(self.page(query)),
            ("POST", "/api/accounts/deviceauth/usercode") => {
                let known = json()["client_id"].as_str().is_some_and(|id| !id.is_empty());
                let code = json!({"device_auth_id": DEVICE, "user_code": USER_CODE, "interval": "1"});
                Some(if known { (200, Vec::new(), code) } else { error("invalid_client") })
            }
            ("POST", "/api/accounts/deviceauth/token") => Some(self.poll(&json())),
            ("POST", "/oauth/token" | "/v1/oauth/token") => {
                let asked = serde_json::from_slice(body).unwrap_or_else(|_| pairs(&String::from_utf8_lossy(body)));
                (asked["grant_type"] == "authorization_code").then(|| self.tokens(&asked))
            }
            _ => None,
        }
    }

    /// A person who allows all at once.
    fn page(&mut self, query: &str) -> Told {
        let asked = pairs(query);
        let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
        if asked["code_challenge_method"] != "S256" || asked["response_type"] != "code" || text("client_id").is_empty()
        {
            return error("invalid_request");
        }
        let (redirect, state) = (text("redirect_uri"), text("state"));
        let location = format!("{redirect}?code={CODE}&state={state}");
        self.open = Some(Open { challenge: text("code_challenge"), redirect, state: Some(state) });
        (302, vec![("location".to_owned(), location)], Value::Null)
    }

    fn poll(&mut self, asked: &Value) -> Told {
        if asked["device_auth_id"] != DEVICE || asked["user_code"] != USER_CODE {
            return error("invalid_request");
        }
        if let Some((status, body)) = self.before.pop_front() {
            return (status, Vec::new(), serde_json::from_str(&body).unwrap_or_default());
        }
        let redirect = "https://auth.openai.com/deviceauth/callback".to_owned();
        self.open = Some(Open { challenge: challenge(VERIFIER), redirect, state: None });
        (
            200,
            Vec::new(),
            json!({"authorization_code": CODE, "code_verifier": VERIFIER, "code_challenge": challenge(VERIFIER)}),
        )
    }

    fn tokens(&mut self, asked: &Value) -> Told {
        let Some(open) = self.open.take() else { return error("invalid_grant") };
        let verifier = asked["code_verifier"].as_str().unwrap_or_default();
        let is_his = asked["code"] == CODE
            && asked["redirect_uri"] == open.redirect.as_str()
            && challenge(verifier) == open.challenge
            && open.state.is_none_or(|state| asked["state"] == state.as_str());
        if !is_his {
            return error("invalid_grant");
        }
        let (status, body) = account::token(Some(&self.gives));
        (status, Vec::new(), body)
    }
}

fn error(word: &str) -> Told {
    (400, Vec::new(), json!({ "error": word, "error_description": "stand-in" }))
}

/// RFC 7636 §4.2.
fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// The pairs of a query or a form body; a `%` code is read.
fn pairs(text: &str) -> Value {
    let decoded = |text: &str| {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
            bytes.extend(u8::from_str_radix(digits, 16));
            bytes.extend(rest.as_bytes());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), Value::String(decoded(value)))).collect()
}

const CODE: &str = "code-of-the-stand-in";
const DEVICE: &str = "device-of-the-stand-in";
const VERIFIER: &str = "verifier-of-the-stand-in-0123456789-0123456789";
/// What a person types.
pub(crate) const USER_CODE: &str = "ABCD-1234";
