//! Stores of certificates that neither a variable nor a file of boxd's reaches: who reads one trusts the house only when the
//! image's own tools have put its certificate in.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What of this image does not trust the house by itself, each with what to do about it.
pub(super) fn unreached(path: Option<&OsStr>, home: Option<&OsStr>, java_home: Option<&OsStr>) -> Vec<String> {
    let folders: Vec<PathBuf> = path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let on_path = |names: &[&str]| folders.iter().any(|folder| names.iter().any(|name| folder.join(name).is_file()));
    let mut told = Vec::new();
    let java = java_home.is_some_and(|home| Path::new(home).join("bin/java").is_file());
    if java || on_path(&["java"]) || JAVAS.iter().any(|folder| holds_any(Path::new(folder))) {
        told.push(
            "java reads its own store: keytool -importcert -noprompt -cacerts -storepass changeit -alias boxgate -file \"$NODE_EXTRA_CA_CERTS\", by who may write it"
                .to_owned(),
        );
    }
    let bases =
        home.map(|home| Path::new(home).join(".pki/nssdb")).into_iter().chain([PathBuf::from("/etc/pki/nssdb")]);
    if on_path(&BROWSERS) || bases.into_iter().any(|base| base.join("cert9.db").is_file()) {
        told.push(
            "browsers read an NSS store: certutil -A -d sql:$HOME/.pki/nssdb -n boxgate -t C,, -i \"$NODE_EXTRA_CA_CERTS\""
                .to_owned(),
        );
    }
    told
}

fn holds_any(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Where images keep Java beside PATH.
const JAVAS: [&str; 2] = ["/usr/lib/jvm", "/opt/java"];
const BROWSERS: [&str; 5] = ["firefox", "chromium", "chromium-browser", "google-chrome", "microsoft-edge"];

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
mod tests {
    use super::unreached;

    #[test]
    fn a_store_that_no_variable_reaches_is_named_with_the_images_own_tool() {
        let image = tempfile::tempdir().expect("a folder");
        let at = |name: &str| image.path().join(name);
        let told = || {
            let (path, home) = (at("bin").into_os_string(), at("home").into_os_string());
            unreached(Some(&path), Some(&home), Some(at("jdk").as_os_str())).join("\n")
        };
        // The machine that runs this may have a Java itself.
        let before = told();
        std::fs::create_dir_all(at("home/.pki/nssdb")).expect("a folder");
        std::fs::create_dir_all(at("jdk/bin")).expect("a folder");
        assert_eq!(told(), before);
        std::fs::write(at("home/.pki/nssdb/cert9.db"), "").expect("written");
        assert!(told().contains("certutil -A"), "{}", told());
        std::fs::write(at("jdk/bin/java"), "").expect("written");
        assert!(told().contains("keytool -importcert"), "{}", told());
    }
}
