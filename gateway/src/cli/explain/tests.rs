//! What is explained of a house with three grants.

#![expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]

use clap::Parser;

use super::{Arguments, Exit, run};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

const HOUSE: &str = r#"
state = "s"
[[box]]
id = "one"
door = "one.sock"
[[box]]
id = "two"
door = "two.sock"
[[secret]]
name = "key"
provider = "anthropic"
kind = "api-key"
file = "nowhere"
[[grant]]
name = "model"
preset = "anthropic"
secret = "key"
[[grant]]
name = "docs"
boxes = ["one"]
hosts = ["docs.example", "*.pages.example"]
methods = ["GET", "HEAD"]
paths = ["/guide"]
[[grant]]
name = "odd-port"
hosts = ["git.example"]
ports = [8443]
unsafe_dial = "127.0.0.1:1"
"#;

const KEYS: &str = r#"
[[grant]]
name = "keys"
hosts = ["keys.example"]
query = ["page"]
headers = "x-own"
max_body = 10
[[grant]]
name = "no-admin"
deny = true
hosts = ["*.example"]
paths = "/admin"
[[grant]]
name = "watch"
observe = true
hosts = "else.example"
"#;

const BODIES: &str = r#"
[[grant]]
name = "mcp"
hosts = "mcp.example"
mcp_tools = "read_*"
[[grant]]
name = "small"
hosts = "small.example"
max_body = 10
"#;

/// Exit and text, with the folder taken out.
fn explained(line: &[&str]) -> (Exit, String) {
    explained_of(HOUSE, line)
}

fn explained_of(house: &str, line: &[&str]) -> (Exit, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("house.toml");
    std::fs::write(&file, house).expect("written");
    let before = ["explain", "--config", file.to_str().expect("a path in UTF-8"), "--box"];
    let line = Line::try_parse_from(before.iter().chain(line)).expect("arguments that can be read");
    match run(line.arguments) {
        Ok((exit, text)) => (exit, text.replace(&format!("{}/", folder.path().display()), "")),
        Err(fault) => (Exit::Usage, fault.to_string()),
    }
}

#[test]
fn what_is_allowed_names_its_grant_and_what_is_put_in() {
    let (exit, text) = explained(&["one", "GET", "https://docs.example/guide/start?a=b"]);
    assert_eq!(exit, Exit::Done);
    assert_eq!(
        text,
        "allowed: GET https://docs.example:443/guide/start of box one, by grant \"docs\"\n\
        \x20 nothing is put in, and credentials that the box sends are taken out\n\
        \x20 not looked at: where the name leads; a private address is refused then\n\
        the grants, in their order; the first that matches decides:\n\
        \x20 model                is for other hosts: api.anthropic.com\n\
        \x20 docs                 matches\n\
        \x20 odd-port             is for other hosts: git.example\n"
    );
    let (exit, text) = explained(&["one", "POST", "https://api.anthropic.com/v1/messages"]);
    assert_eq!(exit, Exit::Done);
    assert!(text.contains("the secret \"key\" is put in"), "{text}");
    assert!(text.contains("the answer is credential-outage: secret key: nowhere"), "{text}");
    let (_, text) = explained(&["one", "GET", "https://git.example:8443/x"]);
    assert!(text.contains("127.0.0.1:1 is dialled"), "{text}");
}

#[test]
fn a_near_miss_is_told_with_the_key_that_would_allow_it() {
    for (line, why, key) in [
        (
            ["one", "PUT", "https://docs.example/guide"],
            "but not this method: GET, HEAD",
            "methods = [\"GET\", \"HEAD\", \"PUT\"]",
        ),
        (
            ["one", "GET", "https://a.pages.example/other"],
            "but not this path: /guide",
            "paths = [\"/guide\", \"/other\"]",
        ),
        (["one", "GET", "https://git.example/"], "but not this port and scheme: 8443 alone", "paths = [\"/\"]"),
        (["one", "GET", "http://docs.example/guide"], "those of https alone", "plain = true"),
        (["one", "GET", "https://docs.example:9443/guide"], "those of https alone", "ports = [9443]"),
        (["two", "GET", "https://docs.example/guide"], "is for other boxes", "boxes = [\"two\"]"),
        (["two", "GET", "https://else.example/"], "is for other hosts", "hosts = [\"else.example\"]"),
    ] {
        let (exit, text) = explained(&line);
        assert_eq!(exit, Exit::Refused, "{text}");
        assert!(text.contains(why) && text.contains(key), "{line:?}: {text}");
    }
}

#[test]
fn each_key_is_told_with_what_would_allow_it() {
    let house = format!("{HOUSE}{KEYS}");
    for (line, exit, told) in [
        (
            &["one", "GET", "https://keys.example/a?all=1&page=2&%61=3"][..],
            Exit::Refused,
            &["right host, wrong query key \"all\": grant \"keys\" allows page", "query = [\"page\", \"all\", \"a\"]"]
                [..],
        ),
        (
            &["one", "GET", "https://keys.example/a?page=2;all=1"],
            Exit::Refused,
            &["a `;` in the query", "nothing: write each `;` of the query as %3B"],
        ),
        (
            &["one", "GET", "https://keys.example/a"],
            Exit::Refused,
            &["missing header: grant \"keys\" wants x-own", "nothing: send all of x-own"],
        ),
        (
            &["one", "--header", "X-Own: 1", "--header", "Content-Length: 11", "POST", "https://keys.example/a"],
            Exit::Refused,
            &["body-too-large", "to allow it by grant \"keys\"", "max_body = 11"],
        ),
        (
            &["one", "--header", "X-Own: 1", "--header", "Content-Length: 10", "POST", "https://keys.example/a"],
            Exit::Done,
            &["by grant \"keys\"", "a body of more than 10 bytes is refused"],
        ),
        (
            &["one", "--header", "X-Own: 1", "GET", "https://keys.example/Admin"],
            Exit::Refused,
            &[
                "denied, grant no-admin denies it",
                "take it out of what \"no-admin\" denies",
                "denies it, whatever is granted",
            ],
        ),
        (
            &["one", "GET", "https://else.example/x"],
            Exit::Done,
            &["by grant \"watch\"", "written down as what would be refused: no-grant", "matches where no other does"],
        ),
        (
            &["one", "GET", "https://keys.example:8443/x"],
            Exit::Refused,
            &["port-refused", "right host, wrong port: grant \"keys\" allows 443", "ports = [8443]"],
        ),
    ] {
        let (said, text) = explained_of(&house, line);
        assert_eq!(said, exit, "{line:?}: {text}");
        for part in told {
            assert!(text.contains(part), "{line:?}: no {part} in {text}");
        }
    }
}

#[test]
fn what_would_be_refused_in_a_body_is_told_with_what_would_allow_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |text: &str| {
        let file = folder.path().join("body.json");
        std::fs::write(&file, text).expect("written");
        file.display().to_string()
    };
    let house = format!("{HOUSE}{KEYS}{BODIES}");
    let (model, mcp) = ("https://api.anthropic.com/v1/messages", "https://mcp.example/mcp");
    let search = r#"{"model":"m","messages":[],"tools":[{"type":"web_search_20250305","name":"s"}]}"#;
    let fetch = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x.example/a"}}]}]}"#;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_it"}}"#;
    for (url, body, exit, told) in [
        (
            model,
            None,
            Exit::Done,
            &["tools of the provider: none; to let one through: provider_tools = [\"web_search\"]"][..],
        ),
        (model, Some(r#"{"model":"m","messages":[]}"#), Exit::Done, &["the body passes"]),
        (
            model,
            Some(search),
            Exit::Refused,
            &["provider-egress", "provider_tools = [\"web_search", "by grant \"model\""],
        ),
        (model, Some(fetch), Exit::Refused, &["provider-egress", "provider_fetch = [\"https://x.example:443/*\"]"]),
        (model, Some("no"), Exit::Refused, &["bad-request"]),
        (mcp, None, Exit::Done, &["one message of MCP", "methods: any", "mcp_tools = [\"read_*\"]"]),
        (mcp, Some(call), Exit::Refused, &["mcp-refused", "mcp_tools = [\"read_*\", \"write_it\"]"]),
        ("https://small.example/", Some("0123456789a"), Exit::Refused, &["body-too-large", "raise `max_body`"]),
        ("https://small.example/", Some("0123456789"), Exit::Done, &["the body passes"]),
    ] {
        let body = body.map(file);
        let mut line = vec!["one", "POST", url];
        line.extend(body.iter().flat_map(|body| ["--body", body.as_str()]));
        let (said, text) = explained_of(&house, &line);
        assert_eq!(said, exit, "{line:?}: {text}");
        for part in told {
            assert!(text.contains(part), "{line:?}: no {part} in {text}");
        }
    }
    let proposed =
        house.replace("secret = \"key\"\n", "secret = \"key\"\nprovider_fetch = [\"https://x.example:443/*\"]\n");
    let (said, text) = explained_of(&proposed, &["one", "POST", model, "--body", &file(fetch)]);
    assert_eq!(said, Exit::Done, "what is proposed does what it says: {text}");
}

#[test]
fn what_it_proposes_allows_just_that() {
    for line in [
        ["two", "DELETE", "https://else.example:9443/a/b"],
        ["one", "PUT", "https://docs.example/guide"],
        ["one", "GET", "http://plain.example:8080/"],
    ] {
        let (exit, text) = explained(&line);
        assert_eq!(exit, Exit::Refused);
        let (_, own) = text.rsplit_once("[[grant]]").expect("a grant of its own");
        let own: Vec<&str> = own.lines().take_while(|line| !line.starts_with("the grants")).map(str::trim).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("house.toml");
        std::fs::write(&file, format!("{HOUSE}\n[[grant]]{}\n", own.join("\n"))).expect("written");
        let before = ["explain", "--config", file.to_str().expect("a path in UTF-8"), "--box"];
        let arguments = Line::try_parse_from(before.iter().chain(&line)).expect("arguments").arguments;
        let (exit, text) = run(arguments).expect("explained");
        assert_eq!(exit, Exit::Done, "{own:?}: {text}");
    }
}

#[test]
fn what_no_grant_can_allow_proposes_none() {
    for (line, reason) in [
        (&["one", "TRACE", "https://docs.example/guide"][..], "method-never"),
        (&["one", "--header", "Transfer-Encoding: xchunked", "GET", "https://docs.example/guide"], "bad-request"),
        (
            &[
                "one",
                "--header",
                "Content-Length: 1",
                "--header",
                "Content-Length: 2",
                "GET",
                "https://docs.example/guide",
            ],
            "bad-request",
        ),
        (
            &[
                "one",
                "--header",
                "Upgrade: tcp",
                "--header",
                "Connection: upgrade",
                "GET",
                "https://docs.example/guide",
            ],
            "upgrade-refused",
        ),
        (&["one", "POST", "https://api.anthropic.com/api/oauth/claude_cli/create_api_key"], "durable-credential"),
    ] {
        let (exit, text) = explained(line);
        assert_eq!(exit, Exit::Refused, "{text}");
        assert!(text.contains(reason) && !text.contains("[[grant]]"), "{line:?}: {text}");
    }
}

#[test]
fn what_the_house_answers_itself_needs_no_grant() {
    let (exit, text) = explained(&["two", "POST", "https://platform.claude.com/v1/oauth/token"]);
    assert_eq!(exit, Exit::Done);
    assert!(text.starts_with("answered: POST https://platform.claude.com:443/v1/oauth/token of box two, by the house itself (refresh-attempt)"), "{text}");
}

#[test]
fn what_cannot_be_asked_is_said() {
    assert_eq!(
        explained(&["three", "GET", "https://docs.example/"]),
        (Exit::Usage, "no box three in this configuration; it has one, two".to_owned())
    );
    assert_eq!(
        explained(&["one", "GET", "docs.example"]),
        (Exit::Usage, "docs.example is no whole address: write https://HOST/PATH".to_owned())
    );
}
