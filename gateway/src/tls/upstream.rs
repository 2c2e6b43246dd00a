//! Toward the world: whom the gateway believes, and how a handshake that failed is told.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::ca::Ca;
use crate::files::{self, FileError};

/// The client configurations: the system's roots, and those of grants that bring their own. Never our own CA.
#[derive(Debug)]
pub struct Upstreams {
    /// Made once, by the thread that [`Upstreams::new`] starts or by whoever needs it before that is done.
    system: Arc<OnceLock<Arc<ClientConfig>>>,
    own_ca: CertificateDer<'static>,
    /// As many as the configuration has files.
    special: Mutex<HashMap<UpstreamCa, Arc<ClientConfig>>>,
}

/// The only roots of a grant's upstream, read with the configuration.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UpstreamCa(Arc<Roots>);

#[derive(PartialEq, Eq, Hash, Debug)]
struct Roots {
    path: PathBuf,
    certificates: Vec<CertificateDer<'static>>,
}

#[derive(Debug, thiserror::Error)]
pub enum UpstreamCaFault {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} holds no certificate in PEM", .0.display())]
    Empty(PathBuf),
    #[error("{} holds a certificate that cannot be a root", .0.display())]
    Unusable(PathBuf),
}

/// Why the upstream was not believed, or not understood. Holds nothing that the upstream wrote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum UpstreamTlsFault {
    #[error("its certificate leads to no trusted root")]
    UnknownIssuer,
    #[error("its certificate is out of date")]
    OutOfDate,
    #[error("its certificate is for another name")]
    WrongName,
    #[error("its certificate does not verify")]
    BadCertificate,
    #[error("it speaks no TLS version or cipher that is safe")]
    NoCommonVersion,
    #[error("it ended the handshake")]
    Ended,
    #[error("it does not speak TLS properly")]
    NotTls,
}

impl Upstreams {
    /// Begins to read the system's roots, some hundred files, while the house is being built; where there are none, the ones
    /// that came with the build are taken.
    #[must_use]
    pub fn new(ca: &Ca) -> Self {
        let own_ca = ca.certificate_der().clone();
        let upstreams = Self { system: Arc::default(), own_ca: own_ca.clone(), special: Mutex::default() };
        let system = Arc::clone(&upstreams.system);
        let read = move || {
            system.get_or_init(|| system_config(&own_ca));
        };
        // Without the thread, whoever first needs the roots reads them.
        let _ = std::thread::Builder::new().name("roots".to_owned()).spawn(read);
        upstreams
    }

    /// The configuration for a grant: its own roots alone, or the system's.
    #[must_use]
    pub fn client_config(&self, upstream_ca: Option<&UpstreamCa>) -> Arc<ClientConfig> {
        let Some(upstream_ca) = upstream_ca else {
            return Arc::clone(self.system.get_or_init(|| system_config(&self.own_ca)));
        };
        let mut special = self.special.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(upstream_ca.0.certificates.iter().cloned());
            Arc::new(client_config(roots, &self.own_ca))
        };
        Arc::clone(special.entry(upstream_ca.clone()).or_insert_with(made))
    }
}

impl UpstreamCa {
    pub fn read(path: &Path) -> Result<Self, UpstreamCaFault> {
        let bytes = files::read_limited(path, LONGEST_FILE)?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let certificates = certificates.map_err(|_| UpstreamCaFault::Unusable(path.to_owned()))?;
        if certificates.is_empty() {
            return Err(UpstreamCaFault::Empty(path.to_owned()));
        }
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|_| UpstreamCaFault::Unusable(path.to_owned()))?;
        }
        Ok(Self(Arc::new(Roots { path: path.to_owned(), certificates })))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

impl UpstreamTlsFault {
    /// Tells why a TLS handshake with an upstream failed.
    #[must_use]
    pub fn classify(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => Self::of(error),
            None => Self::Ended,
        }
    }

    /// Whether the upstream was not believed, rather than not understood.
    #[must_use]
    pub const fn is_distrust(self) -> bool {
        match self {
            Self::UnknownIssuer | Self::OutOfDate | Self::WrongName | Self::BadCertificate | Self::NoCommonVersion => {
                true
            }
            Self::Ended | Self::NotTls => false,
        }
    }

    fn of(error: &rustls::Error) -> Self {
        use CertificateError::{
            Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext,
            UnknownIssuer,
        };
        match error {
            rustls::Error::InvalidCertificate(UnknownIssuer) => Self::UnknownIssuer,
            rustls::Error::InvalidCertificate(
                Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
            ) => Self::OutOfDate,
            rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => Self::WrongName,
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => Self::BadCertificate,
            rustls::Error::PeerIncompatible(_)
            | rustls::Error::AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::InsufficientSecurity
                | AlertDescription::HandshakeFailure,
            ) => Self::NoCommonVersion,
            rustls::Error::AlertReceived(_) => Self::Ended,
            _ => Self::NotTls,
        }
    }
}

fn system_config(own_ca: &CertificateDer<'_>) -> Arc<ClientConfig> {
    Arc::new(client_config(system_roots(), own_ca))
}

fn system_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some of the system's roots cannot be read");
    }
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        tracing::warn!("the system has no roots: the ones that came with the build are used");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}

fn client_config(mut roots: RootCertStore, own_ca: &CertificateDer<'_>) -> ClientConfig {
    without(&mut roots, own_ca);
    let mut config = ClientConfig::builder_with_provider(super::provider())
        .with_safe_default_protocol_versions()
        .expect("this provider has cipher suites for the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![super::ALPN.to_vec()];
    config
}

/// Takes our own CA's key out: who installed it on the host must not make the gateway believe what it minted itself.
fn without(roots: &mut RootCertStore, own_ca: &CertificateDer<'_>) {
    let mut own = RootCertStore::empty();
    if own.add(own_ca.clone().into_owned()).is_ok() {
        roots
            .roots
            .retain(|root| own.roots.iter().all(|own| own.subject_public_key_info != root.subject_public_key_info));
    }
}

/// A system's whole bundle has some 220 KiB.
const LONGEST_FILE: u64 = 1024 * 1024;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]
mod tests;
