//! The smallest intercepting proxy on hudsucker: overwrites `authorization` and writes a line for each request.
//!
//! `hudsucker-peer PORT CA CA-KEY ORIGIN-CA SECRET LOG`. Every name leads to loopback.

use std::fs::File;
use std::future::{Ready, ready};
use std::io::{Error, LineWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use hudsucker::certificate_authority::RcgenAuthority;
use hudsucker::hyper::header::{AUTHORIZATION, HeaderValue};
use hudsucker::hyper::{Method, Request, Response};
use hudsucker::rcgen::{Issuer, KeyPair};
use hudsucker::rustls::crypto::aws_lc_rs;
use hudsucker::rustls::pki_types::CertificateDer;
use hudsucker::rustls::pki_types::pem::PemObject;
use hudsucker::rustls::{ClientConfig, RootCertStore};
use hudsucker::{Body, HttpContext, HttpHandler, Proxy, RequestOrResponse};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

type Fault = Box<dyn std::error::Error>;

#[derive(Clone)]
struct Overwrite {
    secret: HeaderValue,
    log: Arc<Mutex<LineWriter<File>>>,
    asked: String,
}

impl HttpHandler for Overwrite {
    async fn handle_request(&mut self, _context: &HttpContext, mut request: Request<Body>) -> RequestOrResponse {
        if request.method() != Method::CONNECT {
            self.asked = format!("{} {}", request.method(), request.uri());
            request.headers_mut().insert(AUTHORIZATION, self.secret.clone());
        }
        request.into()
    }

    async fn handle_response(&mut self, _context: &HttpContext, response: Response<Body>) -> Response<Body> {
        if !self.asked.is_empty()
            && let Ok(mut log) = self.log.lock()
        {
            let _lost = writeln!(log, "{} {}", self.asked, response.status().as_u16());
        }
        response
    }
}

/// Leads every name to loopback.
#[derive(Clone)]
struct Loopback;

impl Service<Name> for Loopback {
    type Response = std::iter::Once<SocketAddr>;
    type Error = Error;
    type Future = Ready<Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _name: Name) -> Self::Future {
        ready(Ok(std::iter::once(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))))
    }
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--version") {
        println!("hudsucker {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    let [port, ca, ca_key, origin_ca, secret, log] = &arguments[..] else {
        return Err("hudsucker-peer PORT CA CA-KEY ORIGIN-CA SECRET LOG".into());
    };
    let key = KeyPair::from_pem(&std::fs::read_to_string(ca_key)?)?;
    let issuer = Issuer::from_ca_cert_pem(&std::fs::read_to_string(ca)?, key)?;
    let authority = RcgenAuthority::new(issuer, 10_000, aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(origin_ca)? {
        roots.add(certificate?)?;
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new_with_resolver(Loopback);
    http.enforce_http(false);
    http.set_nodelay(true);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .wrap_connector(http);
    // hudsucker leaves TCP_NODELAY off; on Linux what is accepted has it from the socket that listens.
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_nodelay(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?)))?;
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
    let handler = Overwrite {
        secret: HeaderValue::from_str(&format!("Bearer {secret}"))?,
        log: Arc::new(Mutex::new(LineWriter::new(log))),
        asked: String::new(),
    };
    let proxy = Proxy::builder()
        .with_listener(socket.listen(4096)?)
        .with_ca(authority)
        .with_http_connector(connector)
        .with_http_handler(handler)
        .build()?;
    Ok(proxy.start().await?)
}
