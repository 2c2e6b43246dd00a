//! Which arguments of the caller's pi is not given.

/// The first argument that contradicts a fixed one, or that would make of one prompt another thing than one turn.
pub(in crate::agent) fn refused_argument(arguments: &[String]) -> Option<String> {
    let name = |argument: &String| argument.split('=').next().unwrap_or(argument).to_owned();
    arguments.iter().map(name).find(|name| REFUSED.contains(&name.as_str()))
}

/// pi's short options are whole words: `-nt` is none of `-n` and `-t`.
const REFUSED: [&str; 19] = [
    "--",
    "--mode",
    "--print",
    "-p",
    "--continue",
    "-c",
    "--resume",
    "-r",
    "--session",
    "--fork",
    "--session-dir",
    "--export",
    "--list-models",
    "--api-key",
    "--no-extensions",
    "--help",
    "-h",
    "--version",
    "-v",
];

#[cfg(test)]
mod tests {
    use super::refused_argument;

    #[test]
    fn arguments_that_contradict_the_fixed_ones_are_named() {
        for (line, told) in [
            ("--mode rpc", Some("--mode")),
            ("--mode=rpc", Some("--mode")),
            ("-p", Some("-p")),
            ("--model sonnet --session x", Some("--session")),
            ("-r", Some("-r")),
            ("--api-key x", Some("--api-key")),
            ("--", Some("--")),
            ("--provider anthropic --model sonnet --thinking high", None),
            ("-nt -e ./mine.ts --approve --session-id abc", None),
            ("--append-system-prompt kind", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(refused_argument(&words).as_deref(), told, "{line}");
        }
    }
}
