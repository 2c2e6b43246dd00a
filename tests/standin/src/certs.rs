//! The certificates of a stand-in: an authority made at the start, and good and bad leaves.

use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::options::Options;

/// Which leaf is shown. All but [`Certificate::SelfSigned`] come from the stand-in's own authority, so that only one thing is wrong at a time.
#[derive(Clone, Debug, Default)]
pub enum Certificate {
    #[default]
    Good,
    SelfSigned,
    Expired,
    /// For `wrong.test` only.
    WrongName,
    /// Good, but signed by this authority.
    By(Authority),
}

/// An authority: its certificate and its key, both PEM.
#[derive(Clone)]
pub struct Authority {
    pub certificate_pem: String,
    pub key_pem: String,
}

impl Authority {
    /// A fresh one.
    ///
    /// # Errors
    ///
    /// When no key can be made.
    pub fn generate(name: &str) -> Result<Self> {
        let key = KeyPair::generate().context("make the authority's key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2060, 1, 1);
        let certificate = params.self_signed(&key).context("sign the authority")?;
        Ok(Self { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>> {
        let key = KeyPair::from_pem(&self.key_pem).context("read the authority's key")?;
        Issuer::from_ca_cert_pem(&self.certificate_pem, key).context("read the authority's certificate")
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority(…)")
    }
}

/// TLS for a server that a test plays by itself, and the PEM of what a client has to trust for it.
///
/// # Errors
///
/// When no key can be made.
pub fn server_for(names: &[&str]) -> Result<(Arc<ServerConfig>, String)> {
    server(&Options { names: names.iter().map(|name| (*name).to_owned()).collect(), ..Options::default() })
}

/// The server's TLS, and the PEM of what a client has to trust for it.
pub(crate) fn server(options: &Options) -> Result<(Arc<ServerConfig>, String)> {
    let authority = match &options.certificate {
        Certificate::By(given) => given.clone(),
        _ => Authority::generate("stand-in authority")?,
    };
    let (leaf, key) = leaf(options, &authority)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions: &[&rustls::SupportedProtocolVersion] =
        if options.tls12_only { &[&rustls::version::TLS12] } else { rustls::ALL_VERSIONS };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .context("choose TLS versions")?
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key)
        .context("take the leaf")?;
    config.alpn_protocols = options.alpn.iter().map(|name| name.clone().into_bytes()).collect();
    Ok((Arc::new(config), authority.certificate_pem))
}

fn leaf(options: &Options, authority: &Authority) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let key = KeyPair::generate().context("make the leaf's key")?;
    let names = match options.certificate {
        Certificate::WrongName => vec!["wrong.test".to_owned()],
        _ => options.names.clone(),
    };
    let mut params = CertificateParams::new(names).context("name the leaf")?;
    params.distinguished_name.push(DnType::CommonName, "stand-in");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = match options.certificate {
        Certificate::Expired => (date_time_ymd(2021, 1, 1), date_time_ymd(2022, 1, 1)),
        _ => (date_time_ymd(2024, 1, 1), date_time_ymd(2055, 1, 1)),
    };
    let certificate = match options.certificate {
        Certificate::SelfSigned => params.self_signed(&key),
        _ => params.signed_by(&key, &authority.issuer()?),
    };
    let der = certificate.context("sign the leaf")?.der().clone();
    Ok((der, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()))))
}
