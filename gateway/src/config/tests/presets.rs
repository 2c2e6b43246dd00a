//! Presets: what stock clients ask is allowed, what lies beside it is not, and what is printed means the same.

use http::Method;

use super::loaded;
use crate::config::Config;
use crate::config::presets;
use crate::host::Target;
use crate::policy::{Ask, Found, NormalPath, Policy, Scheme, local_route, providers};

/// Asked as `METHOD URL`; WebSocket handshakes as `WS URL`.
fn is_allowed(policy: &Policy, asked: &str) -> bool {
    let (method, url) = asked.split_once(' ').expect("a method and an address");
    let upgrades = method == "WS";
    let method = if upgrades { Method::GET } else { method.parse::<Method>().expect("a method") };
    let (scheme, rest) = url.split_once("://").expect("an address");
    let scheme = if scheme == "http" { Scheme::Http } else { Scheme::Https };
    let (host, path) = rest.split_at(rest.find('/').expect("a path"));
    let path = NormalPath::parse(path.split('?').next().expect("a path")).expect("a path");
    let target = Target::from_authority(host, Some(scheme.default_port())).expect("a target");
    if local_route(&target, &method, &path).is_some() {
        return false;
    }
    let box_id = "one".parse().expect("a box id");
    let ask = Ask {
        box_id: &box_id,
        target: &target,
        scheme,
        method: &method,
        path: &path,
        query: None,
        headers: None,
        upgrades,
    };
    matches!(policy.find(&ask), Found::Grant { .. })
}

fn config(grants: &str) -> Config {
    let (_folder, config) = loaded(&format!("{HOUSE}{grants}"), |_| {});
    config.unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn each_preset_lets_through_what_its_clients_ask_and_nothing_beside_it() {
    assert_eq!(SHAPES.len(), presets::all().len());
    for (preset, allowed, refused) in SHAPES {
        let policy = config(&format!("[[grant]]\nname = \"it\"\npreset = \"{preset}\"\n")).policy;
        for asked in *allowed {
            assert!(is_allowed(&policy, asked), "{preset}: {asked}");
        }
        for asked in *refused {
            assert!(!is_allowed(&policy, asked), "{preset}: {asked}");
        }
    }
}

#[test]
fn no_preset_names_a_whole_host() {
    for preset in presets::all() {
        let policy = config(&format!("[[grant]]\nname = \"it\"\npreset = \"{}\"\n", preset.name)).policy;
        assert!(!policy.grants().is_empty());
        for grant in policy.grants() {
            let matching = grant.matching();
            assert!(matching.methods.is_some(), "{} of {}", grant.name, preset.name);
            for host in &matching.hosts {
                for path in ["/", "/some/path/that/nobody/asks/for"] {
                    let asked = format!("GET https://{host}{path}");
                    let is_of_files = matches!(&*host.to_string(), "codeload.github.com" | "raw.githubusercontent.com")
                        || host.to_string().starts_with("cdn-lfs");
                    assert!(!is_allowed(&policy, &asked) || (is_of_files && path != "/"), "{asked}");
                }
            }
        }
    }
}

#[test]
fn what_is_shown_means_what_the_preset_means() {
    for preset in presets::all() {
        for secret in [None, Some("own")] {
            if secret.is_some() && !preset.takes_secret() {
                continue;
            }
            let whose = preset.provider.map(|provider| {
                let kind = if provider.as_str() == "openai" { "api-key" } else { "login" };
                format!("provider = \"{provider}\"\nkind = \"{kind}\"\n")
            });
            let own =
                format!("[[secret]]\nname = \"own\"\nenv = \"BOXGATE_TEST_UNSET\"\n{}", whose.unwrap_or_default());
            let given = secret.map(|secret| format!("secret = \"{secret}\"\n")).unwrap_or_default();
            let named = config(&format!("{own}[[grant]]\nname = \"it\"\npreset = \"{}\"\n{given}", preset.name));
            let pasted = config(&format!("{own}{}", preset.shown(secret)));
            let meant = |config: &Config| {
                let told = config.policy.grants().iter().map(|grant| {
                    format!("{:?} {:?} {:?} {}", grant.matching(), grant.secret, grant.serves, grant.websocket)
                });
                told.collect::<Vec<_>>()
            };
            assert_eq!(meant(&named), meant(&pasted), "{} {secret:?}", preset.name);
            let sends = named.policy.grants().iter().filter(|grant| grant.secret.is_some()).count();
            assert_eq!(sends > 0, secret.is_some(), "{}", preset.name);
        }
    }
}

#[test]
fn a_models_preset_is_where_the_models_answer() {
    let mut seen = 0;
    for preset in presets::all() {
        let Some(provider) = preset.provider else { continue };
        seen += 1;
        let policy = config(&format!("[[grant]]\nname = \"it\"\npreset = \"{}\"\n", preset.name)).policy;
        let [grant] = policy.grants() else { panic!("{} is one grant", preset.name) };
        let facts = providers::facts(provider);
        let hosts: Vec<String> = grant.matching().hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, facts.model_hosts, "{provider}");
        let paths: Vec<&str> = grant.matching().paths.iter().flatten().map(|path| path.as_str()).collect();
        assert_eq!(paths, facts.model_paths, "{provider}");
    }
    assert_eq!(seen, 3);
}

#[test]
fn chatgpt_is_another_name_of_its_preset() {
    assert_eq!(presets::named("chatgpt").map(|preset| preset.name), Some("openai-codex"));
    assert!(presets::named("ChatGPT").is_none());
}

#[test]
fn a_token_goes_to_the_hosts_that_know_it() {
    let secret = "[[secret]]\nname = \"own\"\nenv = \"BOXGATE_TEST_UNSET\"\n";
    let github = config(&format!("{secret}[[grant]]\nname = \"it\"\npreset = \"github\"\nsecret = \"own\"\n"));
    let with = |has: bool| {
        let grants = github.policy.grants().iter().filter(move |grant| grant.secret.is_some() == has);
        grants.flat_map(|grant| grant.matching().hosts.iter().map(ToString::to_string)).collect::<Vec<_>>()
    };
    assert_eq!(with(true), ["github.com", "api.github.com", "api.github.com", "uploads.github.com"]);
    assert_eq!(with(false).len(), 5);
    let forms: Vec<_> = github.policy.grants().iter().filter_map(|grant| grant.sent_as()).collect();
    assert!(matches!(forms[0].form, crate::vault::Form::Basic { .. }), "{forms:?}");
    assert!(matches!(forms[1].form, crate::vault::Form::Bearer), "{forms:?}");
}

#[test]
fn a_gitlab_of_ones_own_has_the_same_paths() {
    let policy = config("[[grant]]\nname = \"it\"\npreset = \"gitlab\"\nhosts = \"git.example\"\n").policy;
    assert!(is_allowed(&policy, "POST https://git.example/me/it.git/git-receive-pack"));
    assert!(!is_allowed(&policy, "POST https://gitlab.com/me/it.git/git-receive-pack"));
}

const HOUSE: &str = "state = \"state\"\n[[box]]\nid = \"one\"\ndoor = \"one.sock\"\n";

/// As git, npm, pip and cargo asked a server that recorded it (git 2, npm 10, pip 25, cargo 1.9x); gh, go, apt, twine's kin and
/// Hugging Face's client as their documentation says.
const SHAPES: &[(&str, &[&str], &[&str])] = &[
    (
        "anthropic",
        &["POST https://api.anthropic.com/v1/messages", "POST https://api.anthropic.com/v1/messages/count_tokens"],
        &[
            "GET https://api.anthropic.com/v1/messages",
            "POST https://api.anthropic.com/v1/files",
            "POST https://api.anthropic.com.evil.test/v1/messages",
            "WS https://api.anthropic.com/v1/messages",
        ],
    ),
    (
        "openai",
        &[
            "POST https://api.openai.com/v1/responses",
            "POST https://api.openai.com/v1/chat/completions",
            "WS https://api.openai.com/v1/responses",
        ],
        &[
            "GET https://api.openai.com/v1/responses",
            "GET https://api.openai.com/v1/responses/resp_1",
            "WS https://api.openai.com/v1/chat/completions",
            "POST https://api.openai.com/v1/files",
        ],
    ),
    (
        "openai-codex",
        &["POST https://chatgpt.com/backend-api/codex/responses", "WS https://chatgpt.com/backend-api/codex/responses"],
        &[
            "POST https://chatgpt.com/backend-api/conversation",
            "POST https://ab.chatgpt.com/backend-api/codex/responses",
        ],
    ),
    (
        "github",
        &[
            "GET https://github.com/me/it.git/info/refs?service=git-upload-pack",
            "GET https://github.com/me/it/info/refs?service=git-receive-pack",
            "POST https://github.com/me/it.git/git-upload-pack",
            "POST https://github.com/me/it.git/git-receive-pack",
            "GET https://github.com/me/it/releases/download/v1/it.tar.gz",
            "GET https://codeload.github.com/me/it/tar.gz/refs/heads/main",
            "GET https://raw.githubusercontent.com/me/it/main/README.md",
            "GET https://release-assets.githubusercontent.com/github-production-release-asset/1/x",
            "GET https://api.github.com/user",
            "GET https://api.github.com/repos/me/it",
            "GET https://api.github.com/repos/me/it/pulls/1/files",
            "GET https://api.github.com/search/issues?q=x",
            "POST https://api.github.com/graphql",
            "POST https://api.github.com/repos/me/it/pulls",
            "PATCH https://api.github.com/repos/me/it/issues/1",
            "POST https://api.github.com/repos/me/it/issues/1/comments",
            "PUT https://api.github.com/repos/me/it/contents/a/b.txt",
            "POST https://api.github.com/repos/me/it/git/refs",
            "POST https://uploads.github.com/repos/me/it/releases/1/assets?name=x",
        ],
        &[
            "DELETE https://api.github.com/repos/me/it",
            "PATCH https://api.github.com/repos/me/it",
            "POST https://api.github.com/user/repos",
            "POST https://api.github.com/user/keys",
            "POST https://api.github.com/repos/me/it/keys",
            "POST https://api.github.com/repos/me/it/hooks",
            "PUT https://api.github.com/repos/me/it/collaborators/evil",
            "PUT https://api.github.com/repos/me/it/actions/secrets/X",
            "PUT https://api.github.com/repos/me/it/branches/main/protection",
            "POST https://api.github.com/repos/me/it/issues/../keys",
            "POST https://api.github.com/orgs/me/repos",
            "POST https://api.github.com/gists",
            "POST https://github.com/login/oauth/access_token",
            "GET https://github.com/settings/tokens",
            "POST https://github.com/me/it/settings",
            "PUT https://github.com/me/it.git/git-receive-pack",
            "GET https://gist.github.com/me/1",
        ],
    ),
    (
        "gitlab",
        &[
            "GET https://gitlab.com/group/sub/it.git/info/refs?service=git-upload-pack",
            "POST https://gitlab.com/me/it.git/git-upload-pack",
            "POST https://gitlab.com/me/it.git/git-receive-pack",
            "GET https://gitlab.com/api/v4/user",
            "GET https://gitlab.com/api/v4/projects?membership=true",
            "GET https://gitlab.com/api/v4/projects/group%2Fit",
            "GET https://gitlab.com/api/v4/projects/group%2Fsub%2Fit/repository/tree",
            "POST https://gitlab.com/api/v4/projects/7/merge_requests",
            "POST https://gitlab.com/api/v4/projects/group%2Fit/issues",
            "PUT https://gitlab.com/api/v4/projects/group%2Fit/merge_requests/1/merge",
        ],
        &[
            "DELETE https://gitlab.com/api/v4/projects/7",
            "GET https://gitlab.com/api/v4/projects/7/variables",
            "GET https://gitlab.com/api/v4/projects/7/variables/issues",
            "PUT https://gitlab.com/api/v4/projects/7/variables/issues",
            "POST https://gitlab.com/api/v4/projects/7/hooks",
            "POST https://gitlab.com/api/v4/projects/group%2Fit/access_tokens",
            "POST https://gitlab.com/api/v4/user/personal_access_tokens",
            "POST https://gitlab.com/api/v4/projects/7/issues%2F..%2Fhooks",
            "POST https://gitlab.com/oauth/token",
        ],
    ),
    (
        "npm",
        &[
            "GET https://registry.npmjs.org/left-pad",
            "GET https://registry.npmjs.org/@scope%2fname",
            "GET https://registry.npmjs.org/@scope/name",
            "GET https://registry.npmjs.org/left-pad/-/left-pad-1.0.0.tgz",
            "GET https://registry.npmjs.org/@scope/name/-/name-1.0.0.tgz",
            "GET https://registry.npmjs.org/left-pad/latest",
            "GET https://registry.npmjs.org/-/v1/search?text=pad",
            "GET https://registry.npmjs.org/-/ping",
        ],
        &[
            "PUT https://registry.npmjs.org/left-pad",
            "PUT https://registry.npmjs.org/@scope%2fname",
            "POST https://registry.npmjs.org/-/npm/v1/security/advisories/bulk",
            "GET https://registry.npmjs.org/-/npm/v1/user",
            "GET https://registry.npmjs.org/-/npm/v1/tokens",
            "PUT https://registry.npmjs.org/-/user/org.couchdb.user:me",
            "GET http://registry.npmjs.org/left-pad",
        ],
    ),
    (
        "pypi",
        &[
            "GET https://pypi.org/simple/idna/",
            "GET https://pypi.org/pypi/idna/json",
            "GET https://files.pythonhosted.org/packages/aa/bb/cc/idna-3.0-py3-none-any.whl",
            "GET https://files.pythonhosted.org/packages/aa/bb/cc/idna-3.0-py3-none-any.whl.metadata",
        ],
        &[
            "POST https://upload.pypi.org/legacy/",
            "POST https://pypi.org/simple/",
            "GET https://pypi.org/manage/account/",
        ],
    ),
    (
        "cargo",
        &[
            "GET https://index.crates.io/config.json",
            "GET https://index.crates.io/se/rd/serde",
            "GET https://index.crates.io/3/s/syn",
            "GET https://index.crates.io/1/a",
            "GET https://static.crates.io/crates/serde/1.0.0/download",
            "GET https://static.crates.io/crates/serde/serde-1.0.0.crate",
            "GET https://crates.io/api/v1/crates?q=x",
        ],
        &[
            "PUT https://crates.io/api/v1/crates/new",
            "DELETE https://crates.io/api/v1/crates/x/1.0.0/yank",
            "PUT https://crates.io/api/v1/me/tokens",
            "GET https://crates.io/api/v1/me",
            "GET https://static.crates.io/readmes/x",
        ],
    ),
    (
        "go",
        &[
            "GET https://proxy.golang.org/golang.org/x/net/@v/list",
            "GET https://proxy.golang.org/golang.org/x/net/@v/v0.1.0.zip",
            "GET https://proxy.golang.org/github.com/!burnt!sushi/toml/@latest",
            "GET https://proxy.golang.org/sumdb/sum.golang.org/supported",
            "GET https://sum.golang.org/lookup/golang.org/x/net@v0.1.0",
            "GET https://sum.golang.org/tile/8/0/x001/234",
        ],
        &[
            "POST https://proxy.golang.org/golang.org/x/net/@v/list",
            "GET https://proxy.golang.org/golang.org/x/net",
            "GET https://go.dev/dl/",
        ],
    ),
    (
        "debian",
        &[
            "GET http://deb.debian.org/debian/dists/trixie/InRelease",
            "GET https://deb.debian.org/debian/pool/main/g/git/git_2.47_amd64.deb",
            "GET http://security.debian.org/debian-security/dists/trixie-security/InRelease",
        ],
        &[
            "POST http://deb.debian.org/debian/dists/x",
            "GET http://deb.debian.org/",
            "GET http://ftp.debian.org/debian/dists/x",
        ],
    ),
    (
        "huggingface",
        &[
            "GET https://huggingface.co/api/models/gpt2",
            "HEAD https://huggingface.co/gpt2/resolve/main/config.json",
            "GET https://huggingface.co/org/model/resolve/main/config.json",
            "GET https://huggingface.co/datasets/org/set/resolve/main/a.parquet",
            "GET https://cdn-lfs.huggingface.co/repos/aa/bb/cc",
            "GET https://huggingface.co/org/model/info/refs?service=git-upload-pack",
            "POST https://huggingface.co/org/model/git-upload-pack",
        ],
        &[
            "POST https://huggingface.co/api/repos/create",
            "DELETE https://huggingface.co/api/repos/delete",
            "POST https://huggingface.co/api/models/org/model/commit/main",
            "POST https://huggingface.co/org/model/git-receive-pack",
            "GET https://huggingface.co/settings/tokens",
        ],
    ),
];
