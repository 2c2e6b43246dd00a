//! What is answered about accounts and tokens, besides the models.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::real::Real;

/// The accounts of ChatGPT: the real ones and no other. codex asks no model unless its own is among them.
pub(crate) fn list(real: &[Real]) -> Value {
    let accounts = real.iter().filter_map(Real::account).map(|id| {
        json!({"id": id, "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "NO_CONSTRAINT", "plan_type": "pro"})
    });
    json!({ "accounts": accounts.collect::<Vec<_>>() })
}

/// Refresh tokens that are good once each, as the providers' are.
pub(crate) struct Chain {
    good: String,
    fresh: VecDeque<Real>,
    given: usize,
}

impl Chain {
    pub(crate) fn new(first: &str, fresh: Vec<Real>) -> Self {
        Self { good: first.to_owned(), fresh: fresh.into(), given: 0 }
    }

    /// The next credential and the next refresh token for the one that is good now; any other is refused.
    pub(crate) fn turn(&mut self, body: &[u8]) -> (u16, Value) {
        let asked: Value = serde_json::from_slice(body).unwrap_or_default();
        if asked["grant_type"] != "refresh_token" || asked["refresh_token"] != self.good.as_str() {
            return token(None);
        }
        let Some(real) = self.fresh.pop_front() else { return token(None) };
        self.given += 1;
        self.good = format!("rt-stand-in-{}", self.given);
        let (status, mut told) = token(Some(&real));
        told["refresh_token"] = json!(self.good);
        (status, told)
    }
}

/// The answer to an attempt to refresh: refused, or this credential.
pub(crate) fn token(refresh: Option<&Real>) -> (u16, Value) {
    match refresh {
        None => (400, json!({"error": "invalid_grant", "error_description": "stand-in: nothing is refreshed here"})),
        Some(real) => {
            let id_token = if real.account().is_some() { json!(real.value()) } else { Value::Null };
            let fresh = json!({"access_token": real.value(), "refresh_token": "rt-stand-in-fresh", "id_token": id_token,
                "expires_in": 3600, "token_type": "Bearer", "scope": "user:inference"});
            (200, fresh)
        }
    }
}
