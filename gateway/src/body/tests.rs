//! What a body may and may not ask of a provider, whatever pieces it comes in.

use std::sync::Arc;

use box_spec::Provider;
use http::{HeaderMap, HeaderValue};
use serde_json::json;

use super::{Aim, Notes, Reads, is_a_file, is_utf8};
use crate::echo::Needles;
use crate::host::Target;
use crate::policy::egress::{Addresses, Egress};
use crate::policy::{Grant, GrantName, Matching};
use crate::refusal::Reason;

fn reads(provider: Provider, tools: &[&str], fetch: &[&str]) -> Reads {
    let mut grant = Grant::new(GrantName::new("model"), Matching::at(Vec::new()));
    grant.egress = Egress {
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        fetch: fetch.iter().map(|text| Addresses::parse(text).expect("addresses")).collect(),
    };
    let (target, notes) = (Target::from_authority("model.test:443", None).expect("a target"), Notes::default());
    let secrets = Needles::of("a-real-secret-of-the-house").expect("needles");
    Reads(Arc::new(Aim { provider: Some(provider), target, grant: Arc::new(grant), secrets: Arc::new(secrets), notes }))
}

/// The reason and the inside sentence of the refusal, if it is one.
fn judged(reads: &Reads, body: &[u8], size: usize) -> Result<(), (Reason, String)> {
    let mut reading = reads.message();
    let told = body.chunks(size).try_for_each(|piece| reading.judge(piece).map(drop)).and_then(|()| reading.end());
    told.map_err(|refusal| (refusal.reason(), refusal.inside().to_owned()))
}

fn everywhere(reads: &Reads, body: &str) -> Result<(), (Reason, String)> {
    let whole = judged(reads, body.as_bytes(), body.len().max(1));
    for size in [1, 2, 7] {
        assert_eq!(judged(reads, body.as_bytes(), size), whole, "{body} in pieces of {size}");
    }
    whole
}

#[test]
fn what_agents_send_asks_the_provider_for_nothing() {
    let image = "data:image/png;base64,".to_owned() + &"A".repeat(100_000);
    for (provider, body) in [
        (Provider::Anthropic, json!({})),
        (
            Provider::Anthropic,
            json!({"model": "claude", "stream": true, "max_tokens": 1, "mcp_servers": [], "container": null, "messages": [
                {"role": "user", "content": "see https://evil.example/x and {\"tools\":[{\"type\":\"web_search_20250305\"}]}"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Fetch", "input":
                    {"url": "https://evil.example", "tools": 7, "Type": "x", "type": "web_search", "source": {"type": "odd"}, "image_url": 1, "deep": [{"server_url": "x"}]}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
                    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
                    {"type": "search_result", "source": "https://docs.example", "title": "t", "content": []},
                    {"type": "text", "text": "x", "citations": [{"type": "web_search_result_location", "url": "https://x"}]}]}]}],
                "tools": [{"name": "Bash", "description": "d", "input_schema": {"type": "object", "properties":
                    {"url": {"type": "string"}, "Tools": {"type": ["string", "null"]}, "type": {}, "TYPE": {}}}},
                    {"type": "bash_20250124", "name": "bash"}, {"type": "custom", "name": "x", "input_schema": {}}],
                "metadata": {"user_id": "u", "Type": "x"}, "thread": {"type": "create"}, "output_config": {"effort": "high"}}),
        ),
        (
            Provider::OpenaiCodex,
            json!({"type": "response.create", "model": "gpt-6.2-sol", "store": false, "instructions": "i", "input": [
                {"type": "additional_tools", "tools": [{"type": "custom", "name": "exec", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
                    {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"tools": 1, "URL": {}}}}]}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": image}]},
                {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {"TYPE": "x", "Tools": "y"}}},
                {"type": "web_search_call", "action": {"type": "open_page", "url": "https://x"}},
                {"type": "function_call", "arguments": "{\"tools\":1}"}],
                "tools": [], "tool_choice": "auto", "client_metadata": {"Url": "x"}, "text": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}),
        ),
        (
            Provider::Openai,
            json!({"model": "gpt", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "DATA:,x", "detail": "low"}}]}],
                "tools": [{"type": "function", "function": {"name": "f", "parameters": {"Tools": 1}}}], "tools_note": null, "new_number": 7, "new_word": "x"}),
        ),
    ] {
        assert_eq!(everywhere(&reads(provider, &[], &[]), &body.to_string()), Ok(()), "{body}");
    }
}

#[test]
fn provider_side_egress_is_refused_by_each_field_unless_the_grant_names_it() {
    let (a, o, c) = (Provider::Anthropic, Provider::Openai, Provider::OpenaiCodex);
    let block = |source: serde_json::Value| json!({"messages": [{"content": [{"type": "image", "source": source}]}]});
    for (provider, body, name) in [
        (a, json!({"tools": [{"name": "x"}, {"type": "web_search_20250305", "name": "web_search"}]}), "web_search"),
        (a, json!({"tools": [{"name": "web_fetch", "type": "web_fetch_20250910"}]}), "web_fetch"),
        (a, json!({"tools": [{"type": "mcp_toolset", "mcp_server_name": "m"}]}), "mcp"),
        (a, json!({"tools": [{"type": "code_execution_20250825"}]}), "code_execution"),
        (a, json!({"tools": [{"type": "computer_20250124"}]}), "computer"),
        (a, json!({"tools": [{"type": "quantum_20300101"}]}), "quantum_20300101"),
        (a, json!({"mcp_servers": [{"type": "url", "name": "m"}]}), "mcp"),
        (a, json!({"requests": [{"params": {"tools": [{"type": "web_search_20260209"}]}}]}), "web_search"),
        (a, json!({"container": {"skills": [{"type": "custom"}]}}), "code_execution"),
        (a, json!({"container": "c_1"}), "code_execution"),
        (a, json!({"new_servers": [{"address": "x"}]}), "new_servers"),
        (a, json!({"new_address": "wss://x"}), "new_address"),
        (c, json!({"tools": [{"type": "web_search", "external_web_access": true}]}), "web_search"),
        (
            c,
            json!({"input": [{"type": "additional_tools", "tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]}]}),
            "web_search",
        ),
        (
            c,
            json!({"type": "response.create", "response": {"tools": [{"type": "image_generation"}]}}),
            "image_generation",
        ),
        (o, json!({"tools": [{"type": "mcp", "server_label": "x"}]}), "mcp"),
        (o, json!({"tools": [{"type": "function", "server_url": "https://docs.example/x"}]}), "mcp"),
        (o, json!({"tools": [{"type": "function", "connector_id": "connector_gmail"}]}), "connector"),
        (o, json!({"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}), "code_interpreter"),
        (o, json!({"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}), "file_search"),
        (o, json!({"input": [{"type": "tool_search_output", "tools": [{"type": "mcp"}]}]}), "mcp"),
        (o, json!({"tool_choice": {"type": "allowed_tools", "tools": [{"type": "web_search_preview"}]}}), "web_search"),
        (o, json!({"web_search_options": {"search_context_size": "low"}}), "web_search"),
        (o, json!({"model": "gpt-4o-search-preview"}), "web_search"),
        (o, json!({"prompt": {"id": "pmpt_1"}}), "prompt"),
    ] {
        let body = body.to_string();
        let told = everywhere(&reads(provider, &[], &["https://docs.example/*"]), &body);
        assert_eq!(told, Err((Reason::ProviderEgress, format!("asks the provider for {name}"))), "{body}");
        let granted = reads(provider, &[name, "connector"], &["https://docs.example/*"]);
        // What is refused next is another matter, and named as such.
        if let Err((_, inside)) = everywhere(&granted, &body) {
            assert!(!inside.ends_with(&format!(" {name}")), "{body}: {inside}");
        } else {
            assert!(granted.notes().read()["provider_tools"].iter().any(|noted| noted.starts_with(name)), "{body}");
        }
    }
    for (provider, body) in [
        (a, block(json!({"type": "url", "url": "https://evil.example/a?q=secret"}))),
        (a, block(json!({"url": "https://evil.example/a", "type": "url"}))),
        (
            a,
            json!({"messages": [{"content": [{"type": "document", "source": {"type": "url", "url": "https://evil.example/a"}}]}]}),
        ),
        (
            a,
            json!({"messages": [{"content": [{"type": "tool_result", "content": [{"type": "image", "source": {"type": "url", "url": "https://evil.example/a"}}]}]}]}),
        ),
        (a, json!({"mcp_servers": [{"type": "url", "url": "https://evil.example/a"}]})),
        (a, json!({"messages": [{"content": [{"type": "video", "video_url": "https://evil.example/a"}]}]})),
        (o, json!({"input": [{"content": [{"type": "input_image", "image_url": "https://evil.example/a"}]}]})),
        (o, json!({"input": [{"content": [{"type": "input_file", "file_url": "https://evil.example/a"}]}]})),
        (o, json!({"input": [{"type": "computer_call_output", "output": {"image_url": "https://evil.example/a"}}]})),
        (
            o,
            json!({"messages": [{"content": [{"type": "image_url", "image_url": {"url": "https://evil.example/a"}}]}]}),
        ),
        (
            c,
            json!({"input": [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": "https://evil.example/a"}]}]}),
        ),
        (o, json!({"tools": [{"type": "mcp", "server_url": "https://evil.example/a"}]})),
    ] {
        let body = body.to_string();
        let told = everywhere(&reads(provider, &["mcp"], &["https://docs.example/*"]), &body);
        let inside = "asks the provider to fetch from https://evil.example:443".to_owned();
        assert_eq!(told, Err((Reason::ProviderEgress, inside)), "{body}");
        let granted = reads(provider, &["mcp"], &["https://evil.example/*"]);
        assert_eq!(everywhere(&granted, &body), Ok(()), "{body}");
        assert_eq!(granted.notes().read()["provider_fetch"], ["https://evil.example:443"], "{body}");
    }
}

#[test]
fn what_a_provider_might_read_otherwise_is_refused() {
    let search = r#"[{"type":"web_search_20250305"}]"#;
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for body in [
        format!(r#"{{"tools":[],"tools":{search}}}"#),
        format!(r#"{{"tools":{search},"tools":[]}}"#),
        format!(r#"{{"\u0074ools":[],"tools":{search}}}"#),
        format!(r#"{{"Tools":{search}}}"#),
        r#"{"TOOLS":null,"tools":[]}"#.to_owned(),
        format!("{{\"tool\u{17f}\":{search}}}"),
        r#"{"tools":[{"type":"custom","type":"web_search"}]}"#.to_owned(),
        r#"{"tools":[{"Type":"web_search","name":"x"}]}"#.to_owned(),
        r#"{"tools":{"type":"web_search"}}"#.to_owned(),
        r#"{"tools":["web_search"]}"#.to_owned(),
        r#"{"tools":[[{"type":"web_search"}]]}"#.to_owned(),
        r#"{"tools":[{"type":["web_search"]}]}"#.to_owned(),
        r#"{"tools":[{"type":null}]}"#.to_owned(),
        r#"{"messages":[{"content":[{"source":{"type":"odd"}}]}]}"#.to_owned(),
        r#"{"messages":[{"content":[{"source":{"type":"url","url":["x"]}}]}]}"#.to_owned(),
        r#"{"messages":[{"content":[{"image_url":["x"]}]}]}"#.to_owned(),
        format!("[{{\"tools\":{search}}}]"),
        "[]".to_owned(),
        "7".to_owned(),
        "\"x\"".to_owned(),
        "null".to_owned(),
        "\u{feff}{}".to_owned(),
        "{}{}".to_owned(),
        "{\"a\":1".to_owned(),
        "{\"a\":NaN}".to_owned(),
        format!("{{\"messages\":{deep}}}"),
    ] {
        let told = everywhere(&reads(Provider::Anthropic, &["web_search"], &[]), &body);
        assert_eq!(told.map_err(|(reason, _)| reason), Err(Reason::BadRequest), "{}", &body[..body.len().min(200)]);
    }
    // An escape is only another spelling.
    let told = everywhere(&reads(Provider::Anthropic, &[], &[]), &format!(r#"{{"\u0074ool\u0073":{search}}}"#));
    assert_eq!(told.map_err(|(reason, _)| reason), Err(Reason::ProviderEgress));
}

#[test]
fn a_body_in_another_coding_or_in_other_characters_is_refused_at_its_head() {
    let reads = reads(Provider::Anthropic, &[], &[]);
    for (name, value, is_read) in [
        ("content-encoding", "zstd", true),
        ("content-encoding", "deflate", false),
        ("content-type", "application/json; charset=utf-8", true),
        ("content-type", "application/json;charset=\"UTF-8\"", true),
        ("content-type", "application/json; charset=utf-16", false),
        ("content-type", "application/json; charset*=utf-7", false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        let told = reads.body(&headers).map(drop).map_err(|refusal| refusal.reason());
        assert_eq!(told, if is_read { Ok(()) } else { Err(Reason::BadRequest) }, "{value}");
    }
    assert!(is_utf8(b"text/plain") && !is_utf8(b"a; charset=latin1; charset=utf-8"));
}

#[test]
fn a_file_is_no_request_to_a_model_where_no_reading_of_its_path_is_one() {
    for (path, kind, is_file) in [
        ("/v1/files", "multipart/form-data; boundary=x", true),
        ("/v1/files", "application/json", false),
        ("/v1/messages", "multipart/form-data; boundary=x", false),
        ("/v1/%6dessages", "application/octet-stream", false),
        ("/v1//Messages", "application/octet-stream", false),
    ] {
        let request = http::Request::builder().uri(path).header("content-type", kind).body(()).expect("a request");
        assert_eq!(is_a_file(Provider::Anthropic, &request.into_parts().0), is_file, "{path} {kind}");
    }
}
