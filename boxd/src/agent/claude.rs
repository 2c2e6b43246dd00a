//! claude, as measured with 2.1.332: with these files and variables a run makes its model calls and no others.

use box_spec::{Agent, CredentialKind, Provider};
use serde::Deserialize;
use serde_json::json;

use super::{
    ARGUMENT_LIMIT, Answer, ArgumentRefused, Content, IN_A_CENTURY, Place, Plan, PlanFault, PlannedFile, Task, Word,
    processor,
};

pub(super) fn plan(task: &Task<'_>) -> Result<Plan, PlanFault> {
    let mut sentinels = task.sentinels.iter();
    let sentinel = sentinels.find(|sentinel| sentinel.provider == Provider::Anthropic);
    let sentinel = sentinel.ok_or_else(|| PlanFault::no_sentinel(Agent::Claude))?;
    let mut variables = vec![
        ("CLAUDE_CONFIG_DIR", task.home.display().to_string()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_TELEMETRY", "1".to_owned()),
        ("DISABLE_ERROR_REPORTING", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
    ];
    // claude refuses to skip permissions as root unless it is told that it is in a sandbox. A user's word wins.
    if task.uid == 0 && !task.sandbox_is_set {
        variables.push(("IS_SANDBOX", "1".to_owned()));
    }
    let credentials = match sentinel.kind {
        CredentialKind::Login => Content::Whole(login(&sentinel.access, sentinel.refresh.as_deref())),
        CredentialKind::ApiKey => {
            variables.push(("ANTHROPIC_API_KEY", sentinel.access.clone()));
            Content::Absent
        }
    };
    let (arguments, stdin) = arguments(task);
    let mut files = vec![PlannedFile { place: Place::AgentHome, name: ".credentials.json", content: credentials }];
    // With CLAUDE_CONFIG_DIR set some versions look for it there, some in HOME.
    files.extend([Place::AgentHome, Place::UserHome].map(|place| PlannedFile {
        place,
        name: ".claude.json",
        content: Content::Merged { key: "hasCompletedOnboarding", value: true },
    }));
    Ok(Plan { files, arguments, stdin, variables })
}

/// Refuses what contradicts the fixed arguments, or would make of one prompt another thing than one turn.
pub(super) fn check_arguments(arguments: &[String], system: bool) -> Result<(), ArgumentRefused> {
    if let Some(name) = refused_argument(arguments, system) {
        return Err(ArgumentRefused::Fixed(name, Agent::Claude));
    }
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let id = match word.strip_prefix(SESSION_ID) {
            Some("") => words.next().map(String::as_str),
            Some(rest) => rest.strip_prefix('='),
            None => continue,
        };
        if let Some(id) = id.filter(|id| !is_uuid(id)) {
            return Err(ArgumentRefused::SessionId(id.to_owned()));
        }
    }
    Ok(())
}

fn refused_argument(arguments: &[String], system: bool) -> Option<String> {
    let refused = |argument: &String| {
        let name = argument.split('=').next().unwrap_or(argument);
        // Short options can be written together, so every letter counts.
        let short = name.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        // What follows the letter may be a prompt, which is nobody else's.
        if let Some(letter) = short.and_then(|letters| letters.chars().find(|letter| REFUSED_LETTERS.contains(*letter)))
        {
            return Some(format!("-{letter}"));
        }
        // claude takes the last of two system texts and drops the other.
        let second = system && SYSTEM.contains(&name);
        (name == "--" || second || REFUSED.contains(&name)).then(|| name.to_owned())
    };
    arguments.iter().find_map(refused)
}

/// Groups of hexadecimal digits: 8, 4, 4, 4, 12.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lengths == [8, 4, 4, 4, 12] && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// claude's `result` event.
pub(super) fn hear(line: &[u8]) -> Option<Word> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type")]
        kind: std::borrow::Cow<'a, str>,
        #[serde(default)]
        subtype: std::borrow::Cow<'a, str>,
        #[serde(default)]
        is_error: bool,
        result: Option<String>,
        errors: Option<serde_json::Value>,
    }
    let event: Event<'_> = serde_json::from_slice(line).ok()?;
    match (&*event.kind, &*event.subtype) {
        ("system", "init") => return Some(Word::Anew),
        ("result", _) => {}
        _ => return None,
    }
    let told = || event.errors.as_ref().and_then(first_text);
    let text = event.result.or_else(told).unwrap_or_else(|| event.subtype.into_owned());
    Some(Word::Final(Answer { text, is_error: event.is_error }))
}

pub(super) fn native_programs() -> Vec<(String, &'static str)> {
    let processor = processor();
    let musl = std::path::Path::new(&format!("/lib/ld-musl-{}.so.1", std::env::consts::ARCH)).exists();
    let endings = if musl { ["-musl", ""] } else { ["", "-musl"] };
    endings.map(|ending| (format!("@anthropic-ai/claude-code-linux-{processor}{ending}"), "claude")).into()
}

/// A login as claude stores one. It lasts for a century, so that claude never thinks of a refresh; the scope and the
/// subscription are the ones with which it asks for nothing but the model.
fn login(access: &str, refresh: Option<&str>) -> String {
    let mut login = json!({
        "accessToken": access,
        "expiresAt": IN_A_CENTURY,
        "scopes": ["user:inference"],
        "subscriptionType": "max",
        "rateLimitTier": "default_claude_max_20x",
    });
    if let Some(refresh) = refresh {
        login["refreshToken"] = json!(refresh);
        login["refreshTokenExpiresAt"] = json!(IN_A_CENTURY);
    }
    json!({ "claudeAiOauth": login }).to_string()
}

/// The whole argument list, with the prompt or without it.
fn arguments(task: &Task<'_>) -> (Vec<String>, Option<String>) {
    let fixed = ["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"];
    let mut arguments: Vec<String> = fixed.map(str::to_owned).into();
    if let Some(system) = task.system {
        arguments.extend([APPEND_SYSTEM.to_owned(), system.to_owned()]);
    }
    arguments.extend_from_slice(task.arguments);
    // Who names MCP servers means these, not the ones that the workspace brings along.
    let named = |option: &str| task.arguments.iter().any(|given| given.split('=').next() == Some(option));
    if named("--mcp-config") && !named(STRICT_MCP) {
        arguments.push(STRICT_MCP.to_owned());
    }
    if task.prompt.len() > ARGUMENT_LIMIT {
        return (arguments, Some(task.prompt.to_owned()));
    }
    arguments.extend(["--".to_owned(), task.prompt.to_owned()]);
    (arguments, None)
}

fn first_text(errors: &serde_json::Value) -> Option<String> {
    errors.as_array()?.iter().find_map(|error| error.as_str()).map(str::to_owned)
}

const REFUSED: [&str; 17] = [
    "--print",
    "--output-format",
    "--input-format",
    "--permission-mode",
    "--permission-prompt-tool",
    "--dangerously-skip-permissions",
    "--allow-dangerously-skip-permissions",
    "--replay-user-messages",
    "--resume",
    "--continue",
    "--fork-session",
    "--from-pr",
    "--bg",
    "--background",
    "--version",
    "--help",
    "--worktree",
];
/// `-p`, `-c`, `-r`, `-v`, `-h`, `-w`.
const REFUSED_LETTERS: &str = "pcrvhw";
const SESSION_ID: &str = "--session-id";
const STRICT_MCP: &str = "--strict-mcp-config";
const APPEND_SYSTEM: &str = "--append-system-prompt";
const SYSTEM: [&str; 2] = [APPEND_SYSTEM, "--append-system-prompt-file"];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use box_spec::{CredentialKind, Provider, Sentinel};

    use super::{ARGUMENT_LIMIT, Agent, ArgumentRefused, Content, Plan, Task, Word, check_arguments, hear, plan};
    use crate::agent::Standing;

    fn planned(prompt: &str, kind: CredentialKind, uid: u32) -> Plan {
        let sentinels = [Sentinel {
            provider: Provider::Anthropic,
            kind,
            access: "sk-ant-boxgate-sentinel-a".to_owned(),
            refresh: (kind == CredentialKind::Login).then(|| "sk-ant-boxgate-sentinel-r".to_owned()),
        }];
        let arguments = ["--model".to_owned(), "x".to_owned()];
        let home = Path::new("/s/claude");
        let standing = Standing::new();
        let task = Task {
            prompt,
            system: None,
            arguments: &arguments,
            sentinels: &sentinels,
            home,
            uid,
            sandbox_is_set: false,
            standing: &standing,
            catalog: None,
            now: "2026-11-30T12:00:00Z",
        };
        plan(&task).expect("a plan")
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn credentials(plan: &Plan) -> &Content {
        &plan.files.iter().find(|file| file.name == ".credentials.json").expect("planned").content
    }

    #[test]
    fn the_prompt_is_the_last_argument_behind_two_dashes() {
        let plan = planned("--help", CredentialKind::Login, 1000);
        let want = "-p --output-format stream-json --verbose --dangerously-skip-permissions --model x -- --help";
        assert_eq!(plan.arguments.join(" "), want);
        assert_eq!(plan.stdin, None);
    }

    #[test]
    fn a_prompt_too_long_for_an_argument_goes_through_stdin_alone() {
        let long = "a".repeat(ARGUMENT_LIMIT + 1);
        let plan = planned(&long, CredentialKind::Login, 1000);
        assert_eq!(plan.stdin.as_deref(), Some(long.as_str()));
        assert_eq!(plan.arguments.last().map(String::as_str), Some("x"));
    }

    #[test]
    fn a_login_has_every_field_and_lasts_a_century() {
        let plan = planned("hi", CredentialKind::Login, 1000);
        let Content::Whole(text) = credentials(&plan) else { panic!("no file") };
        let want = concat!(
            r#"{"claudeAiOauth":{"accessToken":"sk-ant-boxgate-sentinel-a","expiresAt":4922899200000,"#,
            r#""rateLimitTier":"default_claude_max_20x","refreshToken":"sk-ant-boxgate-sentinel-r","#,
            r#""refreshTokenExpiresAt":4922899200000,"scopes":["user:inference"],"subscriptionType":"max"}}"#,
        );
        assert_eq!(text, want);
        assert!(!plan.variables.iter().any(|(name, _)| *name == "ANTHROPIC_API_KEY"));
    }

    #[test]
    fn an_api_key_is_a_variable_and_an_older_login_goes() {
        let plan = planned("hi", CredentialKind::ApiKey, 1000);
        assert_eq!(*credentials(&plan), Content::Absent);
        assert!(plan.variables.contains(&("ANTHROPIC_API_KEY", "sk-ant-boxgate-sentinel-a".to_owned())));
    }

    #[test]
    fn root_is_told_that_it_is_in_a_sandbox() {
        let sandbox =
            |uid| planned("hi", CredentialKind::Login, uid).variables.contains(&("IS_SANDBOX", "1".to_owned()));
        assert!(sandbox(0) && !sandbox(1000));
    }

    #[test]
    fn arguments_that_contradict_the_fixed_ones_are_named() {
        for (given, refused) in [
            (&["--output-format", "text"][..], Some("--output-format")),
            (&["--output-format=text"], Some("--output-format")),
            (&["-p"], Some("-p")),
            (&["-dp"], Some("-p")),
            (&["--"], Some("--")),
            (&["--permission-mode", "plan"], Some("--permission-mode")),
            (&["--resume", "x"], Some("--resume")),
            (&["--model", "opus", "--append-system-prompt", "be kind"], None),
        ] {
            let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
            let want = refused.map_or(Ok(()), |name| Err(ArgumentRefused::Fixed(name.to_owned(), Agent::Claude)));
            assert_eq!(check_arguments(&given, false), want, "{given:?}");
        }
        let two = words("--append-system-prompt kind");
        assert!(check_arguments(&two, true).is_err(), "claude would drop one of two system texts");
    }

    #[test]
    fn a_session_id_must_be_a_uuid() {
        for (line, told) in [
            ("--session-id 6ba7b810-9dad-11d1-80b4-00c04fd430c8", None),
            ("--session-id=6BA7B810-9DAD-11D1-80B4-00C04FD430C8", None),
            ("--session-id mine", Some("mine")),
            ("--session-id=", Some("")),
            ("--model x --session-id=6ba7b8109dad11d180b400c04fd430c8", Some("6ba7b8109dad11d180b400c04fd430c8")),
            ("--session-id 6ba7b810-9dad-11d1-80b4-00c04fd430cg", Some("6ba7b810-9dad-11d1-80b4-00c04fd430cg")),
        ] {
            let want = told.map_or(Ok(()), |id| Err(ArgumentRefused::SessionId(id.to_owned())));
            assert_eq!(check_arguments(&words(line), false), want, "{line}");
        }
    }

    #[test]
    fn only_the_result_event_is_final() {
        let told = |line: &str| match hear(line.as_bytes()) {
            Some(Word::Final(answer)) => (answer.text, answer.is_error),
            other => panic!("{line}: {other:?}"),
        };
        let good = told(r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#);
        assert_eq!(good, ("done".to_owned(), false));
        let bad = told(r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["no luck"]}"#);
        assert_eq!(bad, ("no luck".to_owned(), true));
        assert_eq!(hear(br#"{"type":"system","subtype":"init","tools":[]}"#), Some(Word::Anew), "one more turn");
        for other in [&br#"{"type":"assistant","result":"x"}"#[..], b"", b"\xff", b"{\"type\":\"result\"", b"[]"] {
            assert!(hear(other).is_none(), "{other:?}");
        }
    }
}
