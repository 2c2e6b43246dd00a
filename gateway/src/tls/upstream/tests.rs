//! Handshakes in memory with upstreams that should not be believed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::server::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{UpstreamCa, UpstreamCaFault, UpstreamTlsFault, Upstreams};
use crate::ca::Ca;
use crate::host::Host;

struct World {
    _state: tempfile::TempDir,
    upstreams: Upstreams,
    ours: Ca,
    authority: Issuer<'static, KeyPair>,
    trusted: UpstreamCa,
}

fn world() -> World {
    let state = tempfile::tempdir().expect("a folder");
    let ours = Ca::open_or_make(&state.path().join("ca")).expect("made");
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "a private CA");
    let certificate = params.self_signed(&key).expect("signed");
    let path = state.path().join("private.pem");
    std::fs::write(&path, certificate.pem()).expect("written");
    let trusted = UpstreamCa::read(&path).expect("roots");
    World { upstreams: Upstreams::new(&ours), ours, authority: Issuer::new(params, key), trusted, _state: state }
}

fn leaf(name: &str, change: impl FnOnce(&mut CertificateParams)) -> (CertificateParams, KeyPair) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    change(&mut params);
    (params, KeyPair::generate().expect("a key"))
}

fn server(certificate: CertificateDer<'static>, key: &KeyPair) -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    builder.with_no_client_auth().with_single_cert(vec![certificate], key).expect("a configuration")
}

/// Shakes hands as `api.test` and says how that went.
async fn shake(world: &World, ca: Option<&UpstreamCa>, server: ServerConfig) -> Result<(), UpstreamTlsFault> {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let accepting = tokio::spawn(async move { acceptor.accept(far).await.map(drop) });
    let connector = TlsConnector::from(world.upstreams.client_config(ca));
    let name = Host::parse("api.test").expect("a host").server_name();
    let shaken = tokio::time::timeout(Duration::from_secs(5), connector.connect(name, near)).await.expect("in time");
    let _ = accepting.await;
    shaken.map(drop).map_err(|error| UpstreamTlsFault::classify(&error))
}

#[tokio::test]
async fn an_upstream_is_believed_by_its_grants_roots_alone() {
    let world = world();
    let signed = |(params, key): (CertificateParams, KeyPair)| {
        let certificate = params.signed_by(&key, &world.authority).expect("signed");
        server(certificate.der().clone(), &key)
    };
    let good = || signed(leaf("api.test", |_| {}));
    assert_eq!(shake(&world, Some(&world.trusted), good()).await, Ok(()));
    assert_eq!(shake(&world, None, good()).await, Err(UpstreamTlsFault::UnknownIssuer), "the system does not know it");
    let wrong_name = signed(leaf("other.test", |_| {}));
    assert_eq!(shake(&world, Some(&world.trusted), wrong_name).await, Err(UpstreamTlsFault::WrongName));
    let expired = signed(leaf("api.test", |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1)));
    assert_eq!(shake(&world, Some(&world.trusted), expired).await, Err(UpstreamTlsFault::OutOfDate));
    let (params, key) = leaf("api.test", |_| {});
    let selfsigned = server(params.self_signed(&key).expect("signed").der().clone(), &key);
    assert_eq!(shake(&world, Some(&world.trusted), selfsigned).await, Err(UpstreamTlsFault::UnknownIssuer));
}

#[tokio::test]
async fn our_own_ca_is_never_believed_not_even_where_a_grant_names_it() {
    let world = world();
    let minted = || {
        let leaf = world.ours.mint(&Host::parse("api.test").expect("a host")).expect("minted");
        crate::tls::leaves::server_config(leaf.key).expect("a configuration")
    };
    assert_eq!(shake(&world, None, minted()).await, Err(UpstreamTlsFault::UnknownIssuer));
    let path = world._state.path().join("ca/ca.pem");
    let ours = UpstreamCa::read(&path).expect("roots");
    assert_eq!(shake(&world, Some(&ours), minted()).await, Err(UpstreamTlsFault::UnknownIssuer));
}

#[test]
fn a_file_without_usable_roots_is_a_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("roots.pem");
    let fault = |text: &str| {
        std::fs::write(&path, text).expect("written");
        UpstreamCa::read(&path).expect_err("a fault")
    };
    assert!(matches!(fault(""), UpstreamCaFault::Empty(_)));
    assert!(matches!(fault("junk"), UpstreamCaFault::Empty(_)));
    assert!(matches!(
        fault("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        UpstreamCaFault::Unusable(_)
    ));
    assert!(matches!(fault("-----BEGIN CERTIFICATE-----\nAAAA\n"), UpstreamCaFault::Unusable(_)));
    assert!(matches!(UpstreamCa::read(Path::new("/nonexistent/roots.pem")), Err(UpstreamCaFault::File(_))));
}
