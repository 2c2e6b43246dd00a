//! Thirty grants as somebody writes them who has read the README and what `gateway explain` prints, each with what it is to mean:
//! the gateway itself is asked whether it means that.

use std::time::Duration;

use anyhow::{Result, ensure};
use harness::files::put;
use harness::{Case, Need, Tools, case, process};

pub(crate) const CASES: &[Case] =
    &[case("thirty::grants_written_from_the_readme_do_what_they_mean", mean).needs(&[Need::Gateway])];

/// What a grant is meant to let through, and what not: box, method and address each.
struct Meant {
    sentence: &'static str,
    lines: &'static str,
    yes: &'static [&'static str],
    no: &'static [&'static str],
}

const fn meant(
    sentence: &'static str,
    lines: &'static str,
    yes: &'static [&'static str],
    no: &'static [&'static str],
) -> Meant {
    Meant { sentence, lines, yes, no }
}

const THIRTY: [Meant; 30] = [
    meant(
        "claude may ask its models, with my login",
        "preset = \"anthropic\"\nsecret = \"anthropic\"",
        &["mine POST https://api.anthropic.com/v1/messages"],
        &[
            "mine GET https://api.anthropic.com/v1/files",
            "mine POST https://api.anthropic.com/v1/organizations/api_keys",
            "mine POST https://api.openai.com/v1/responses",
        ],
    ),
    meant(
        "the models, and nobody but box two",
        "boxes = [\"two\"]\npreset = \"anthropic\"\nsecret = \"anthropic\"",
        &["two POST https://api.anthropic.com/v1/messages"],
        &["mine POST https://api.anthropic.com/v1/messages"],
    ),
    meant(
        "an OpenAI key for codex",
        "preset = \"openai\"\nsecret = \"openai\"",
        &["mine POST https://api.openai.com/v1/responses"],
        &["mine GET https://api.openai.com/v1/files", "mine POST https://chatgpt.com/backend-api/codex/responses"],
    ),
    meant(
        "packages of npm are read",
        "preset = \"npm\"",
        &["mine GET https://registry.npmjs.org/lodash", "mine GET https://registry.npmjs.org/@types%2fnode"],
        &[
            "mine PUT https://registry.npmjs.org/lodash",
            "mine PUT https://registry.npmjs.org/-/user/org.couchdb.user:me",
        ],
    ),
    meant(
        "packages of Python are read",
        "preset = \"pypi\"",
        &["mine GET https://pypi.org/simple/requests/", "mine GET https://files.pythonhosted.org/packages/a/b/c.whl"],
        &["mine POST https://upload.pypi.org/legacy/"],
    ),
    meant(
        "crates are read",
        "preset = \"cargo\"",
        &[
            "mine GET https://index.crates.io/se/rd/serde",
            "mine GET https://static.crates.io/crates/serde/serde-1.0.0.crate",
        ],
        &["mine PUT https://crates.io/api/v1/crates/new"],
    ),
    meant(
        "modules of Go are read",
        "preset = \"go\"",
        &["mine GET https://proxy.golang.org/github.com/pkg/errors/@v/list"],
        &["mine POST https://proxy.golang.org/github.com/pkg/errors/@v/list"],
    ),
    meant(
        "Debian's packages are read",
        "preset = \"debian\"",
        &["mine GET https://deb.debian.org/debian/dists/stable/InRelease"],
        &["mine POST https://deb.debian.org/debian/dists/stable/InRelease"],
    ),
    meant(
        "GitHub without a token: public things",
        "preset = \"github\"",
        &["mine GET https://api.github.com/repos/me/it", "mine GET https://github.com/me/it.git/info/refs"],
        &["mine POST https://api.github.com/user/keys"],
    ),
    meant(
        "GitHub with my token",
        "preset = \"github\"\nsecret = \"hub\"",
        &["mine POST https://api.github.com/repos/me/it/issues"],
        &["mine POST https://api.github.com/repos/me/it/keys", "mine POST https://api.github.com/user/gpg_keys"],
    ),
    meant(
        "the documents of Rust are read",
        "hosts = [\"docs.rs\"]\nmethods = [\"GET\", \"HEAD\"]",
        &["mine GET https://docs.rs/serde", "mine HEAD https://docs.rs/", "two GET https://docs.rs/"],
        &["mine POST https://docs.rs/serde", "mine GET https://docs.rs.evil.test/", "mine GET http://docs.rs/"],
    ),
    meant(
        "a host and all below it",
        "hosts = [\"*.readthedocs.io\"]",
        &["mine GET https://flask.readthedocs.io/en/latest/", "mine GET https://readthedocs.io/"],
        &["mine GET https://notreadthedocs.io/", "mine GET https://readthedocs.org/"],
    ),
    meant(
        "two hosts, for reading",
        "hosts = [\"a.example\", \"b.example\"]\nmethods = [\"GET\"]",
        &["mine GET https://a.example/", "mine GET https://b.example/x"],
        &["mine GET https://c.example/", "mine DELETE https://a.example/"],
    ),
    meant(
        "one folder of a host",
        "hosts = [\"files.example\"]\npaths = [\"/public\"]",
        &["mine GET https://files.example/public", "mine PUT https://files.example/public/a/b"],
        &[
            "mine GET https://files.example/publicity",
            "mine GET https://files.example/public/../private",
            "mine GET https://files.example/public/%2e%2e/private",
        ],
    ),
    meant(
        "one path and nothing below it",
        "hosts = [\"api.example\"]\npaths = [\"/v1/models$\"]",
        &["mine GET https://api.example/v1/models"],
        &["mine GET https://api.example/v1/models/1", "mine GET https://api.example/v1"],
    ),
    meant(
        "the first page alone",
        "hosts = [\"news.example\"]\npaths = [\"/$\"]\nmethods = [\"GET\"]",
        &["mine GET https://news.example/"],
        &["mine GET https://news.example/login"],
    ),
    meant(
        "issues of any of my repositories",
        "hosts = [\"api.github.com\"]\nsecret = \"hub\"\npaths = [\"/repos/me/*/issues\"]\nmethods = [\"GET\", \"POST\"]",
        &["mine POST https://api.github.com/repos/me/one/issues"],
        &[
            "mine POST https://api.github.com/repos/you/one/issues",
            "mine GET https://api.github.com/repos/me/one/issues/1",
            "mine DELETE https://api.github.com/repos/me/one/issues",
        ],
    ),
    meant(
        "issues, and all that belongs to them",
        "hosts = [\"tracker.example\"]\npaths = [\"/repos/*/*/issues/**\"]",
        &[
            "mine GET https://tracker.example/repos/a/b/issues",
            "mine POST https://tracker.example/repos/a/b/issues/1/comments",
        ],
        &["mine GET https://tracker.example/repos/a/issues", "mine GET https://tracker.example/repos/a/b/keys"],
    ),
    meant(
        "a service at another port",
        "hosts = [\"git.example\"]\nports = [8443]",
        &["mine GET https://git.example:8443/x"],
        &["mine GET https://git.example/x", "mine GET https://git.example:22/x"],
    ),
    meant(
        "the usual port and another",
        "hosts = [\"git.example\"]\nports = [443, 8443]",
        &["mine GET https://git.example:8443/x", "mine GET https://git.example/x"],
        &["mine GET https://git.example:9443/x"],
    ),
    meant(
        "a mirror without TLS",
        "hosts = [\"mirror.example\"]\nplain = true\nmethods = [\"GET\"]",
        &["mine GET http://mirror.example/debian", "mine GET https://mirror.example/debian"],
        &["mine POST http://mirror.example/debian", "mine GET http://other.example/"],
    ),
    meant(
        "searching, without any other parameter",
        "hosts = [\"search.example\"]\npaths = [\"/search\"]\nmethods = [\"GET\"]\nquery = [\"q\", \"page\"]",
        &["mine GET https://search.example/search?q=boxes&page=2", "mine GET https://search.example/search"],
        &[
            "mine GET https://search.example/search?q=x&callback=evil",
            "mine GET https://search.example/search?q=x;callback=evil",
        ],
    ),
    meant(
        "reading, with no parameter at all",
        "hosts = [\"plain.example\"]\nquery = []",
        &["mine GET https://plain.example/a"],
        &["mine GET https://plain.example/a?data=stolen"],
    ),
    meant(
        "an API of which the version must be said",
        "hosts = [\"dated.example\"]\nheaders = [\"x-version\"]",
        &["mine GET https://dated.example/ X-Version: 2"],
        &["mine GET https://dated.example/"],
    ),
    meant(
        "small things may be sent",
        "hosts = [\"paste.example\"]\nmethods = [\"POST\"]\nmax_body = 1000",
        &["mine POST https://paste.example/ Content-Length: 1000"],
        &["mine POST https://paste.example/ Content-Length: 1001"],
    ),
    meant(
        "a live feed",
        "hosts = [\"feed.example\"]\nwebsocket = true",
        &["mine GET https://feed.example/live Upgrade: websocket", "mine GET https://feed.example/old"],
        &["mine GET https://other.example/live Upgrade: websocket"],
    ),
    meant(
        "pages, and no live feed",
        "hosts = [\"pages.example\"]",
        &["mine GET https://pages.example/live"],
        &["mine GET https://pages.example/live Upgrade: websocket"],
    ),
    meant(
        "my own service with its token",
        "hosts = [\"api.own.example\"]\nsecret = \"hub\"\npaths = [\"/v2\"]",
        &["mine POST https://api.own.example/v2/things"],
        &[
            "mine POST https://api.own.example/v1/things",
            "mine POST https://www.own.example/v2/things",
            "mine GET http://api.own.example/v2/things",
        ],
    ),
    meant(
        "one box may write where all may read",
        "name = \"reads\"\nhosts = [\"wiki.example\"]\nmethods = [\"GET\"]\n[[grant]]\nname = \"writes\"\nboxes = [\"two\"]\nhosts = [\"wiki.example\"]\nmethods = [\"POST\"]",
        &["mine GET https://wiki.example/a", "two GET https://wiki.example/a", "two POST https://wiki.example/a"],
        &["mine POST https://wiki.example/a"],
    ),
    meant(
        "whatever is asked, wherever: a box that is watched",
        "boxes = [\"two\"]\nhosts = [\"*\"]",
        &["two GET https://anything.example/", "two DELETE https://else.test/x"],
        &[
            "mine GET https://anything.example/",
            "two TRACE https://anything.example/",
            "two POST https://api.github.com/user/keys",
            "two GET http://anything.example/",
        ],
    ),
];

fn mean() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut asked = 0;
    for (at, Meant { sentence, lines, yes, no }) in THIRTY.iter().enumerate() {
        ensure!(!yes.is_empty() && !no.is_empty(), "{sentence}: says nothing");
        let file = folder.path().join(format!("house-{at}.toml"));
        put(
            &file,
            format!("{HOUSE}[[grant]]\nname = \"mine\"\n{lines}\n").replace("name = \"mine\"\nname", "name").as_bytes(),
            0o600,
        )?;
        let file = file.display().to_string();
        for (requests, code) in [(yes, 0), (no, 77)] {
            for request in *requests {
                let mut words = request.splitn(4, ' ');
                let (of, method, address) = (words.next(), words.next(), words.next());
                let mut command = std::process::Command::new(Tools::gateway()?);
                command.args(["explain", "--config", &file, "--box"]).args(of);
                for header in words.flat_map(headers) {
                    command.args(["--header", &header]);
                }
                command.args(method).args(address).env_clear();
                let ran = process::run(command, None, Duration::from_secs(10))?;
                let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &ran.stderr;
                ensure!(ran.code == Some(code), "{sentence}: {request} ends with {:?}: {said}", ran.code);
                asked += 1;
            }
        }
    }
    ensure!(asked >= 100, "only {asked} requests were asked about");
    Ok(())
}

/// One header, or those of a WebSocket's handshake.
fn headers(one: &str) -> Vec<String> {
    let handshake = ["Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];
    let more = if one.starts_with("Upgrade") { &handshake[..] } else { &[] };
    [one].iter().chain(more).map(|header| (*header).to_owned()).collect()
}

const HOUSE: &str = r#"state = "state"
[[box]]
id = "mine"
door = "mine.sock"
[[box]]
id = "two"
door = "two.sock"
[[secret]]
name = "anthropic"
provider = "anthropic"
kind = "auto"
env = "ANTHROPIC_API_KEY"
[[secret]]
name = "openai"
provider = "openai"
kind = "api-key"
env = "OPENAI_API_KEY"
[[secret]]
name = "hub"
env = "HUB_TOKEN"
"#;
