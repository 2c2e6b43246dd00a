//! The CA on disk, and the leaves it signs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Ca, CaError, DAY, HOUR, seconds};
use crate::host::Host;

fn leaf_of(ca: &Ca, host: &str) -> Vec<u8> {
    ca.mint(&Host::parse(host).expect("a host")).expect("a leaf").key.cert[0].to_vec()
}

fn parsed(der: &[u8]) -> X509Certificate<'_> {
    X509Certificate::from_der(der).expect("a certificate").1
}

#[test]
fn a_second_start_opens_the_same_pair_and_the_key_is_private() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = state.path().join("ca");
    let first = Ca::open_or_make(&folder).expect("made");
    let second = Ca::open_or_make(&folder).expect("opened");
    assert_eq!(first.certificate_pem(), second.certificate_pem());
    assert_eq!(first.fingerprint(), second.fingerprint());
    assert_eq!(fs::metadata(folder.join("ca.key")).expect("a key").permissions().mode() & 0o7777, 0o600);
    assert_eq!(fs::metadata(&folder).expect("a folder").permissions().mode() & 0o7777, 0o700);
    assert_eq!(fs::read_dir(state.path()).expect("a listing").count(), 1, "nothing is left beside it");
}

#[test]
fn of_two_makers_one_wins_and_both_use_its_pair() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = state.path().join("ca");
    super::make(&folder).expect("made");
    let before = fs::read(folder.join("ca.pem")).expect("a certificate");
    super::make(&folder).expect("lost the race quietly");
    assert_eq!(fs::read(folder.join("ca.pem")).expect("a certificate"), before);
}

/// Spoils a fresh pair and says how opening it fails.
fn spoiled(spoil: impl Fn(&Path)) -> CaError {
    let state = tempfile::tempdir().expect("a folder");
    let folder = state.path().join("ca");
    Ca::open_or_make(&folder).expect("made");
    spoil(&folder);
    let before: Vec<_> =
        fs::read_dir(&folder).expect("a listing").map(|entry| entry.expect("an entry").path()).collect();
    let error = Ca::open_or_make(&folder).expect_err("a spoiled pair");
    let after: Vec<_> =
        fs::read_dir(&folder).expect("a listing").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(before, after, "nothing is made or removed");
    error
}

#[test]
fn a_spoiled_pair_is_an_error_and_never_a_new_ca() {
    assert!(matches!(spoiled(|folder| fs::remove_file(folder.join("ca.key")).expect("removed")), CaError::Half(_)));
    assert!(matches!(spoiled(|folder| fs::remove_file(folder.join("ca.pem")).expect("removed")), CaError::Half(_)));
    assert!(matches!(spoiled(|folder| fs::write(folder.join("ca.pem"), "").expect("written")), CaError::Damaged(_)));
    assert!(matches!(
        spoiled(|folder| fs::write(folder.join("ca.key"), "junk").expect("written")),
        CaError::Damaged(_)
    ));
    assert!(matches!(
        spoiled(|folder| fs::set_permissions(folder.join("ca.key"), fs::Permissions::from_mode(0o640)).expect("set")),
        CaError::Open(_)
    ));
    let exchanged = |folder: &Path| {
        let other = folder.parent().expect("a parent").join("other");
        Ca::open_or_make(&other).expect("made");
        fs::rename(other.join("ca.key"), folder.join("ca.key")).expect("renamed");
    };
    assert!(matches!(spoiled(exchanged), CaError::Mismatched(_)));
    let one_bit = |folder: &Path| {
        use rustls_pki_types::pem::PemObject;
        let path = folder.join("ca.pem");
        let mut der = rustls_pki_types::CertificateDer::from_pem_file(&path).expect("a certificate").to_vec();
        *der.last_mut().expect("bytes") ^= 1;
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        fs::write(&path, format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")).expect("written");
    };
    assert!(matches!(spoiled(one_bit), CaError::Damaged(_)));
}

#[test]
fn a_leaf_lies_within_its_ca_and_is_backdated_an_hour_at_least() {
    let state = tempfile::tempdir().expect("a folder");
    let ca = Ca::open_or_make(&state.path().join("ca")).expect("made");
    let der = leaf_of(&ca, "api.ok.test");
    let (leaf, authority) = (parsed(&der), parsed(ca.certificate_der()));
    let now = i64::try_from(seconds(SystemTime::now())).expect("a time");
    let (from, to) = (leaf.validity().not_before.timestamp(), leaf.validity().not_after.timestamp());
    assert!(from <= now - HOUR as i64 && from >= authority.validity().not_before.timestamp());
    assert!(to > now && to <= authority.validity().not_after.timestamp() && to - from <= 90 * DAY as i64);
}

#[test]
fn a_leaf_has_what_strict_verifiers_ask_for() {
    let state = tempfile::tempdir().expect("a folder");
    let ca = Ca::open_or_make(&state.path().join("ca")).expect("made");
    let long = format!("{}.{}.r2.test", "a".repeat(50), "b".repeat(32));
    let der = leaf_of(&ca, &long);
    let (leaf, authority) = (parsed(&der), parsed(ca.certificate_der()));
    let san = leaf.subject_alternative_name().expect("parsed").expect("a SAN");
    assert!(san.critical && leaf.subject().iter().count() == 0);
    assert_eq!(san.value.general_names, [GeneralName::DNSName(&long)]);
    let basic = leaf.basic_constraints().expect("parsed").expect("basic constraints");
    assert!(!basic.value.ca);
    assert!(leaf.extended_key_usage().expect("parsed").expect("a usage").value.server_auth);
    assert_eq!(leaf.issuer(), authority.subject());
    let authority_id = authority.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    });
    let issuer_id = leaf.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0),
        _ => None,
    });
    assert!(authority_id.is_some() && authority_id == issuer_id);
    let basic = authority.basic_constraints().expect("parsed").expect("basic constraints");
    assert!(basic.critical && basic.value.ca && basic.value.path_len_constraint == Some(0));
    let usage = authority.key_usage().expect("parsed").expect("a usage");
    assert!(usage.critical && usage.value.key_cert_sign());
}

#[test]
fn an_address_has_a_san_of_its_kind() {
    let state = tempfile::tempdir().expect("a folder");
    let ca = Ca::open_or_make(&state.path().join("ca")).expect("made");
    let der = leaf_of(&ca, "[::1]");
    let leaf = parsed(&der);
    let san = leaf.subject_alternative_name().expect("parsed").expect("a SAN");
    let bytes = std::net::Ipv6Addr::LOCALHOST.octets();
    assert_eq!(san.value.general_names, [GeneralName::IPAddress(&bytes)]);
}

#[test]
fn a_thousand_serials_are_positive_and_differ() {
    let mut seen = BTreeSet::new();
    for _ in 0..1000 {
        let bytes = super::serial().expect("random bytes").to_bytes();
        assert!(bytes.len() <= 20 && (0x40..0x80).contains(&bytes[0]));
        assert!(seen.insert(bytes));
    }
}
