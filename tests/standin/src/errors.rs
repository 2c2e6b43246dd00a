//! Errors in the shape of the provider whose route it is.

use serde_json::{Value, json};

/// The body of an error at this path.
pub(crate) fn body(path: &str, status: u16, message: &str) -> String {
    let shape = if is_openai(path) { openai(status, message) } else { anthropic(status, message) };
    shape.to_string()
}

/// An error as a WebSocket of OpenAI's tells it: with the status beside the `error` of a body, if the body has one.
pub(crate) fn event(status: u16, body: &[u8]) -> Value {
    let given = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let error = given.get("error").cloned().unwrap_or_else(|| openai(status, "stand-in fault")["error"].clone());
    json!({"type": "error", "status": status, "error": error})
}

fn openai(status: u16, message: &str) -> Value {
    let kind = match status {
        400 | 404 | 413 | 415 | 417 | 426 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_exceeded",
        _ => "server_error",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}

fn anthropic(status: u16, message: &str) -> Value {
    let kind = match status {
        400 | 413 | 415 | 417 | 426 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

fn is_openai(path: &str) -> bool {
    ["/responses", "/chat/completions", "/backend-api/"].iter().any(|part| path.contains(part))
}
