//! A running stand-in: started, asked what it saw, told what to do, stopped.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustls::ServerConfig;
use tokio::runtime::Runtime;

use crate::account::Chain;
use crate::certs;
use crate::git::Repositories;
use crate::model::Answer;
use crate::options::{Expect, Options};
use crate::real::Real;
use crate::rule::{Rule, Rules};
use crate::seen::{Book, Seen, SeenConnection};
use crate::serve;
use crate::sign_in::SignIn;
use crate::turn::Memory;

/// A stand-in that listens until it is dropped. It owns its threads, so that a test needs no runtime.
pub struct StandIn {
    address: SocketAddr,
    ca_pem: String,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) book: Arc<Book>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) real: Vec<Real>,
    pub(crate) keep: usize,
    pub(crate) repositories: Option<Repositories>,
    live: Mutex<Live>,
}

/// What can be changed while it runs.
pub(crate) struct Live {
    pub(crate) rules: Rules,
    pub(crate) script: VecDeque<Answer>,
    pub(crate) memory: Memory,
    /// An upgrade is accepted; else it is answered 426.
    pub(crate) websocket: bool,
    /// What an attempt to refresh gets; nothing is a refusal.
    pub(crate) refresh: Option<Real>,
    /// Comes before that.
    pub(crate) chain: Option<Chain>,
    /// A person may sign in.
    pub(crate) sign_in: Option<SignIn>,
    pub(crate) expect: Expect,
    pub(crate) idle_close: Option<Duration>,
}

impl StandIn {
    /// # Errors
    ///
    /// When the address is taken or no certificate can be made.
    pub fn start(options: Options) -> Result<Self> {
        let (tls, ca_pem) = certs::server(&options)?;
        let listener = TcpListener::bind(options.listen).with_context(|| format!("listen on {}", options.listen))?;
        listener.set_nonblocking(true).context("prepare the listener")?;
        let address = listener.local_addr().context("read the listener's address")?;
        let live = Live {
            rules: Rules::default(),
            script: VecDeque::new(),
            memory: Memory::default(),
            websocket: options.websocket,
            refresh: None,
            chain: None,
            sign_in: None,
            expect: options.expect,
            idle_close: options.idle_close,
        };
        let shared = Arc::new(Shared {
            book: Arc::default(),
            tls: (!options.plain).then_some(tls),
            real: options.real,
            keep: options.keep,
            repositories: options.repositories,
            live: Mutex::new(live),
        });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().thread_name("standin").build();
        let runtime = runtime.context("start the stand-in's threads")?;
        runtime.spawn(listen(shared.clone(), listener));
        Ok(Self { address, ca_pem, shared, runtime: Some(runtime) })
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that a client has to trust.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// # Errors
    ///
    /// When the file cannot be written.
    #[expect(clippy::disallowed_methods, reason = "a public certificate, where the caller wants it")]
    pub fn write_ca(&self, path: &Path) -> Result<()> {
        std::fs::write(path, &self.ca_pem).with_context(|| format!("write {}", path.display()))
    }

    /// The requests so far, in the order in which their heads came.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.book.seen()
    }

    /// The requests, and messages over WebSockets, that asked a model for an answer.
    #[must_use]
    pub fn model_calls(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.model).collect()
    }

    /// Waits until so many requests were seen.
    ///
    /// # Errors
    ///
    /// When they did not come in time; says how many did.
    pub fn wait_seen(&self, count: usize, time: Duration) -> Result<Vec<Seen>> {
        let end = Instant::now() + time;
        loop {
            let seen = self.seen();
            if seen.len() >= count {
                return Ok(seen);
            }
            if Instant::now() > end {
                bail!("waited {time:?} for {count} requests, saw {}", seen.len());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[must_use]
    pub fn connections(&self) -> Vec<SeenConnection> {
        self.shared.book.connections()
    }

    /// Forgets the requests, not the connections.
    pub fn forget(&self) {
        self.shared.book.forget();
    }

    /// Replaces the rules.
    pub fn rules(&self, rules: Vec<Rule>) {
        self.shared.live(|live| live.rules = Rules::new(rules));
    }

    /// The next model requests are answered so, whatever they ask; then markers count again.
    pub fn script(&self, answers: Vec<Answer>) {
        self.shared.live(|live| live.script = answers.into());
    }

    /// Whether upgrades to a WebSocket are accepted from now on. Sessions go on.
    pub fn websocket(&self, accepted: bool) {
        self.shared.live(|live| live.websocket = accepted);
    }

    /// What an attempt to refresh a login gets from now on; nothing is a refusal.
    pub fn refresh(&self, fresh: Option<Real>) {
        self.shared.live(|live| live.refresh = fresh);
    }

    /// From now on a refresh token is good once: `first` for the first of these credentials and the next refresh token
    /// (`rt-stand-in-1` and so on), that for the second; any other token is refused with `invalid_grant`.
    pub fn chain(&self, first: &str, fresh: Vec<Real>) {
        self.shared.live(|live| live.chain = Some(Chain::new(first, fresh)));
    }

    /// From now on a person may sign in, and gets this login: by the page `/oauth/authorize`, or by a device code, while
    /// these answers (status and JSON) come first to the question whether it was typed.
    pub fn sign_in(&self, gives: Real, before: &[(u16, &str)]) {
        let before = before.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
        self.shared.live(|live| live.sign_in = Some(SignIn::new(gives, before)));
    }

    pub fn expect(&self, expect: Expect) {
        self.shared.live(|live| live.expect = expect);
    }

    pub fn idle_close(&self, time: Option<Duration>) {
        self.shared.live(|live| live.idle_close = time);
    }

    /// Ends the listener and every connection at once.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Reads or changes what can change. Never held across a wait.
    pub(crate) fn live<T>(&self, work: impl FnOnce(&mut Live) -> T) -> T {
        work(&mut self.live.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn listen(shared: Arc<Shared>, listener: TcpListener) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve::connection(shared.clone(), stream))),
            // Out of descriptors, most likely: those that are open will end.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
