//! TLS both ways: the leaves toward the boxes, the verification toward the world. The one place that builds its configurations.

use std::sync::{Arc, LazyLock};

use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;

pub mod leaves;
pub mod upstream;

pub use leaves::{LeafConfigs, LeafError};
pub use upstream::{UpstreamCa, UpstreamCaFault, UpstreamTlsFault, Upstreams};

/// Spoken on both legs: bodies are streamed as HTTP/1.1, and WebSocket handshakes need it.
const ALPN: &[u8] = b"http/1.1";

/// The cryptography of both legs: what rustls holds safe, and of that first what costs least: AES-128-GCM with SHA-256, which
/// every TLS 1.3 has (RFC 8446 §9.1). Most processors compute SHA-256 by themselves and SHA-384 not: that alone made a
/// handshake a third dearer.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
        Arc::new(provider)
    });
    Arc::clone(&PROVIDER)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::{CipherSuite, ClientConfig, RootCertStore};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::{LeafConfigs, provider};
    use crate::ca::Ca;
    use crate::host::Target;

    #[tokio::test]
    async fn a_box_that_names_the_dearer_suite_first_gets_the_other() {
        let state = tempfile::tempdir().expect("a folder");
        let ca = Arc::new(Ca::open_or_make(&state.path().join("ca")).expect("made"));
        let mut roots = RootCertStore::empty();
        roots.add(ca.certificate_der().clone()).expect("a root");
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let client = builder.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
        let target = Target::from_authority("a.test:443", None).expect("a target");
        let server = LeafConfigs::new(ca, 1).for_target(&"one".parse().expect("an id"), &target).expect("minted");
        let (near, far) = tokio::io::duplex(64 * 1024);
        let accepting = tokio::spawn(async move { TlsAcceptor::from(server).accept(far).await.map(drop) });
        let connector = TlsConnector::from(Arc::new(client.with_no_client_auth()));
        let shaken = connector.connect(target.host().server_name(), near).await.expect("a handshake");
        accepting.await.expect("no panic").expect("a handshake");
        let suite = shaken.get_ref().1.negotiated_cipher_suite().map(|suite| suite.suite());
        assert_eq!(suite, Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
    }

    #[test]
    fn no_suite_is_left_out() {
        let (ours, theirs) = (provider(), default_provider());
        assert_eq!(ours.cipher_suites.len(), theirs.cipher_suites.len());
        assert!(theirs.cipher_suites.iter().all(|suite| ours.cipher_suites.contains(suite)));
    }
}
