//! Answer: a refusal as HTTP, in the shape that ends the agent at once and tells it why.

use box_spec::Provider;
use box_spec::wire::{REASON_HEADER, STATUS_HEADER};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, PROXY_AUTHENTICATE, UPGRADE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use hyper::ext::ReasonPhrase;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Reason, Refusal};

/// The response that tells a refusal. On a model route a final one is 400 in the provider's own error shape, since every
/// agent stops at that at once; the true status then stands in `x-boxgate-status`.
#[must_use]
pub fn response(refusal: &Refusal, model: Option<Provider>) -> Response<Full<Bytes>> {
    let truth = refusal.reason().status();
    let (status, body) = match model {
        Some(provider) => {
            let status = if refusal.reason().is_final() { StatusCode::BAD_REQUEST } else { truth };
            (status, in_the_shape_of(provider, refusal))
        }
        None => (truth, plain(refusal).to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    if let Some(phrase) = phrase(refusal.reason()).filter(|_| model.is_none()) {
        response.extensions_mut().insert(phrase);
    }
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(HeaderName::from_static(REASON_HEADER), HeaderValue::from_static(refusal.reason().code()));
    headers.insert(HeaderName::from_static(STATUS_HEADER), HeaderValue::from(truth.as_u16()));
    match refusal.reason() {
        Reason::NoRunToken => {
            headers.insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"boxgate\""));
        }
        // What follows on a connection whose framing is in doubt must not be read as a request.
        Reason::BadRequest => {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // RFC 9110 §15.5.22: it names the protocol to speak instead.
        Reason::UpgradeRefused => {
            headers.insert(UPGRADE, HeaderValue::from_static("HTTP/1.1"));
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        }
        _ => {}
    }
    response
}

/// The same as an event in a WebSocket to a model, as OpenAI's servers tell an error there.
#[must_use]
pub fn event(refusal: &Refusal) -> String {
    let error = json!({ "type": "invalid_request_error", "code": refusal.reason().code(), "message": sentence(refusal), "param": null });
    json!({ "type": "error", "status": StatusCode::BAD_REQUEST.as_u16(), "error": error }).to_string()
}

/// Many clients show the status line and never the body: wget, pip, urllib, `raise_for_status` of requests.
fn phrase(reason: Reason) -> Option<ReasonPhrase> {
    let usual = reason.status().canonical_reason().unwrap_or("Refused");
    ReasonPhrase::try_from(format!("{usual} by boxgate ({})", reason.code()).into_bytes()).ok()
}

fn plain(refusal: &Refusal) -> Value {
    json!({ "error": refusal.reason().code(), "message": sentence(refusal), "grant": refusal.grant(), "hint": refusal.hint() })
}

/// The provider's own shape, and what the house adds to it after that.
#[derive(Serialize)]
struct Shaped {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    error: Value,
    boxgate: Value,
}

fn in_the_shape_of(provider: Provider, refusal: &Refusal) -> String {
    let (code, message) = (refusal.reason().code(), sentence(refusal));
    let shaped = match provider {
        Provider::Anthropic => Shaped {
            kind: Some("error"),
            error: json!({ "type": "invalid_request_error", "message": message }),
            boxgate: plain(refusal),
        },
        // codex shows the whole body as its error: everything is said once, and the sentence comes first.
        Provider::Openai | Provider::OpenaiCodex => Shaped {
            kind: None,
            error: json!({ "message": message, "type": "invalid_request_error", "param": null, "code": code }),
            boxgate: json!({ "error": code, "grant": refusal.grant() }),
        },
    };
    serde_json::to_string(&shaped).unwrap_or_default()
}

/// What may pass by itself names its status in the usual words: pi tries again by what the text says, whatever the status is.
fn sentence(refusal: &Refusal) -> String {
    let (reason, status) = (refusal.reason(), refusal.reason().status());
    let said = format!("{}. {}.", refusal.outside(), refusal.hint());
    if status.is_server_error() && !reason.is_final() {
        return format!("boxgate could not pass this on ({}, {status}): {said}", reason.code());
    }
    format!("boxgate refused this ({}): {said}", reason.code())
}

#[cfg(test)]
mod tests {
    use box_spec::Provider;
    use http_body_util::BodyExt;
    use serde_json::json;

    use super::response;
    use crate::refusal::{Reason, Refusal};

    fn body(refusal: &Refusal, model: Option<Provider>) -> serde_json::Value {
        let collected = futures_util::FutureExt::now_or_never(response(refusal, model).into_body().collect())
            .expect("a whole body")
            .expect("no error");
        serde_json::from_slice(&collected.to_bytes()).expect("JSON")
    }

    #[test]
    fn a_final_refusal_is_400_on_a_model_route_and_the_truth_elsewhere() {
        for reason in Reason::ALL {
            let refusal = Refusal::new(reason, "outside \"quoted\"", "inside").with_grant("a \"grant\"");
            let elsewhere = response(&refusal, None);
            assert_eq!(elsewhere.status(), reason.status());
            let line = elsewhere.extensions().get::<hyper::ext::ReasonPhrase>().expect("a phrase of its own");
            let said = String::from_utf8_lossy(line.as_bytes()).into_owned();
            assert!(said.ends_with(&format!(" by boxgate ({})", reason.code())), "{said}");
            for provider in Provider::ALL {
                let model = response(&refusal, Some(provider));
                let told = if reason.is_final() { http::StatusCode::BAD_REQUEST } else { reason.status() };
                assert_eq!(model.status(), told);
                assert_eq!(model.headers()["x-boxgate-status"], reason.status().as_str());
                assert_eq!(model.headers()["x-boxgate-reason"], reason.code());
                let said = body(&refusal, Some(provider));
                let text = said["error"]["message"].as_str().expect("a message");
                assert!(
                    text.contains(reason.code())
                        && text.contains("outside \"quoted\"")
                        && text.contains(refusal.hint()),
                    "{text}"
                );
                assert!(!said.to_string().contains("inside"), "the inside sentence stays inside");
            }
        }
    }

    #[test]
    fn what_may_pass_by_itself_says_its_status_and_what_is_final_none() {
        for reason in Reason::ALL {
            let said = body(&Refusal::new(reason, "outside", "inside"), Some(Provider::OpenaiCodex));
            let text = said["error"]["message"].as_str().expect("a message");
            let transient = reason.status().is_server_error() && !reason.is_final();
            assert_eq!(text.contains(reason.status().as_str()), transient, "{text}");
            assert_eq!(text.starts_with("boxgate refused this"), !transient, "{text}");
        }
    }

    #[test]
    fn each_provider_is_told_in_its_own_shape() {
        let refusal = Refusal::new(Reason::NoGrant, "outside", "inside").with_grant("model");
        let anthropic = body(&refusal, Some(Provider::Anthropic));
        assert_eq!(
            (&anthropic["type"], &anthropic["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
        for provider in [Provider::Openai, Provider::OpenaiCodex] {
            let said = body(&refusal, Some(provider));
            let error = &said["error"];
            assert_eq!(
                (&error["type"], &error["code"], &error["param"]),
                (&json!("invalid_request_error"), &json!("no-grant"), &json!(null))
            );
            assert_eq!(said["boxgate"], json!({ "error": "no-grant", "grant": "model" }));
        }
    }
}
