//! The peers. Each overwrites `authorization` and keeps a line for each request, the least of what boxgate does.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::certs;
use bench::ground::{Ground, SECRET};
use bench::wire::{Entrance, Route};
use harness::files::put;
use harness::process;

use super::{Prepare, STRANGER, Started};

/// nginx as a reverse proxy with one static certificate.
pub(super) struct Nginx {
    program: PathBuf,
    folder: PathBuf,
}

impl Nginx {
    pub(super) fn new(ground: &Ground, program: PathBuf) -> Result<Self> {
        let folder = ground.path().join("nginx");
        std::fs::create_dir_all(&folder).context("make nginx's folder")?;
        Ok(Self { program, folder })
    }

    fn config(&self, ground: &Ground, port: u16) -> String {
        let (folder, ground_at, origin) = (self.folder.display(), ground.path().display(), ground.origin);
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        format!(
            "{user}worker_processes {workers}; daemon off; pid {folder}/pid; error_log {folder}/error.log warn;
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; multi_accept on; }}
http {{
  log_format line '$time_iso8601 $remote_addr $host \"$request\" $status $bytes_sent $request_time';
  access_log {folder}/access.log line;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_timeout 900; keepalive_requests 1000000000; client_max_body_size 0; tcp_nodelay on;
  ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets off;
  upstream origin {{ server {origin}; keepalive 8192; keepalive_requests 1000000000; keepalive_timeout 900; }}
  server {{
    listen 127.0.0.1:{port} ssl reuseport backlog=4096;
    ssl_certificate {ground_at}/{cert}; ssl_certificate_key {ground_at}/{key};
    location / {{
      proxy_pass https://origin; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $http_host;
      proxy_set_header Authorization \"Bearer {SECRET}\";
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 600;
      proxy_ssl_verify on; proxy_ssl_trusted_certificate {ground_at}/{ca}; proxy_ssl_server_name on; proxy_ssl_name $host;
      proxy_ssl_protocols TLSv1.2 TLSv1.3;
    }}
  }}
}}
",
            user = if nix::unistd::Uid::effective().is_root() { "user root; " } else { "" },
            cert = certs::ORIGIN,
            key = certs::ORIGIN_KEY,
            ca = certs::ORIGIN_CA,
        )
    }
}

impl Prepare for Nginx {
    fn start(&mut self, ground: &Ground) -> Result<Started> {
        let port = free_port()?;
        let file = self.folder.join("nginx.conf");
        put(&file, self.config(ground, port).as_bytes(), 0o600)?;
        let mut command = Command::new(&self.program);
        command.arg("-p").arg(&self.folder).arg("-c").arg(&file);
        command.arg("-e").arg(self.folder.join("error.log"));
        started(command, Entrance::Tls(address(port)), ground, &ground.path().join(certs::ORIGIN_CA))
    }

    fn version(&self) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("-v");
        let ran = process::run(command, None, Duration::from_secs(10))?;
        Ok(ran.stderr.trim().trim_start_matches("nginx version: ").to_owned())
    }
}

/// The library hudsucker, in the smallest program that uses it.
pub(super) struct Hudsucker {
    program: PathBuf,
}

impl Hudsucker {
    pub(super) const fn new(program: PathBuf) -> Self {
        Self { program }
    }
}

impl Prepare for Hudsucker {
    fn start(&mut self, ground: &Ground) -> Result<Started> {
        let port = free_port()?;
        let mut command = Command::new(&self.program);
        command.arg(port.to_string());
        command.args([certs::PEER_CA, certs::PEER_CA_KEY, certs::ORIGIN_CA].map(|name| ground.path().join(name)));
        command.arg(SECRET).arg(ground.path().join("hudsucker.log"));
        started(command, Entrance::Proxy(address(port)), ground, &ground.path().join(certs::PEER_CA))
    }

    fn version(&self) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("--version");
        Ok(process::run(command, None, Duration::from_secs(10))?.expect_code(0)?.text().trim().to_owned())
    }
}

/// mitmdump with an addon of a few lines, which also keeps names from being looked up.
pub(super) struct Mitmproxy {
    program: PathBuf,
    folder: PathBuf,
}

impl Mitmproxy {
    pub(super) fn new(ground: &Ground, program: PathBuf) -> Result<Self> {
        let folder = ground.path().join("mitmproxy");
        std::fs::create_dir_all(&folder).context("make mitmproxy's folder")?;
        put(&folder.join("addon.py"), ADDON.as_bytes(), 0o600)?;
        Ok(Self { program, folder })
    }
}

impl Prepare for Mitmproxy {
    fn start(&mut self, ground: &Ground) -> Result<Started> {
        let port = free_port()?;
        let conf = format!("confdir={}", self.folder.join("conf").display());
        let roots = format!("ssl_verify_upstream_trusted_ca={}", ground.path().join(certs::ORIGIN_CA).display());
        let mut command = Command::new(&self.program);
        command.args(["-q", "--listen-host", "127.0.0.1", "-p", &port.to_string(), "--set", &conf, "--set", &roots]);
        command.args(["--set", "stream_large_bodies=256k", "-s"]).arg(self.folder.join("addon.py"));
        command.env("BENCH_ORIGIN_PORT", ground.origin.port().to_string());
        command.env("BENCH_SECRET", SECRET).env("BENCH_LOG", self.folder.join("access.log"));
        let ca = self.folder.join("conf/mitmproxy-ca-cert.pem");
        let mut running = None;
        if !ca.exists() {
            // The first start makes its authority.
            let mut first = Command::new(&self.program);
            first.args(command.get_args());
            first.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            running = Some(process::start(first, None)?);
            harness::until("mitmproxy's authority", Duration::from_secs(30), || ca.exists().then_some(()))?;
            std::thread::sleep(Duration::from_millis(500));
        }
        drop(running);
        started(command, Entrance::Proxy(address(port)), ground, &ca)
    }

    fn version(&self) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("--version");
        let said = process::run(command, None, Duration::from_secs(60))?.expect_code(0)?.text();
        Ok(said.lines().take(2).collect::<Vec<_>>().join(", "))
    }
}

fn started(command: Command, entrance: Entrance, ground: &Ground, trusted: &Path) -> Result<Started> {
    let route = Route {
        entrance,
        port: ground.origin.port(),
        token: Some("bench".to_owned()),
        authorization: STRANGER.to_owned(),
        tls: certs::client(&std::fs::read(trusted).context("read what is to be trusted")?)?,
    };
    let began = Instant::now();
    let running = process::start(command, None)?;
    Ok(Started { route, began, roots: vec![running.pid()], _held: Box::new(running) })
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A port that was free a moment ago: the peers cannot tell which one they took.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(address(0)).context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}

const ADDON: &str = "\
import os

LOG = open(os.environ['BENCH_LOG'], 'a', buffering=1)
SECRET = 'Bearer ' + os.environ['BENCH_SECRET']


class Overwrite:
    def server_connect(self, data):
        data.server.address = ('127.0.0.1', int(os.environ['BENCH_ORIGIN_PORT']))

    def requestheaders(self, flow):
        flow.request.headers['authorization'] = SECRET

    def responseheaders(self, flow):
        if flow.response.headers.get('content-type', '').startswith('text/event-stream'):
            flow.response.stream = True

    def response(self, flow):
        LOG.write(f'{flow.request.method} {flow.request.pretty_host} {flow.request.path} {flow.response.status_code}\\n')


addons = [Overwrite()]
";
