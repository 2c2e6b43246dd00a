//! The agent's environment: scrubbed of every credential and every way around the house, then built.
//!
//! Pure: from variables to variables.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Variables by name.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Variables(BTreeMap<OsString, OsString>);

/// What the launch knows when it builds an environment.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    /// The port of the shim.
    pub(crate) port: u16,
    /// The house's certificate alone.
    pub(crate) ca: &'a Path,
    /// The image's own roots and the house's certificate.
    pub(crate) bundle: &'a Path,
    pub(crate) home: &'a Path,
    pub(crate) session: &'a Path,
    pub(crate) workspace: Option<&'a Path>,
    pub(crate) run: &'a str,
    pub(crate) ceiling_seconds: Option<u64>,
}

impl Variables {
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    pub(crate) fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// Keeps what says how to run, for a box that boxd makes: the caller's own environment is full of what is nobody
    /// else's, under any name. The rest is overwritten in memory.
    pub(crate) fn keep_for_isolation(&mut self) {
        for (name, value) in std::mem::take(&mut self.0) {
            if is_kept_in_isolation(&name.to_string_lossy()) {
                self.0.insert(name, value);
            } else {
                wipe(value);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

/// Prints names only: a value may be a secret.
impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Removes what an agent must not inherit, and leaves no copy of it in memory.
pub(crate) fn scrub(given: BTreeMap<OsString, OsString>) -> Variables {
    let mut kept = BTreeMap::new();
    for (name, value) in given {
        if is_scrubbed(&name.to_string_lossy()) {
            wipe(value);
        } else {
            kept.insert(name, value);
        }
    }
    Variables(kept)
}

fn wipe(value: OsString) {
    let mut bytes = value.into_encoded_bytes();
    bytes.fill(0);
    std::hint::black_box(&bytes);
}

/// The environment that every agent gets: what was given, what `--env` adds, and then what the launch sets.
pub(crate) fn build(given: &Variables, extra: &Variables, around: &Surroundings<'_>) -> Variables {
    let mut built = given.clone();
    built.0.extend(extra.0.clone());
    built.set("HOME", around.home);
    let proxy = format!("http://127.0.0.1:{}", around.port);
    for name in PROXY {
        built.set(name, &proxy);
    }
    for name in NO_PROXY {
        built.set(name, "localhost,127.0.0.1,::1");
    }
    built.set("NODE_USE_ENV_PROXY", "1");
    built.set("NODE_EXTRA_CA_CERTS", around.ca);
    for name in BUNDLE {
        built.set(name, around.bundle);
    }
    append_git_setting(&mut built, "http.proxyAuthMethod", "basic");
    built.set("BOXGATE_RUN", around.run);
    built.set("BOXGATE_SESSION_DIR", around.session);
    if let Some(workspace) = around.workspace {
        built.set("BOXGATE_WORKSPACE", workspace);
    }
    if let Some(seconds) = around.ceiling_seconds {
        built.set("BOXGATE_CEILING_MINUTES", minutes(seconds));
    }
    built
}

/// Minutes as people write them: whole where they are whole.
pub(crate) fn minutes(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (whole, 0) => whole.to_string(),
        (whole, rest) => format!("{whole}.{:02}", rest * 100 / 60),
    }
}

/// Whether the name belongs to boxgate itself.
pub(crate) fn is_own(name: &OsStr) -> bool {
    name.to_string_lossy().to_ascii_uppercase().starts_with("BOXGATE_")
}

/// Whether the launch owns the name, so that `--env` may not set it. Case makes no difference.
pub(crate) fn is_reserved(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let named = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(&upper));
    upper.starts_with("BOXGATE_")
        || named(&PROXY)
        || named(&NO_PROXY)
        || named(&BUNDLE)
        || named(&TRUST)
        || named(&PLACES)
        || named(&CREDENTIALS)
        || named(&ROUTES)
        || named(&SWITCHES)
}

/// Whether an inherited variable is dropped: reserved ones that hold no place, and all that look like a model key.
fn is_scrubbed(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let stays = ["HOME", "TMPDIR"].contains(&upper.as_str());
    let ends = |endings: &[&str]| endings.iter().any(|ending| upper.ends_with(ending));
    let of_an_agent = AGENTS.iter().any(|agent| upper.starts_with(agent));
    !stays && (is_reserved(name) || ends(&KEY_ENDINGS) || of_an_agent && ends(&AGENT_ENDINGS))
}

fn is_kept_in_isolation(name: &str) -> bool {
    ISOLATED.contains(&name) || ISOLATED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Adds one git setting behind those that are there already. A count that is no number counts as none.
fn append_git_setting(built: &mut Variables, key: &str, value: &str) {
    let count = built.get("GIT_CONFIG_COUNT").and_then(OsStr::to_str);
    let count = count.and_then(|count| count.parse::<u16>().ok()).unwrap_or(0);
    built.set(format!("GIT_CONFIG_KEY_{count}"), key);
    built.set(format!("GIT_CONFIG_VALUE_{count}"), value);
    built.set("GIT_CONFIG_COUNT", count.saturating_add(1).to_string());
}

const PROXY: [&str; 6] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// These replace a client's own roots, so they name the bundle.
const BUNDLE: [&str; 9] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CODEX_CA_CERTIFICATE",
    "DENO_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
];
/// Set otherwise, or only removed because they would turn trust or the proxy off.
const TRUST: [&str; 11] = [
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_ENV_PROXY",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "SSL_CERT_DIR",
    "GIT_SSL_CAPATH",
    "GIT_SSL_NO_VERIFY",
    "DENO_TLS_CA_STORE",
    "FTP_PROXY",
    "SOCKS_PROXY",
    "WS_PROXY",
    "WSS_PROXY",
];
const PLACES: [&str; 5] = ["HOME", "TMPDIR", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR"];
const CREDENTIALS: [&str; 30] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_OAUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
    "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
    "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
    "OPENAI_API_KEY",
    "OPENAI_ADMIN_KEY",
    "CODEX_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "AZURE_OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "OPENROUTER_API_KEY",
    "ZAI_API_KEY",
    "GROQ_API_KEY",
    "DEEPSEEK_API_KEY",
    "XAI_API_KEY",
    "MISTRAL_API_KEY",
    "CEREBRAS_API_KEY",
    "HF_TOKEN",
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];
/// These would send an agent to another host or provider than the one that the house serves.
const ROUTES: [&str; 13] = [
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "OPENAI_BASE_URL",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
];
/// Telemetry and update switches.
const SWITCHES: [&str; 9] = [
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_ENABLE_TELEMETRY",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
    "DO_NOT_TRACK",
    "PI_OFFLINE",
    "PI_SKIP_VERSION_CHECK",
    "PI_TELEMETRY",
];
const KEY_ENDINGS: [&str; 3] = ["_API_KEY", "_AUTH_TOKEN", "_OAUTH_TOKEN"];
/// Whose settings hold nothing that ends so: it would be a secret, the way to one, or a way around the house.
const AGENTS: [&str; 5] = ["ANTHROPIC_", "CLAUDE_CODE_", "CODEX_", "OPENAI_", "PI_"];
const AGENT_ENDINGS: [&str; 11] = [
    "_TOKEN",
    "_SECRET",
    "_PASSWORD",
    "_PASSPHRASE",
    "_KEY",
    "_CERT",
    "_CREDS_FILE",
    "_FILE_DESCRIPTOR",
    "_PROXY",
    "_URL",
    "_SOCKET",
];

/// What an isolated box keeps of the caller's environment; more comes by `--env`.
const ISOLATED: [&str; 12] = [
    "API_TIMEOUT_MS",
    "COLORTERM",
    "COLUMNS",
    "FORCE_COLOR",
    "IS_SANDBOX",
    "LANG",
    "LANGUAGE",
    "LINES",
    "NO_COLOR",
    "PATH",
    "TERM",
    "TZ",
];
/// The agents' own settings; those among them that are credentials are gone before.
const ISOLATED_PREFIXES: [&str; 4] = ["CLAUDE_CODE_", "CODEX_", "LC_", "PI_"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::path::Path;

    use super::{BUNDLE, CREDENTIALS, NO_PROXY, PROXY, Surroundings, Variables, build, is_reserved, minutes, scrub};

    fn given(names: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        names.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    fn built(names: &[(&str, &str)]) -> Variables {
        let around = Surroundings {
            port: 3128,
            ca: Path::new("/s/ca.pem"),
            bundle: Path::new("/s/bundle.pem"),
            home: Path::new("/home/a"),
            session: Path::new("/s"),
            workspace: None,
            run: "r",
            ceiling_seconds: Some(90),
        };
        build(&scrub(given(names)), &Variables::default(), &around)
    }

    #[test]
    fn no_key_of_any_provider_is_inherited() {
        let planted: Vec<(&str, &str)> = CREDENTIALS.iter().map(|name| (*name, "REAL")).collect();
        let more = [("anthropic_api_key", "REAL"), ("NEWCOMER_API_KEY", "REAL"), ("Some_Auth_Token", "REAL")];
        let built = built(&[planted, more.to_vec()].concat());
        assert!(built.iter().all(|(_, value)| value != "REAL"), "{built:?}");
    }

    #[test]
    fn proxy_and_trust_variables_of_the_image_never_win() {
        let names =
            PROXY.iter().chain(&NO_PROXY).chain(&BUNDLE).chain(&["Https_Proxy", "NODE_TLS_REJECT_UNAUTHORIZED"]);
        let planted: Vec<(&str, &str)> = names.map(|name| (*name, "THEIRS")).collect();
        let built = built(&planted);
        assert!(built.iter().all(|(_, value)| value != "THEIRS"), "{built:?}");
        for name in PROXY {
            assert_eq!(built.get(name).expect(name), "http://127.0.0.1:3128");
        }
        for name in BUNDLE {
            assert_eq!(built.get(name).expect(name), "/s/bundle.pem");
        }
        assert_eq!(built.get("NODE_EXTRA_CA_CERTS").expect("set"), "/s/ca.pem");
    }

    #[test]
    fn git_settings_are_appended_to() {
        let fresh = built(&[]);
        assert_eq!(fresh.get("GIT_CONFIG_COUNT").expect("set"), "1");
        let more = built(&[("GIT_CONFIG_COUNT", "2"), ("GIT_CONFIG_KEY_0", "a.b"), ("GIT_CONFIG_KEY_1", "c.d")]);
        assert_eq!(more.get("GIT_CONFIG_COUNT").expect("set"), "3");
        assert_eq!(more.get("GIT_CONFIG_KEY_0").expect("kept"), "a.b");
        assert_eq!(more.get("GIT_CONFIG_KEY_2").expect("added"), "http.proxyAuthMethod");
    }

    #[test]
    fn what_is_not_known_is_absent_and_the_rest_of_the_environment_stays() {
        let built = built(&[("LANG", "C.UTF-8"), ("CLAUDE_CODE_MAX_RETRIES", "2")]);
        assert!(built.get("BOXGATE_WORKSPACE").is_none());
        assert_eq!(built.get("BOXGATE_CEILING_MINUTES").expect("set"), "1.50");
        assert_eq!(built.get("LANG").expect("kept"), "C.UTF-8");
        assert_eq!(built.get("CLAUDE_CODE_MAX_RETRIES").expect("kept"), "2");
    }

    #[test]
    fn an_isolated_box_knows_little_of_its_caller() {
        let mut kept = scrub(given(&[
            ("DATABASE_URL", "REAL"),
            ("SSH_AUTH_SOCK", "REAL"),
            ("GIT_CONFIG_VALUE_0", "REAL"),
            ("CLAUDE_CODE_OAUTH_TOKEN", "REAL"),
            ("CLAUDE_CODE_MAX_RETRIES", "2"),
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
        ]));
        kept.keep_for_isolation();
        let names: Vec<_> = kept.iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["CLAUDE_CODE_MAX_RETRIES", "LC_ALL", "PATH"]);
    }

    #[test]
    fn reserved_names_are_reserved_in_both_cases() {
        for name in [
            "HOME",
            "https_proxy",
            "HTTPS_PROXY",
            "Ssl_Cert_File",
            "ANTHROPIC_API_KEY",
            "BOXGATE_X",
            "CODEX_HOME",
            "DISABLE_TELEMETRY",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["PATH", "LANG", "IS_SANDBOX", "MY_PROXY_HOST", "CLAUDE_CODE_MAX_RETRIES"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn minutes_read_as_people_write_them() {
        assert_eq!([60, 3600, 15, 90].map(minutes), ["1", "60", "0.25", "1.50"]);
    }
}
