//! What may be shown: headers by allow list, a query by keys, lengths and hashes, everything within limits.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use http::{HeaderMap, HeaderName};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::chain::hex;
use super::words::{Words, cut};

/// The path without its query; what looks like a credential in a segment is masked.
pub(super) fn path(raw: &str) -> String {
    let path = raw.split(['?', '#']).next().unwrap_or_default();
    if is_harmless(path) {
        return cut(path, PATH_LIMIT).into_owned();
    }
    let masked: Vec<_> = path.split('/').map(mask).collect();
    cut(&masked.join("/"), PATH_LIMIT).into_owned()
}

/// Of each parameter the key, the value's length and the first 32 bits of its hash, never the value. A `;` in it is told, since
/// some servers begin another parameter there: what stands behind it is still a value to others.
pub(super) fn query(raw: &str) -> String {
    let mut all = Vec::new();
    let mut left_out = 0;
    for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
        if all.len() == QUERY_LIMIT {
            left_out += 1;
            continue;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let mut words = Words::object();
        words.text("key", &cut(&mask(key), NAME_LIMIT));
        words.number("length", value.len() as u64);
        words.text("sha256", &hex(&Sha256::digest(value.as_bytes())[..4]));
        if pair.contains(';') {
            words.raw("semicolon", "true");
        }
        all.push(words.into_object());
    }
    if left_out > 0 {
        all.push(format!("{{\"left_out\":{left_out}}}"));
    }
    format!("[{}]", all.join(","))
}

/// Listed headers with their values, of all others the names.
pub(super) fn headers(headers: &HeaderMap) -> String {
    let mut others = Vec::with_capacity(headers.len().min(OTHERS_LIMIT));
    let mut left_out = 0;
    let mut words = Words::object();
    words.within("shown", |shown| {
        for name in headers.keys() {
            if is_shown(name) {
                shown.text(name.as_str(), &value(headers, name));
            } else if others.len() < OTHERS_LIMIT {
                others.push(cut(name.as_str(), NAME_LIMIT));
            } else {
                left_out += 1;
            }
        }
    });
    words.texts("others", others.iter().map(AsRef::as_ref));
    if left_out > 0 {
        words.number("left_out", left_out);
    }
    words.into_object()
}

/// A sentence for the operator, within a limit.
pub(super) fn sentence(text: &str) -> String {
    cut(text, SENTENCE_LIMIT).into_owned()
}

/// One value told by others (a claim, a report), cut to limits at every depth.
pub(super) fn fact(value: &Value) -> String {
    let text = bounded(value, DEPTH_LIMIT).to_string();
    if text.len() <= FACT_LIMIT {
        return text;
    }
    let mut words = Words::object();
    words.number("too_long", text.len() as u64);
    words.text("sha256", &hex(&Sha256::digest(text.as_bytes())));
    words.into_object()
}

fn value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Cow<'a, str> {
    let mut values = headers.get_all(name).iter();
    if let (Some(Ok(only)), None) = (values.next().map(|value| value.to_str()), values.next())
        && is_harmless(only)
    {
        return cut(only, VALUE_LIMIT);
    }
    let all: Vec<_> = headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
    let words: Vec<_> = all.join(", ").split(' ').map(mask).collect();
    cut(&words.join(" "), VALUE_LIMIT).into_owned().into()
}

fn is_shown(name: &HeaderName) -> bool {
    SHOWN.contains(&name.as_str())
}

/// Whether no word of it can be a credential.
fn is_harmless(text: &str) -> bool {
    !BEGINNINGS.is_match(text)
}

fn mask(word: &str) -> String {
    if is_harmless(word) {
        return word.to_owned();
    }
    let Some(at) = CREDENTIALS.iter().filter_map(|(mark, least)| find(word, mark, *least)).min() else {
        return word.to_owned();
    };
    let secret = &word[at..];
    let hash = hex(&Sha256::digest(secret.as_bytes())[..4]);
    format!("{}[masked {} bytes {hash}]", &word[..at], secret.len())
}

fn find(word: &str, mark: &str, least: usize) -> Option<usize> {
    word.find(mark).filter(|at| word.len() - at >= least)
}

fn bounded(value: &Value, depth: usize) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(sentence(text)),
        Value::Array(_) | Value::Object(_) if depth == 0 => Value::String("…".to_owned()),
        Value::Array(items) => items.iter().take(ITEMS_LIMIT).map(|item| bounded(item, depth - 1)).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().take(ITEMS_LIMIT);
            kept.map(|(key, item)| (cut(key, NAME_LIMIT).into_owned(), bounded(item, depth - 1))).collect()
        }
    }
}

const PATH_LIMIT: usize = 2048;
const QUERY_LIMIT: usize = 32;
const NAME_LIMIT: usize = 64;
const VALUE_LIMIT: usize = 256;
const OTHERS_LIMIT: usize = 64;
const SENTENCE_LIMIT: usize = 1024;
const FACT_LIMIT: usize = 16 * 1024;
const DEPTH_LIMIT: usize = 6;
const ITEMS_LIMIT: usize = 64;

/// How credentials begin, and how long such a word must be to be one.
const CREDENTIALS: &[(&str, usize)] = &[
    ("sk-", 16),
    ("eyJ", 24),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghs_", 16),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("AKIA", 20),
    ("AIza", 30),
    ("ya29.", 20),
];

static BEGINNINGS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::new(CREDENTIALS.iter().map(|(mark, _)| mark)).expect("a few short words make a searcher")
});

const SHOWN: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-version",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "request-id",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-app",
    "x-request-id",
    "x-stainless-retry-count",
    "x-stainless-timeout",
];

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};
    use serde_json::{Value, json};

    #[test]
    fn only_listed_headers_show_a_value() {
        let secret = "swordfish-is-the-word";
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        for name in [
            "authorization",
            "cookie",
            "x-api-key",
            "proxy-authorization",
            "private-token",
            "x-goog-api-key",
            "api-key",
            "x-anything-else",
        ] {
            headers.insert(name, HeaderValue::from_static(secret));
        }
        let text = super::headers(&headers);
        assert!(!text.contains(secret), "{text}");
        let value: Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(value["shown"], json!({"content-type": "application/json"}));
        assert_eq!(value["others"].as_array().map(Vec::len), Some(8));
    }

    #[test]
    fn a_query_shows_keys_lengths_and_hashes() {
        let value: Value = serde_json::from_str(&super::query("beta=true&key=swordfish&&flag")).expect("valid JSON");
        assert_eq!(value[0]["key"], "beta");
        assert_eq!((&value[1]["key"], &value[1]["length"]), (&json!("key"), &json!(9)));
        assert_eq!(value[1]["sha256"].as_str().map(str::len), Some(8));
        assert_eq!(value[2], json!({"key": "flag", "length": 0, "sha256": "e3b0c442"}));
        assert!(!value.to_string().contains("swordfish"));
        let value: Value = serde_json::from_str(&super::query("a=1;swordfish=2&b=;&c=1")).expect("valid JSON");
        let told: Vec<_> = value.as_array().into_iter().flatten().map(|one| one["semicolon"] == true).collect();
        assert_eq!(told, [true, true, false]);
        assert!(!value.to_string().contains("swordfish"));
    }

    #[test]
    fn a_path_loses_its_query_and_what_looks_like_a_credential() {
        assert_eq!(super::path("/v1/messages?key=x#y"), "/v1/messages");
        let masked = super::path("/hook/sk-ant-oat01-abcdefghijkl/end");
        assert!(
            !masked.contains("abcdefghijkl") && masked.starts_with("/hook/[masked") && masked.ends_with("/end"),
            "{masked}"
        );
        assert!(super::path(&format!("/{}", "a".repeat(5000))).len() < 2100);
    }

    #[test]
    fn a_credential_in_a_listed_header_is_masked() {
        let mut headers = HeaderMap::new();
        headers.insert("user-agent", HeaderValue::from_static("tool/1 key:sk-ant-api03-abcdefghijkl"));
        assert!(!super::headers(&headers).contains("abcdefghijkl"));
    }

    #[test]
    fn what_a_box_tells_is_cut_to_limits() {
        let deep = (0..40).fold(json!("x"), |value, _| json!([value]));
        for big in [json!("x".repeat(100_000)), json!(vec!["y".repeat(2000); 1000]), deep] {
            assert!(super::fact(&big).len() <= super::FACT_LIMIT);
        }
        let mut headers = HeaderMap::new();
        for at in 0..500 {
            let name = HeaderName::try_from(format!("x-{at}-{}", "n".repeat(200))).expect("a name");
            headers.insert(name, HeaderValue::from_static("v"));
        }
        assert!(super::headers(&headers).len() < 8192);
        assert!(super::query(&"k=v&".repeat(10_000)).len() < 4096);
    }
}
