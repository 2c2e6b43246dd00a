//! TLS configurations, both ways. (In the making.)

use std::path::PathBuf;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;

/// The only roots of a grant's upstream.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UpstreamCa(Arc<RootFile>);

#[derive(PartialEq, Eq, Hash, Debug)]
struct RootFile {
    path: PathBuf,
    certificates: Vec<CertificateDer<'static>>,
}
