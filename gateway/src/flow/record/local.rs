//! Local: what the house answers by itself, so that it neither leaves nor breaks the agent.

use box_spec::wire::SENTINEL_ACCOUNT;
use box_spec::{Provider, Sentinel};
use http::{Response, StatusCode};
use serde_json::json;

use crate::flow::identify::Caller;
use crate::flow::judge::Answer;
use crate::flow::record::Reply;
use crate::ledger::{Ended, Line, Outcome};
use crate::policy::LocalRoute;
use crate::vault::Vault;

/// Answers what never leaves the house. A refresh attempt is given its sentinels again while the real
/// credential can be used.
#[must_use]
pub fn answered(caller: &Caller, vault: &Vault, answer: &Answer, line: Line) -> Response<Reply> {
    let (status, body) = match answer.route() {
        LocalRoute::Refresh(provider) if vault.available(provider).is_some() => {
            match caller.run().sentinels_of(provider).next() {
                Some(sentinel) => (StatusCode::OK, refreshed(provider, sentinel)),
                None => (StatusCode::BAD_REQUEST, invalid_grant()),
            }
        }
        LocalRoute::Refresh(_) => (StatusCode::BAD_REQUEST, invalid_grant()),
        LocalRoute::Profile(_) => (StatusCode::OK, profile()),
        LocalRoute::Accounts => (StatusCode::OK, accounts()),
        LocalRoute::Preferences => (StatusCode::OK, b"{}".to_vec()),
        LocalRoute::Telemetry => (StatusCode::NO_CONTENT, Vec::new()),
        LocalRoute::Settings | LocalRoute::DurableCredential => (
            StatusCode::NOT_FOUND,
            br#"{"type":"error","error":{"type":"not_found_error","message":"not served by this house"}}"#.to_vec(),
        ),
    };
    let down = body.len() as u64;
    let mut response = Response::new(Reply::json(body));
    *response.status_mut() = status;
    if status != StatusCode::NO_CONTENT {
        response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    }
    line.close(Outcome {
        status: Some(status.as_u16()),
        bytes_down: down,
        ended: Ended::Complete,
        ..Outcome::default()
    });
    response
}

/// RFC 6749 §5.1, with the sentinels that the box has already. Whatever grant type was asked for, this is all there is.
fn refreshed(provider: Provider, sentinel: &Sentinel) -> Vec<u8> {
    let mut told = json!({
        "token_type": "Bearer",
        "access_token": sentinel.access,
        "refresh_token": sentinel.refresh,
        "expires_in": LASTS,
    });
    match provider {
        Provider::Anthropic => told["scope"] = json!("user:inference"),
        // OpenID Connect Core §12.2: an agent reads its account from here again.
        Provider::Openai | Provider::OpenaiCodex => told["id_token"] = json!(sentinel.access),
    }
    told.to_string().into_bytes()
}

/// RFC 6749 §5.2: the agent stops trying.
fn invalid_grant() -> Vec<u8> {
    br#"{"error":"invalid_grant","error_description":"the house has no valid credential; this is an outage, not policy"}"#.to_vec()
}

/// The one account that the sentinels name, served where any is.
fn accounts() -> Vec<u8> {
    json!({
        "accounts": [{
            "id": SENTINEL_ACCOUNT,
            "workspace_backend_origin": "https://chatgpt.com",
            "account_routing_override": "NO_CONSTRAINT",
            "plan_type": "pro",
        }],
    })
    .to_string()
    .into_bytes()
}

fn profile() -> Vec<u8> {
    json!({
        "account": { "uuid": SENTINEL_ACCOUNT, "email": "box@boxgate.invalid", "full_name": "boxgate", "has_claude_max": true, "has_claude_pro": false },
        "organization": { "uuid": SENTINEL_ACCOUNT, "organization_type": "claude_max", "rate_limit_tier": "default_claude_max_20x" },
    })
    .to_string()
    .into_bytes()
}

/// What a refreshed sentinel is said to last, in seconds: ten days, as OpenAI's do.
const LASTS: u32 = 864_000;
