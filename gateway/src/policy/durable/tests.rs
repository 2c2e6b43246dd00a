//! Who makes durable credentials, told from their neighbours.

use http::Method;

use super::{Glob, MAKERS, makes_durable};
use crate::policy::NormalPath;

fn makes(method: &str, host: &str, path: &str) -> bool {
    let method: Method = method.parse().expect("a method");
    makes_durable(host, &method, &NormalPath::parse(path).expect("a path"))
}

#[test]
fn services_make_no_keys_and_tokens_whatever_is_granted() {
    for (method, host, path) in [
        ("POST", "api.github.com", "/user/keys"),
        ("POST", "api.github.com", "/repos/o/r/keys"),
        ("POST", "api.github.com", "/repos/o/r/../../../user/keys"),
        ("POST", "api.github.com", "/%75ser/keys/"),
        ("POST", "api.github.com", "//user//keys"),
        ("POST", "api.github.com", "/repos/o/r/actions/runners/registration-token"),
        ("POST", "api.github.com", "/app/installations/1/access_tokens"),
        ("PATCH", "api.github.com", "/applications/Iv1.x/token/scoped"),
        ("POST", "github.com", "/login/oauth/access_token"),
        ("GET", "github.com", "/login/oauth/authorize"),
        ("POST", "github.com", "/login/device/code"),
        ("POST", "github.example.com", "/api/v3/user/keys"),
        ("POST", "gitlab.com", "/oauth/token"),
        ("POST", "gitlab.com", "/api/v4/projects/1/access_tokens"),
        ("POST", "gitlab.com", "/api/v4/projects/g%2fp/deploy_keys"),
        ("POST", "gitlab.example.com", "/api/v4/user/keys"),
        ("POST", "npm.test", "/-/npm/v1/tokens"),
        ("PUT", "npm.test", "/-/user/org.couchdb.user:me"),
        ("POST", "python.test", "/_/oidc/mint-token"),
        ("PUT", "crates.test", "/api/v1/me/tokens"),
        ("POST", "huggingface.co", "/oauth/token"),
        ("GET", "sts.amazonaws.com", "/"),
        ("POST", "sts.eu-west-1.amazonaws.com", "/"),
        ("POST", "sts.googleapis.com", "/v1/token"),
        ("POST", "iamcredentials.googleapis.com", "/v1/projects/-/serviceAccounts/x:generateAccessToken"),
        ("POST", "login.microsoftonline.com", "/common/oauth2/v2.0/token"),
    ] {
        assert!(makes(method, host, path), "{method} {host} {path}");
    }
}

#[test]
fn the_work_of_the_same_services_goes_through_the_grants() {
    for (method, host, path) in [
        ("GET", "api.github.com", "/user/keys"),
        ("POST", "api.github.com", "/repos/o/keys/issues"),
        ("POST", "api.github.com", "/repos/keys/r/pulls"),
        ("POST", "api.github.com", "/repos/o/r/git/refs"),
        ("POST", "api.github.com", "/graphql"),
        ("POST", "github.com", "/o/r.git/git-receive-pack"),
        ("GET", "github.com", "/o/r/info/refs"),
        ("GET", "raw.githubusercontent.com", "/login/oauth/access_token"),
        ("POST", "gitlab.com", "/g/p.git/git-upload-pack"),
        ("POST", "gitlab.com", "/api/v4/projects/1/issues"),
        ("GET", "gitlab.com", "/api/v4/projects/1/deploy_keys"),
        ("GET", "npm.test", "/left-pad"),
        ("PUT", "npm.test", "/@scope%2fname"),
        ("GET", "python.test", "/simple/requests/"),
        ("GET", "crates.test", "/api/v1/crates/serde"),
        ("GET", "huggingface.co", "/bert/resolve/main/config.json"),
        ("GET", "s3.eu-west-1.amazonaws.com", "/bucket/key"),
        ("GET", "storage.googleapis.com", "/bucket/o"),
    ] {
        assert!(!makes(method, host, path), "{method} {host} {path}");
    }
}

#[test]
fn a_glob_takes_one_segment_or_any_number() {
    for (glob, text, fits) in [
        ("**/a/**/b", "/x/a/y/z/b", true),
        ("**/a/**/b", "/a/b", true),
        ("**/a/**/b", "/a/b/c", false),
        ("**/a/**/b", "/a/b/a/b", true),
        ("**/a/b/**", "/a/a/b", true),
        ("/a/*/b", "/a/x/b", true),
        ("/a/*/b", "/a/b", false),
        ("/a/be*/**", "/a/beside/c", true),
        ("/a/be*/**", "/a/b", false),
        ("**", "", true),
        ("/a", "/a/b", false),
        ("/a/b", "/a", false),
    ] {
        let found: Vec<&str> = text.split('/').collect();
        assert_eq!(Glob::new(glob, '/').fits(&found), fits, "{glob} {text}");
    }
}

#[test]
fn a_path_made_to_be_tried_again_and_again_takes_no_time() {
    let path = "/api/v4/api".repeat(5_000);
    let began = std::time::Instant::now();
    assert!(!makes("POST", "gitlab.com", &path));
    assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
}

#[test]
fn each_pattern_is_written_as_it_is_compared() {
    for makers in MAKERS {
        for host in makers.hosts {
            assert_eq!(*host, host.to_ascii_lowercase());
        }
        for path in makers.always.iter().chain(makers.writes) {
            assert_eq!(*path, path.to_ascii_lowercase());
            assert!(path.starts_with('/') || path.starts_with("**"), "{path}");
            assert!(!path.ends_with('/'), "{path} matches nothing: what is compared has no slash at its end");
        }
    }
}
