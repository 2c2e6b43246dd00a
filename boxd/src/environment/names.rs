//! Which variables are whose: boxgate's own, those that the launch sets, and those that no agent inherits.

use std::ffi::OsStr;

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

/// Whether the name is of a setting or a place that the launch gives an agent, and that a command in the same box is told.
pub(crate) fn is_told(name: &str) -> bool {
    name == "IS_SANDBOX" || PLACES[2..].contains(&name) || SWITCHES.contains(&name)
}

/// Whether the name is one that credentials go by.
pub(crate) fn is_credential(name: &str) -> bool {
    CREDENTIALS.contains(&name) || CREDENTIAL_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Every name that the launch owns, but for its prefix.
#[cfg(test)]
pub(super) fn owned() -> impl Iterator<Item = &'static str> {
    let lists: [&[&str]; 8] = [&PROXY, &NO_PROXY, &BUNDLE, &TRUST, &PLACES, &CREDENTIALS, &ROUTES, &SWITCHES];
    lists.into_iter().flatten().copied()
}

/// Whether the name chooses another provider for claude.
pub(crate) fn names_provider(name: &str) -> bool {
    name.to_ascii_uppercase().starts_with("CLAUDE_CODE_USE_")
}

/// Whether an inherited variable is dropped: reserved ones that hold no place, and all that look like a model key.
pub(super) fn is_scrubbed(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let stays = ["HOME", "TMPDIR"].contains(&upper.as_str());
    let ends = |endings: &[&str]| endings.iter().any(|ending| upper.ends_with(ending));
    let of_an_agent = AGENTS.iter().any(|agent| upper.starts_with(agent));
    !stays && (is_reserved(name) || ends(&KEY_ENDINGS) || of_an_agent && ends(&AGENT_ENDINGS))
}

/// Whether a box that boxd makes keeps the variable.
pub(super) fn is_kept_in_isolation(name: &str) -> bool {
    ISOLATED.contains(&name) || ISOLATED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

pub(super) const PROXY: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
pub(super) const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// These replace a client's own roots, so they name the bundle.
pub(super) const BUNDLE: [&str; 9] = [
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
/// wget has no variable for roots, but one for the file of settings that is read in place of the user's own.
pub(super) const WGETRC: &str = "WGETRC";
/// Beside the bundle.
pub(crate) const WGETRC_FILE: &str = "wgetrc";
/// Set otherwise, or only removed because they would turn trust or the proxy off.
const TRUST: [&str; 12] = [
    WGETRC,
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
const PLACES: [&str; 8] = [
    "HOME",
    "TMPDIR",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "CODEX_SQLITE_HOME",
    "PI_CODING_AGENT_DIR",
    "PI_CODING_AGENT_SESSION_DIR",
    "PI_PACKAGE_DIR",
];
pub(super) const CREDENTIALS: [&str; 30] = [
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
const CREDENTIAL_ENDINGS: [&str; 4] = ["_TOKEN", "_KEY", "_SECRET", "_PASSWORD"];
const KEY_ENDINGS: [&str; 3] = ["_API_KEY", "_AUTH_TOKEN", "_OAUTH_TOKEN"];
/// Whose settings hold nothing that ends so: it would be a secret, the way to one, or a way around the house.
const AGENTS: [&str; 5] = ["ANTHROPIC_", "CLAUDE_CODE_", "CODEX_", "OPENAI_", "PI_"];
const AGENT_ENDINGS: [&str; 12] = [
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
    "_URL_OVERRIDE",
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
