//! The agent's environment: scrubbed of every credential and every way around the house, then built.
//!
//! Pure: from variables to variables.

mod names;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use box_spec::Exposed;

pub(crate) use self::names::WGETRC_FILE;
use self::names::{BUNDLE, NO_PROXY, PROXY, WGETRC, is_kept_in_isolation, is_scrubbed};
pub(crate) use self::names::{is_credential, is_own, is_reserved, is_told, names_provider};

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
    /// The stand-ins of services' credentials, each in its variable.
    pub(crate) exposed: &'a [Exposed],
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

/// What an agent does not inherit. Overwritten in memory once it is dropped.
#[derive(Default)]
pub(crate) struct TakenAway(BTreeMap<OsString, OsString>);

impl TakenAway {
    /// Of a box that boxd makes none of this is: it goes before there is a second process to have a copy.
    pub(crate) fn wipe_if(&mut self, is_outside: bool) {
        if is_outside {
            *self = Self::default();
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl Drop for TakenAway {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_values().for_each(wipe);
    }
}

/// Prints names only.
impl std::fmt::Debug for TakenAway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Parts what an agent may inherit from what it must not.
pub(crate) fn scrub(given: BTreeMap<OsString, OsString>) -> (Variables, TakenAway) {
    let (taken, kept) = given.into_iter().partition(|(name, _)| is_scrubbed(&name.to_string_lossy()));
    (Variables(kept), TakenAway(taken))
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
    // After both: what the image or the caller has under such a name may be a real one.
    for Exposed { name, value } in around.exposed {
        built.set(name.as_str(), value);
    }
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
    built.set(WGETRC, around.bundle.with_file_name(WGETRC_FILE));
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

/// Adds one git setting behind those that are there already. A count that is no number counts as none.
fn append_git_setting(built: &mut Variables, key: &str, value: &str) {
    let count = built.get("GIT_CONFIG_COUNT").and_then(OsStr::to_str);
    let count = count.and_then(|count| count.parse::<u16>().ok()).unwrap_or(0);
    built.set(format!("GIT_CONFIG_KEY_{count}"), key);
    built.set(format!("GIT_CONFIG_VALUE_{count}"), value);
    built.set("GIT_CONFIG_COUNT", count.saturating_add(1).to_string());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::path::Path;

    use box_spec::{Exposed, VariableName};

    use super::names::{CREDENTIALS, owned};
    use super::{BUNDLE, NO_PROXY, PROXY, Surroundings, Variables, build, is_reserved, minutes, scrub};

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
            exposed: &exposed(),
        };
        build(&scrub(given(names)).0, &Variables::default(), &around)
    }

    fn exposed() -> [Exposed; 2] {
        ["GH_TOKEN", "PACKAGES_PAT"]
            .map(|name| Exposed { name: name.parse().expect("a name"), value: "boxgate-sentinel-1".to_owned() })
    }

    #[test]
    fn a_stand_in_takes_the_place_of_what_the_image_has() {
        let built = built(&[("GH_TOKEN", "REAL"), ("PACKAGES_PAT", "REAL"), ("PACKAGES_URL", "kept")]);
        for name in ["GH_TOKEN", "PACKAGES_PAT"] {
            assert_eq!(built.get(name).expect(name), "boxgate-sentinel-1");
        }
        assert_eq!(built.get("PACKAGES_URL").expect("kept"), "kept");
    }

    /// What may be exposed is decided where both sides of the door see it; this side's lists are longer.
    #[test]
    fn no_name_that_the_launch_owns_can_be_exposed() {
        for name in owned() {
            let services = ["GH_TOKEN", "GITHUB_TOKEN", "HF_TOKEN"].contains(&name);
            assert_eq!(name.parse::<VariableName>().is_ok(), services, "{name}");
        }
        assert!(owned().count() > 80);
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
        assert_eq!(built.get("WGETRC").expect("set"), "/s/wgetrc");
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
        let (mut kept, _) = scrub(given(&[
            ("DATABASE_URL", "REAL"),
            ("SSH_AUTH_SOCK", "REAL"),
            ("GIT_CONFIG_VALUE_0", "REAL"),
            ("CLAUDE_CODE_OAUTH_TOKEN", "REAL"),
            ("CODEX_REFRESH_TOKEN_URL_OVERRIDE", "REAL"),
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
