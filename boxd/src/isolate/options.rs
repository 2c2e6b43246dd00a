//! From the command line to [`IsolateOptions`]: what `--isolate` means for the run's own options.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::plan::{IsolateOptions, SESSION};
use crate::cli::{BoxArguments, IsolateArguments};
use crate::inputs::DOOR;
use crate::network_door;

impl IsolateArguments {
    /// None without `--isolate`. Takes the door and session that stand behind the word for what is to be done, which name
    /// places of the host, and puts the box's own session in their stead.
    pub(crate) fn options(
        self,
        run_door: &mut Option<PathBuf>,
        run_session: &mut Option<PathBuf>,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Option<IsolateOptions> {
        let Self { made, door, session } = self;
        let BoxArguments { isolate, workspace, agent_dirs, read_only, uid } = made;
        if !isolate {
            return None;
        }
        let named = |name: &str| path(environment.get(OsStr::new(name)));
        let door = door.or_else(|| run_door.take()).or_else(|| named("BOXGATE_DOOR"));
        let session = session.or_else(|| run_session.take()).or_else(|| named("BOXGATE_SESSION"));
        // A TCP door is read by the rest of boxd too: it brings a key. The path of a socket is the outer boxd's alone.
        *run_door = Some(door.clone().filter(|door| is_network(door)).unwrap_or_else(|| PathBuf::from(DOOR)));
        *run_session = Some(PathBuf::from(SESSION));
        Some(IsolateOptions {
            door: door.unwrap_or_else(|| PathBuf::from(DOOR)),
            workspace,
            session,
            agent_dirs,
            read_only,
            uid,
            home: named("HOME"),
            state_home: named("XDG_STATE_HOME"),
        })
    }
}

fn is_network(door: &Path) -> bool {
    !matches!(network_door::address_of(door), Ok(None))
}

/// A variable that is set but empty counts as not set.
fn path(value: Option<&OsString>) -> Option<PathBuf> {
    value.filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, IsolateOptions, OsString, PathBuf};
    use crate::cli::{Cli, Deed};

    fn read(arguments: &str, variables: &[(&str, &str)]) -> Option<(Option<IsolateOptions>, Option<PathBuf>)> {
        let words = ["boxd"].into_iter().chain(arguments.split(' ')).map(OsString::from);
        let cli = Cli::read(words).ok()?;
        let Deed::Run(mut run) = cli.deed else { return None };
        let given: BTreeMap<OsString, OsString> =
            variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let launch = &mut run.launch;
        Some((cli.isolation.options(&mut launch.door, &mut launch.session, &given), run.launch.session))
    }

    #[test]
    fn the_places_of_the_host_are_taken_from_wherever_they_are_named() {
        let table = [
            ("--isolate --door /d --session /s run hi", Some("/d"), Some("/s")),
            ("--isolate run --door /d --session /s hi", Some("/d"), Some("/s")),
            ("--isolate run hi", Some("/v"), None),
            ("run --door /d hi", None, None),
        ];
        for (arguments, door, session) in table {
            let variables = [("BOXGATE_DOOR", "/v"), ("BOXGATE_SESSION", "")];
            let (options, in_box) = read(arguments, &variables).expect(arguments);
            assert_eq!(options.is_some(), door.is_some(), "{arguments}");
            if let Some(options) = options {
                assert_eq!(Some(options.door), door.map(PathBuf::from), "{arguments}");
                assert_eq!(options.session, session.map(PathBuf::from), "{arguments}");
                assert_eq!(in_box, Some(PathBuf::from("/session")), "{arguments}");
            }
        }
    }

    #[test]
    fn an_option_of_the_box_without_a_box_is_refused() {
        for option in ["--door /d", "--workspace /w", "--session /s", "--agent-dir /a", "--ro /r", "--uid 7"] {
            assert!(read(&format!("{option} run hi"), &[]).is_none(), "{option}");
        }
    }
}
