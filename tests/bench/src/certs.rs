//! Certificates of one bench: the origin's authority and leaf, and an authority for peers that open TLS.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use harness::files::put;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The host that is asked most.
pub const HOST: &str = "api.anthropic.com";
/// Hosts below this one are asked once each.
pub const MANY: &str = "many.test";

pub const ORIGIN_CA: &str = "origin-ca.pem";
pub const ORIGIN: &str = "origin.pem";
pub const ORIGIN_KEY: &str = "origin.key";
pub const PEER_CA: &str = "peer-ca.pem";
pub const PEER_CA_KEY: &str = "peer-ca.key";

/// Writes all of them into a folder. Keys are P-256.
///
/// # Errors
///
/// When one cannot be made or written.
pub fn write(folder: &Path) -> Result<()> {
    let (origin_ca, origin_ca_key) = authority("bench origin")?;
    let (peer_ca, peer_ca_key) = authority("bench peers")?;
    let issuer = Issuer::from_ca_cert_pem(&origin_ca, KeyPair::from_pem(&origin_ca_key).context("read a key")?)
        .context("read the origin's authority")?;
    let key = KeyPair::generate().context("make the origin's key")?;
    let mut params =
        CertificateParams::new(vec![HOST.to_owned(), format!("*.{MANY}")]).context("name the origin's leaf")?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (date_time_ymd(2024, 1, 1), date_time_ymd(2055, 1, 1));
    let leaf = params.signed_by(&key, &issuer).context("sign the origin's leaf")?;
    for (name, text) in [
        (ORIGIN_CA, origin_ca),
        (ORIGIN, leaf.pem()),
        (ORIGIN_KEY, key.serialize_pem()),
        (PEER_CA, peer_ca),
        (PEER_CA_KEY, peer_ca_key),
    ] {
        put(&folder.join(name), text.as_bytes(), 0o600)?;
    }
    Ok(())
}

fn authority(name: &str) -> Result<(String, String)> {
    let key = KeyPair::generate().context("make an authority's key")?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    (params.not_before, params.not_after) = (date_time_ymd(2024, 1, 1), date_time_ymd(2055, 1, 1));
    let certificate = params.self_signed(&key).context("sign an authority")?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// The origin's TLS: both versions, and tickets as a real provider gives them.
///
/// # Errors
///
/// When the files are not there.
pub fn server(folder: &Path) -> Result<Arc<ServerConfig>> {
    let leaf = CertificateDer::from_pem_file(folder.join(ORIGIN)).context("read the origin's leaf")?;
    let key = PrivateKeyDer::from_pem_file(folder.join(ORIGIN_KEY)).context("read the origin's key")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .context("choose TLS versions")?
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key)
        .context("take the origin's leaf")?;
    Ok(Arc::new(config))
}

/// A client that trusts these PEM certificates alone and never resumes.
///
/// # Errors
///
/// When none can be read.
pub fn client(pem: &[u8]) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.context("read a certificate to trust")?).context("trust a certificate")?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .context("choose TLS versions")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}
