//! Certificates as text: the house's fingerprint, and the bundle of the image's own roots with the house's.
//!
//! No TLS and no parsing of certificates: boxd only carries them.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use box_spec::Fingerprint;
use sha2::{Digest, Sha256};

use crate::environment::WGETRC_FILE;

/// The fingerprint of a text that is exactly one certificate; `None` for any other text.
pub(crate) fn fingerprint(pem: &str) -> Option<Fingerprint> {
    let mut blocks = certificates(pem);
    let only = blocks.next()?;
    if blocks.next().is_some() {
        return None;
    }
    let body: String = only.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let der = STANDARD.decode(body).ok().filter(|der| !der.is_empty())?;
    Some(Fingerprint::from_digest(&Sha256::digest(der).into()))
}

/// The image's own roots and then the house's certificate. `None` where the image has no roots.
pub(crate) fn bundle(ca: &str) -> Option<String> {
    let roots = ROOTS.iter().find_map(|path| roots_at(Path::new(path)))?;
    Some(joined(&roots, ca))
}

/// The settings by which wget uses the bundle: it has no variable for that.
pub(crate) fn wgetrc(bundle: &Path) -> Vec<u8> {
    [b"ca_certificate = ", bundle.as_os_str().as_bytes(), b"\n"].concat()
}

/// Whether the settings beside the bundle are those, and no others: they could name another bundle, or turn the check off.
pub(crate) fn wget_is_told(bundle: &Path) -> bool {
    let settings = bundle.with_file_name(WGETRC_FILE);
    crate::files::read_own(&settings, SETTINGS_LIMIT).is_ok_and(|found| found == Some(wgetrc(bundle)))
}

/// Where the image has roots of its own.
pub(crate) fn image_roots() -> Option<&'static str> {
    ROOTS.into_iter().find(|path| roots_at(Path::new(path)).is_some())
}

/// Whether each of the files holds the house's certificate, as clients that read them will find it.
pub(crate) fn is_in<'a>(files: impl IntoIterator<Item = &'a PathBuf>, ca: &str) -> bool {
    let Some(wanted) = certificates(ca).next() else { return false };
    let holds = |path: &Path| {
        let mut text = String::new();
        let file = std::fs::File::open(path).ok()?;
        std::io::Read::read_to_string(&mut std::io::Read::take(file, 2 * ROOTS_LIMIT), &mut text).ok()?;
        certificates(&text).any(|block| block == wanted).then_some(())
    };
    files.into_iter().all(|path| holds(path).is_some())
}

/// Whether a text holds the certificate.
pub(crate) fn holds(text: &str, ca: &str) -> bool {
    certificates(ca).next().is_some_and(|wanted| certificates(text).any(|block| block == wanted))
}

/// Only the certificates of both: comments and whatever else a file holds stay behind.
fn joined(roots: &str, ca: &str) -> String {
    let mut text = String::with_capacity(roots.len() + ca.len() + 1);
    for block in certificates(roots).chain(certificates(ca)) {
        text.push_str(block);
        text.push('\n');
    }
    text
}

fn roots_at(path: &Path) -> Option<String> {
    let found = path.metadata().ok().filter(|found| found.is_file() && found.len() <= ROOTS_LIMIT)?;
    let mut text = String::with_capacity(usize::try_from(found.len()).ok()?);
    std::io::Read::read_to_string(&mut std::fs::File::open(path).ok()?, &mut text).ok()?;
    let has_any = certificates(&text).next().is_some();
    has_any.then_some(text)
}

/// The certificate blocks of a text, each from its first dash to its last.
fn certificates(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(BEGIN)?;
        let length = rest[start..].find(END)? + END.len();
        let block = &rest[start..start + length];
        rest = &rest[start + length..];
        Some(block)
    })
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// Where images keep their roots: Debian and Alpine, Fedora, openSUSE, older Red Hat, BSD-like, Arch.
const ROOTS: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ca-certificates/extracted/tls-ca-bundle.pem",
];
/// Of the settings of wget, in bytes: they are one path.
const SETTINGS_LIMIT: u64 = 16 * 1024;
const ROOTS_LIMIT: u64 = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::{fingerprint, is_in, joined};

    const ONE: &str = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----";

    #[test]
    fn a_fingerprint_is_the_digest_of_what_the_text_encodes() {
        let want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(fingerprint(ONE).expect("one certificate").as_str(), want);
        let two = format!("{ONE}\n{ONE}");
        for bad in ["", "YWJj", &two, "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----", &ONE[..40]] {
            assert_eq!(fingerprint(bad), None, "{bad:?}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
    fn a_file_without_the_houses_certificate_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let ca = folder.path().join("ca.pem");
        let bundle = folder.path().join("bundle.pem");
        std::fs::write(&ca, ONE).expect("written");
        assert!(!is_in([&ca, &bundle], ONE), "there is no bundle");
        let other = ONE.replace("YWJj", "YWJk");
        for (text, holds) in [(joined(&other, ONE), true), (other, false), (ONE[..50].to_owned(), false)] {
            std::fs::write(&bundle, &text).expect("written");
            assert_eq!(is_in([&ca, &bundle], ONE), holds, "{text}");
        }
    }

    #[test]
    fn a_bundle_holds_certificates_and_nothing_else() {
        let roots =
            format!("# a comment\n{ONE}\n-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n{ONE}\n");
        let bundle = joined(&roots, ONE);
        assert_eq!(bundle, format!("{ONE}\n{ONE}\n{ONE}\n"));
    }
}
