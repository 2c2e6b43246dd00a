//! Certificates: what the house shows to strict clients, and whom it believes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Case, Claimed, House, Need, Tunnel, case, process};
use rustls::pki_types::UnixTime;
use sha2::{Digest, Sha256};
use standin::{Authority, Certificate, Options, Real, StandIn};

use super::base::{GATEWAY, REAL, Wire, get, holds};

pub(super) const CASES: &[Case] = &[
    case("wire::r14_openssl_verifies_the_chain_strictly", strict_openssl).needs(&[Need::Gateway, Need::Openssl]),
    case("wire::r14_python_verifies_the_chain_strictly", strict_python).needs(&[Need::Gateway, Need::Python]),
    case("wire::r25_the_house_does_not_believe_its_own_ca", own_ca).needs(GATEWAY),
    case("wire::r25_an_upstream_with_old_tls_sees_no_request", old_tls).needs(GATEWAY),
    case("wire::r26_a_restart_keeps_ca_run_and_injection", restarts).needs(GATEWAY),
    case("wire::r26_a_damaged_ca_is_a_startup_error_not_a_new_ca", damaged_ca).needs(GATEWAY),
];

fn strict_openssl() -> Result<()> {
    let wire = Wire::start()?;
    let leaf = wire.inside("api.test")?.certificates().first().context("no leaf")?.to_vec();
    let file = wire.house.folder().join("leaf.der");
    put(&file, &leaf)?;
    let ca = wire.house.state().join("ca/ca.pem");
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-inform", "der", "-out", "leaf.pem", "-in"]).arg(&file).current_dir(wire.house.folder());
    process::run(openssl, None, Duration::from_secs(10))?.expect_code(0)?;
    let mut openssl = Command::new("openssl");
    openssl.args(["verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "api.test", "-CAfile"]);
    openssl.arg(ca).arg("leaf.pem").current_dir(wire.house.folder());
    let ran = process::run(openssl, None, Duration::from_secs(10))?.expect_code(0)?;
    ensure!(ran.text().contains("OK"), "{}", ran.text());
    Ok(())
}

fn strict_python() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let port = relay(&wire.house.door("one"))?;
    let script = "
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[1])
context.verify_flags |= ssl.VERIFY_X509_STRICT
proxy = urllib.request.ProxyHandler({'https': sys.argv[2]})
opener = urllib.request.build_opener(proxy, urllib.request.HTTPSHandler(context=context))
with opener.open('https://api.test/strict', timeout=10) as answer:
    print(answer.status, answer.read().decode())
";
    let mut python = Command::new("python3");
    python.arg("-c").arg(script).arg(wire.house.state().join("ca/ca.pem"));
    python.arg(format!("http://{}:x@127.0.0.1:{port}", wire.claimed.token()));
    let ran = process::run(python, None, Duration::from_secs(30))?.expect_code(0)?;
    ensure!(ran.text().trim() == "200 fine", "{}", ran.text());
    Ok(())
}

/// A TCP port on loopback whose connections go to the door.
fn relay(door: &Path) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
    let port = listener.local_addr().context("read the port")?.port();
    let door = door.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(there) = UnixStream::connect(&door) else { return };
            let (Ok(mut from), Ok(mut to)) = (stream.try_clone(), there.try_clone()) else { return };
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let (mut from, mut to) = (there, stream);
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
    });
    Ok(port)
}

/// The host trusts our own CA, as one who installed it would; the gateway must not.
fn own_ca() -> Result<()> {
    let mut house = House::builder()
        .env("SSL_CERT_FILE", "state/ca/ca.pem")
        .secret(Real::Bearer(REAL.into()))
        .file("place", b"")
        .prepare()?;
    house.start()?;
    house.term()?;
    let authority = Authority {
        certificate_pem: house.ca_pem()?,
        key_pem: std::fs::read_to_string(house.state().join("ca/ca.key")).context("read the key")?,
    };
    let standin = StandIn::start(Options {
        names: vec!["api.test".into()],
        certificate: Certificate::By(authority),
        ..Options::default()
    })?;
    let grant = format!(
        "\n[[grant]]\nname = \"api\"\nhosts = [\"api.test\"]\nsecret = \"anthropic\"\nunsafe_secret_hosts = true\nunsafe_dial = \"{}\"\n",
        standin.address()
    );
    for more in ["", "upstream_ca = \"state/ca/ca.pem\"\n"] {
        let text = std::fs::read_to_string(house.config()).context("read the configuration")?;
        put(&house.config(), format!("{text}{grant}{more}").as_bytes())?;
        house.start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        let answer = Tunnel::connect(&house.door("one"), claimed.token(), "api.test:443")?
            .tls(&house.ca_pem()?, "api.test")?
            .ask(&get("api.test", "/", ""))?;
        ensure!(answer.status == 502 && answer.reason() == Some("upstream-untrusted"), "{answer:?}");
        claimed.report()?;
        house.term()?;
        put(&house.config(), text.as_bytes())?;
    }
    ensure!(standin.seen().is_empty(), "{:?}", standin.seen());
    ensure!(standin.connections().len() == 2, "{:?}", standin.connections());
    Ok(())
}

/// One that answers every greeting in TLS 1.0, and one that refuses all it hears of.
fn old_tls() -> Result<()> {
    let mut hello = vec![0x16, 3, 1, 0, 42, 2, 0, 0, 38, 3, 1];
    hello.extend([7; 32]);
    hello.extend([0, 0xc0, 0x13, 0]);
    for answer in [hello, vec![0x15, 3, 1, 0, 2, 2, 70]] {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
        let address = listener.local_addr().context("read the address")?;
        let upstream = std::thread::spawn(move || -> Result<Vec<u8>> {
            let (mut stream, _) = listener.accept().context("accept")?;
            stream.set_read_timeout(Some(Duration::from_secs(10))).context("set a deadline")?;
            let mut all = vec![0; 4096];
            let read = stream.read(&mut all).context("read the greeting")?;
            all.truncate(read);
            stream.write_all(&answer).context("answer")?;
            let _reset_is_an_end_too = stream.read_to_end(&mut all);
            Ok(all)
        });
        let house = House::builder()
            .secret(Real::Bearer(REAL.into()))
            .grant(&format!("name = \"api\"\nhosts = [\"api.test\"]\nsecret = \"anthropic\"\nunsafe_secret_hosts = true\nunsafe_dial = \"{address}\""))
            .start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        let answer = Tunnel::connect(&house.door("one"), claimed.token(), "api.test:443")?
            .tls(&house.ca_pem()?, "api.test")?
            .ask(&get("api.test", "/old", ""))?;
        ensure!(answer.status == 502 && answer.reason() == Some("upstream-untrusted"), "{answer:?}");
        let all = upstream.join().ok().context("the upstream broke")??;
        ensure!(!holds(&all, "HTTP/1.1") && !holds(&all, REAL), "the upstream saw a request");
        house.wait_line("the error", |line| line["kind"] == "closed" && line["reason"] == "upstream-untrusted")?;
    }
    Ok(())
}

fn restarts() -> Result<()> {
    let mut wire = Wire::start()?;
    wire.answer_all();
    let print = |house: &House| -> Result<_> {
        let key = house.state().join("ca/ca.key");
        let mode = std::fs::metadata(&key).context("look at the key")?.permissions().mode() & 0o777;
        Ok((Sha256::digest(house.ca_pem()?), Sha256::digest(std::fs::read(&key).context("read the key")?), mode))
    };
    let before = print(&wire.house)?;
    ensure!(before.2 == 0o600, "the key has mode {:o}", before.2);
    ensure!(wire.inside("api.test")?.ask(&get("api.test", "/1", ""))?.status == 200);
    wire.house.term()?.expect_code(0)?;
    wire.house.start()?;
    ensure!(print(&wire.house)? == before, "CA or key changed");
    ensure!(wire.inside("api.test")?.ask(&get("api.test", "/2", ""))?.status == 200);
    wire.house.kill()?;
    wire.house.start()?;
    ensure!(print(&wire.house)? == before, "CA or key changed");
    ensure!(wire.inside("api.test")?.ask(&get("api.test", "/3", ""))?.status == 200);
    ensure!(wire.standin.seen().iter().all(|seen| seen.real), "{:?}", wire.standin.seen());
    wire.house.kill()?;
    std::fs::remove_file(wire.house.secret()).context("remove the secret")?;
    wire.house.start()?;
    let headers = format!("Authorization: Bearer {}\r\n", wire.sentinel()?);
    let answer = wire.inside("api.test")?.ask(&get("api.test", "/4", &headers))?;
    ensure!(answer.status == 503 && answer.reason() == Some("credential-outage"), "{answer:?}");
    ensure!(wire.standin.seen().len() == 3, "{:?}", wire.standin.seen());
    ensure!(!holds(&wire.upstream(), &wire.sentinel()?), "a sentinel went out");
    Ok(())
}

fn damaged_ca() -> Result<()> {
    let mut house = House::builder().start()?;
    house.term()?;
    let (pem, key) = (house.state().join("ca/ca.pem"), house.state().join("ca/ca.key"));
    let (pem_was, key_was) = (std::fs::read(&pem).context("read")?, std::fs::read(&key).context("read")?);
    let damages: [(&Path, Option<&[u8]>); 6] = [
        (&pem, Some(&pem_was[..pem_was.len() / 2])),
        (&key, Some(&key_was[..key_was.len() / 2])),
        (&pem, Some(b"")),
        (&key, None),
        (&pem, None),
        (&key, Some(&pem_was)),
    ];
    for (path, bytes) in damages {
        match bytes {
            Some(bytes) => put(path, bytes)?,
            None => std::fs::remove_file(path).context("remove")?,
        }
        let told = format!("{:#}", house.start().err().context("it started")?);
        ensure!(told.contains("ca"), "{told}");
        ensure!(std::fs::read(path).ok().as_deref() == bytes, "a damaged CA was replaced: {}", path.display());
        put(&pem, &pem_was)?;
        put(&key, &key_was)?;
    }
    house.start()
}

#[expect(clippy::disallowed_methods, reason = "a test's own file")]
pub(super) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).context("set the mode")
}

/// A client whose clock stands still.
#[derive(Debug)]
pub(super) struct StoppedClock(pub(super) u64);

impl rustls::time_provider::TimeProvider for StoppedClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

pub(super) fn config_at(ca_pem: &str, seconds: u64) -> Result<Arc<rustls::ClientConfig>> {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.context("read the certificate")?).context("trust the certificate")?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_details(provider, Arc::new(StoppedClock(seconds)))
        .with_safe_default_protocol_versions()
        .context("choose TLS versions")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
