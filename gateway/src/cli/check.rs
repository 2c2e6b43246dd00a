//! `gateway check`: reads the configuration with the loader of `gateway serve`, and says everything that is wrong with it.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use crate::config::{self, Config};
use crate::policy::Grant;
use crate::vault::Vault;

use super::Exit;

/// Writes one line to `out` where all is well, else one line a fault to `err`. Tells how to exit. A secret that cannot be
/// used yet is no fault, but said.
pub fn run(file: &Path, out: &mut impl Write, err: &mut impl Write) -> io::Result<Exit> {
    match config::load(file) {
        Ok(config) => {
            writeln!(out, "{}: ok, {}", file.display(), summary(&config))?;
            warn_of_outages(config, err)?;
            Ok(Exit::Done)
        }
        Err(faults) => {
            writeln!(err, "{faults}")?;
            Ok(Exit::Usage)
        }
    }
}

fn warn_of_outages(config: Config, err: &mut impl Write) -> io::Result<()> {
    // What is malformed was a fault of the file already.
    let Ok(vault) = Vault::open(config.secrets) else { return Ok(()) };
    for outage in vault.status().into_iter().filter_map(|secret| secret.outage) {
        writeln!(err, "warning: {outage}: its grants will answer credential-outage")?;
    }
    Ok(())
}

fn summary(config: &Config) -> String {
    let counted = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let boxes = counted(config.boxes.len(), "box", "boxes");
    let secrets = counted(config.secrets.len(), "secret", "secrets");
    // A preset may be several grants of one name, and was written as one.
    let named = |is_in: fn(&Grant) -> bool| {
        let grants = config.policy.grants().iter().filter(|grant| is_in(grant));
        grants.map(|grant| grant.name.as_str()).collect::<BTreeSet<&str>>().len()
    };
    let grants = counted(named(|grant| !grant.denies), "grant", "grants");
    let mut said = format!("{boxes}, {secrets}, {grants}");
    match named(|grant| grant.denies) {
        0 => {}
        denials => said.push_str(&format!(", {}", counted(denials, "denial", "denials"))),
    }
    match named(|grant| grant.observes) {
        0 => {}
        observed => said.push_str(&format!(", {observed} of them only observed")),
    }
    said
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]

    use super::{Exit, run};

    fn checked(text: &str) -> (Exit, String, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("house.toml");
        std::fs::write(&file, text).expect("written");
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = run(&file, &mut out, &mut err).expect("memory takes it");
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).expect("text").replace(&format!("{}/", folder.path().display()), "")
        };
        (code, text(out), text(err))
    }

    #[test]
    fn a_good_file_is_one_line_and_a_bad_one_a_line_for_each_fault() {
        let good = "state = \"s\"\n[[box]]\nid = \"one\"\ndoor = \"one.sock\"\n";
        assert_eq!(
            checked(good),
            (Exit::Done, "house.toml: ok, 1 box, 0 secrets, 0 grants\n".to_owned(), String::new())
        );
        let (code, out, err) = checked("stat = \"s\"\n[[box]]\nid = 1\n");
        assert_eq!((code, out.as_str()), (Exit::Usage, ""));
        assert_eq!(err.lines().count(), 4, "{err}");
    }

    #[test]
    fn a_secret_that_is_not_there_is_no_fault_but_said() {
        let file = "state = \"s\"\n[[secret]]\nname = \"key\"\nprovider = \"anthropic\"\nkind = \"api-key\"\n";
        let (code, out, err) = checked(&format!("{file}env = \"NO_SUCH_VARIABLE_OF_A_TEST\"\n"));
        assert_eq!((code, out.as_str()), (Exit::Done, "house.toml: ok, 0 boxes, 1 secret, 0 grants\n"));
        assert_eq!(
            err,
            "warning: secret key: the environment variable NO_SUCH_VARIABLE_OF_A_TEST is not set: its grants will answer credential-outage\n"
        );
        let (code, _, err) = checked(&format!("{file}file = \"nowhere\"\n"));
        assert_eq!(code, Exit::Done);
        assert!(err.starts_with("warning: secret key: nowhere "), "{err}");
    }
}
