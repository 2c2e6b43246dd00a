//! The house's certificate authority: made once, kept for good, and the leaves it signs.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use aws_lc_rs::rand;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use box_spec::Fingerprint;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::files::{self, FileError};
use crate::host::Host;

/// The authority. Its key never leaves this value, and nothing else can sign.
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    valid: Window,
    /// One key for all leaves of this process: what differs between them is the name.
    leaf_key: KeyPair,
    leaf_signer: Arc<dyn SigningKey>,
}

/// A leaf, ready for a handshake, and when a fresh one should take its place: before its time too, where the clock was set back.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub key: Arc<CertifiedKey>,
    pub valid_from: SystemTime,
    pub renew_at: SystemTime,
}

#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("keep the CA")]
    File(#[from] FileError),
    #[error("read the CA: {} is missing beside its other half; restore it, or move both away to make a new CA that no running box trusts", .0.display())]
    Half(PathBuf),
    #[error("read the CA: {} is damaged", .0.display())]
    Damaged(PathBuf),
    #[error("read the CA: {} does not belong to its certificate", .0.display())]
    Mismatched(PathBuf),
    #[error("read the CA: {} can be read by others; run chmod 600 on it, and make a new CA if others had access", .0.display())]
    Open(PathBuf),
    #[error("use the CA: {} is not valid at this time; check the clock", .0.display())]
    NotNow(PathBuf),
    #[error("sign with the CA")]
    Sign(#[from] rcgen::Error),
    #[error("take the leaf key for TLS")]
    LeafKey(#[from] rustls::Error),
    #[error("draw random bytes for the CA")]
    Random,
}

/// Whole seconds since 1970, from first to last.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: u64,
    to: u64,
}

impl Ca {
    /// Opens the pair `ca.pem` and `ca.key` of a folder, or makes it where neither is there.
    /// Half a pair, a damaged or a mismatched one is an error: a new CA would be one that no running box trusts.
    pub fn open_or_make(folder: &Path) -> Result<Self, CaError> {
        let certificate = folder.join(CERTIFICATE_FILE);
        let key = folder.join(KEY_FILE);
        match (is_there(&certificate), is_there(&key)) {
            (true, true) => Self::open(&certificate, &key),
            (true, false) => Err(CaError::Half(key)),
            (false, true) => Err(CaError::Half(certificate)),
            (false, false) => {
                make(folder)?;
                Self::open(&certificate, &key)
            }
        }
    }

    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    #[must_use]
    pub const fn certificate_der(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// What a box pins the house by.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let hash = digest::digest(&digest::SHA256, &self.certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hash.as_ref());
        Fingerprint::from_digest(&bytes)
    }

    /// A certificate for one host, within the CA's own window and at most 90 days long.
    pub fn mint(&self, host: &Host) -> Result<Leaf, CaError> {
        let now = seconds(SystemTime::now());
        let from = now.saturating_sub(LEAF_BACKDATE).max(self.valid.from);
        let to = from.saturating_add(LEAF_LIFE).min(self.valid.to);
        let certificate = leaf_params(host, Window { from, to })?.signed_by(&self.leaf_key, &self.issuer)?;
        let key = CertifiedKey::new(vec![certificate.der().clone()], Arc::clone(&self.leaf_signer));
        let renew_at = UNIX_EPOCH + Duration::from_secs(from + (to.saturating_sub(from)) / 3 * 2);
        Ok(Leaf { key: Arc::new(key), valid_from: UNIX_EPOCH + Duration::from_secs(from), renew_at })
    }

    fn open(certificate_file: &Path, key_file: &Path) -> Result<Self, CaError> {
        let pem = read_text(certificate_file)?;
        let key = read_key(key_file)?;
        let damaged = || CaError::Damaged(certificate_file.to_owned());
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| damaged())?;
        let valid = check_pair(&certificate, &key).map_err(|fault| match fault {
            PairFault::Certificate => damaged(),
            PairFault::Key => CaError::Mismatched(key_file.to_owned()),
        })?;
        if !valid.holds(seconds(SystemTime::now())) {
            return Err(CaError::NotNow(certificate_file.to_owned()));
        }
        let leaf_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let leaf_der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
        let leaf_signer = rustls::crypto::aws_lc_rs::sign::any_ecdsa_type(&leaf_der)?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        Ok(Self { issuer, certificate, pem, valid, leaf_key, leaf_signer })
    }
}

impl std::fmt::Debug for Ca {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ca").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl Window {
    const fn holds(self, now: u64) -> bool {
        self.from <= now && now <= self.to
    }
}

/// Makes the pair in a folder beside, and renames the folder: there is never half a pair, and of two makers one wins.
fn make(folder: &Path) -> Result<(), CaError> {
    let parent = folder.parent().unwrap_or_else(|| Path::new("."));
    files::create_private_dir(parent)?;
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = parent.join(name);
    // What a killed start of the same process id left behind.
    let _ = fs::remove_dir_all(&beside);
    let made = make_pair(&beside).and_then(|()| match files::rename(&beside, folder) {
        Ok(()) => Ok(files::sync_folder(parent)?),
        // The other maker's pair is opened next.
        Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => Ok(()),
        Err(error) => Err(error.into()),
    });
    let _ = fs::remove_dir_all(&beside);
    made
}

fn make_pair(folder: &Path) -> Result<(), CaError> {
    files::create_private_dir(folder)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = ca_params(&key)?.self_signed(&key)?;
    let pem = zeroize::Zeroizing::new(key.serialize_pem());
    files::write_new(&folder.join(KEY_FILE), pem.as_bytes())?;
    files::write_new(&folder.join(CERTIFICATE_FILE), certificate.pem().as_bytes())?;
    Ok(files::sync_folder(folder)?)
}

fn ca_params(key: &KeyPair) -> Result<CertificateParams, CaError> {
    let now = seconds(SystemTime::now());
    let hash = digest::digest(&digest::SHA256, &key.subject_public_key_info());
    let mark: String = hash.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "boxgate");
    // The mark tells two houses' certificates apart in a trust store.
    params.distinguished_name.push(DnType::CommonName, format!("boxgate house {mark}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_window(&mut params, Window { from: now.saturating_sub(CA_BACKDATE), to: now.saturating_add(CA_LIFE) });
    params.serial_number = Some(serial()?);
    Ok(params)
}

/// No subject: a name may be longer than a common name can be, so it stands in the (then critical) SAN alone.
fn leaf_params(host: &Host, window: Window) -> Result<CertificateParams, CaError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = vec![match host {
        Host::Name(name) => SanType::DnsName(name.to_string().try_into()?),
        Host::Address(address) => SanType::IpAddress(*address),
    }];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_window(&mut params, window);
    params.serial_number = Some(serial()?);
    Ok(params)
}

fn set_window(params: &mut CertificateParams, window: Window) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(window.from);
    params.not_after = epoch + Duration::from_secs(window.to);
}

/// 16 random octets, the first from 0x40 to 0x7f: positive, and never shorter.
fn serial() -> Result<SerialNumber, CaError> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).map_err(|_| CaError::Random)?;
    bytes[0] = bytes[0] & 0x3f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

enum PairFault {
    Certificate,
    Key,
}

/// Whether the certificate is a whole CA certificate of this key, signed by it.
fn check_pair(certificate: &CertificateDer<'_>, key: &KeyPair) -> Result<Window, PairFault> {
    let (rest, parsed) = X509Certificate::from_der(certificate).map_err(|_| PairFault::Certificate)?;
    let is_ca = parsed.basic_constraints().ok().flatten().is_some_and(|extension| extension.value.ca);
    let signs = parsed.key_usage().ok().flatten().is_some_and(|extension| extension.value.key_cert_sign());
    if !rest.is_empty() || !is_ca || !signs {
        return Err(PairFault::Certificate);
    }
    let public = parsed.public_key().subject_public_key.data.as_ref();
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, public)
        .verify(parsed.tbs_certificate.as_ref(), &parsed.signature_value.data)
        .map_err(|_| PairFault::Certificate)?;
    if public != key.public_key_raw() {
        return Err(PairFault::Key);
    }
    let validity = parsed.validity();
    let second = |timestamp: i64| u64::try_from(timestamp).map_err(|_| PairFault::Certificate);
    Ok(Window { from: second(validity.not_before.timestamp())?, to: second(validity.not_after.timestamp())? })
}

fn read_key(path: &Path) -> Result<KeyPair, CaError> {
    let mode = fs::metadata(path).map_err(|_| CaError::Damaged(path.to_owned()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(CaError::Open(path.to_owned()));
    }
    let text = zeroize::Zeroizing::new(read_text(path)?);
    KeyPair::from_pem_and_sign_algo(&text, &PKCS_ECDSA_P256_SHA256).map_err(|_| CaError::Damaged(path.to_owned()))
}

fn read_text(path: &Path) -> Result<String, CaError> {
    String::from_utf8(files::read_limited(path, LONGEST_FILE)?).map_err(|_| CaError::Damaged(path.to_owned()))
}

/// Also true for a dangling link: what is there is never written over.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

const CERTIFICATE_FILE: &str = "ca.pem";
const KEY_FILE: &str = "ca.key";
const LONGEST_FILE: u64 = 64 * 1024;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// A day back, so that a leaf can be backdated for boxes whose clock lags and still lie within.
const CA_BACKDATE: u64 = DAY;
const CA_LIFE: u64 = 3652 * DAY;
const LEAF_BACKDATE: u64 = 2 * HOUR;
const LEAF_LIFE: u64 = 90 * DAY;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]
mod tests;
