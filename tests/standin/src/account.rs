//! What is answered about accounts and tokens, besides the models.

use serde_json::{Value, json};

use crate::real::Real;

/// The accounts of ChatGPT: the real ones and no other. codex asks no model unless its own is among them.
pub(crate) fn list(real: &[Real]) -> Value {
    let accounts = real.iter().filter_map(Real::account).map(|id| {
        json!({"id": id, "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "NO_CONSTRAINT", "plan_type": "pro"})
    });
    json!({ "accounts": accounts.collect::<Vec<_>>() })
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
