//! Which arguments of the caller's codex is not given.

/// The first argument that contradicts a fixed one or the configuration, or that would make of one prompt another
/// thing than one turn. `system`: the launch gives a system text.
pub(in crate::agent) fn refused_argument(arguments: &[String], system: bool) -> Option<String> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let setting = match (name, value) {
            ("--config", Some(setting)) => Some(setting),
            ("--config" | "-c", None) => words.next().map(String::as_str),
            _ => word.strip_prefix("-c").map(|joined| joined.strip_prefix('=').unwrap_or(joined)),
        };
        if let Some(setting) = setting {
            let key = setting.split('=').next().unwrap_or(setting).trim();
            if is_ours(key, system) {
                return Some(format!("-c {key}"));
            }
            continue;
        }
        let feature = match (name, value) {
            ("--enable" | "--disable", Some(feature)) => Some(feature),
            ("--enable" | "--disable", None) => words.next().map(String::as_str),
            _ => None,
        };
        if let Some(feature) = feature.filter(|feature| FEATURES.contains(feature)) {
            return Some(format!("{name} {feature}"));
        }
        // A short option may have its value in the same word.
        let short = name.strip_prefix('-').and_then(|rest| rest.chars().next());
        if REFUSED.contains(&name) {
            return Some(name.to_owned());
        }
        if let Some(letter) = short.filter(|letter| REFUSED_LETTERS.contains(*letter)) {
            return Some(format!("-{letter}"));
        }
    }
    None
}

/// Whether the launch owns a configuration key, by its first part.
fn is_ours(key: &str, system: bool) -> bool {
    let mut parts = key.split('.').map(|part| part.trim().trim_matches(['"', '\'']));
    let first = parts.next().unwrap_or_default();
    match first {
        "features" => parts.next().is_none_or(|feature| FEATURES.contains(&feature)),
        "developer_instructions" => system,
        other => KEYS.contains(&other),
    }
}

/// With the words that begin another deed of `codex exec`; an option's value that is such a word is written with `=`.
const REFUSED: [&str; 23] = [
    "--",
    "--json",
    "--skip-git-repo-check",
    "--sandbox",
    "--ask-for-approval",
    "--approve-for-me",
    "--full-auto",
    "--dangerously-bypass-approvals-and-sandbox",
    "--yolo",
    "--cd",
    "--worktree",
    "--profile",
    "--oss",
    "--local-provider",
    "--remote",
    "--remote-auth-token-env",
    "--ignore-user-config",
    "--help",
    "--version",
    "resume",
    "fork",
    "review",
    "help",
];
/// `-s`, `-a`, `-C`, `-p`, `-h`, `-V`.
const REFUSED_LETTERS: &str = "saCphV";
/// These would undo the launch's settings, or lead past the house.
const KEYS: [&str; 22] = [
    "analytics",
    "approval_policy",
    "approvals_reviewer",
    "chatgpt_base_url",
    "check_for_update_on_startup",
    "cli_auth_credentials_store",
    "default_permissions",
    "feedback",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "model_catalog_json",
    "model_provider",
    "model_providers",
    "openai_base_url",
    "oss_provider",
    "otel",
    "permissions",
    "profile",
    "profiles",
    "sandbox_mode",
    "sandbox_permissions",
    "sandbox_workspace_write",
];
const FEATURES: [&str; 3] = ["plugins", "apps", "unbounded_connection_retries"];

#[cfg(test)]
mod tests {
    use super::refused_argument;

    fn refused(line: &str, system: bool) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        refused_argument(&words, system)
    }

    #[test]
    fn arguments_that_contradict_the_fixed_ones_are_named() {
        for (line, told) in [
            ("--json", "--json"),
            ("-s read-only", "-s"),
            ("-sread-only", "-s"),
            ("--sandbox=read-only", "--sandbox"),
            ("-a never", "-a"),
            ("-C /tmp", "-C"),
            ("--profile x", "--profile"),
            ("--oss", "--oss"),
            ("--yolo", "--yolo"),
            ("--ephemeral resume --last", "resume"),
            ("--", "--"),
            ("-V", "-V"),
            ("-c model_provider=gw", "-c model_provider"),
            ("-cmodel_provider=gw", "-c model_provider"),
            ("-c=model_provider=gw", "-c model_provider"),
            ("--config model_providers.gw.base_url=x", "-c model_providers.gw.base_url"),
            ("--config=\"otel\".exporter=x", "-c \"otel\".exporter"),
            ("-c chatgpt_base_url=x", "-c chatgpt_base_url"),
            ("-c sandbox_mode=read-only", "-c sandbox_mode"),
            ("-c features.plugins=true", "-c features.plugins"),
            ("-c features={}", "-c features"),
            ("--enable plugins", "--enable plugins"),
            ("--disable=apps", "--disable apps"),
        ] {
            assert_eq!(refused(line, false).as_deref(), Some(told), "{line}");
        }
    }

    #[test]
    fn the_users_own_choices_are_passed_on() {
        for line in [
            "--model gpt-6.2 -c model_reasoning_effort=high",
            "-mgpt-6.2 -i a.png",
            "-c mcp_servers.x.command=\"/bin/x\"",
            "-c features.web_search=false --enable web_search",
            "-c web_search=\"live\"",
            "--output-schema s.json -o last.txt --ephemeral --add-dir /tmp",
            "-c developer_instructions=x",
            "--model=review",
            "-c",
        ] {
            assert_eq!(refused(line, false), None, "{line}");
        }
        assert_eq!(refused("-c developer_instructions=x", true).as_deref(), Some("-c developer_instructions"));
    }
}
