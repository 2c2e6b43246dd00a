//! Pool: connections to upstreams that stay open between requests, each for one box, one grant and one target.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use box_spec::BoxId;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::flow::inject::Outbound;
use crate::host::Target;
use crate::policy::{Grant, Scheme};

use super::upload::{Progress, Upload};

/// Who may share a connection. The grant stands for its credential, its roots and its address; after a reload it is another,
/// whatever its name.
#[derive(Clone)]
pub(super) struct Key {
    box_id: BoxId,
    grant: Arc<Grant>,
    target: Target,
    scheme: Scheme,
}

/// The idle connections of the house.
pub(super) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    idle: Mutex<HashMap<Key, Vec<Idle>>>,
    idle_life: Duration,
    per_key: usize,
    /// Of one box, wherever they lead: a granted `*.host` must not let it take every descriptor of the house.
    per_box: usize,
}

struct Idle {
    sender: SendRequest<Upload>,
    alive: DropGuard,
    since: Instant,
}

/// A connection in use by one request. Dropped, it closes; given back, it serves the next.
pub struct Lease {
    sender: SendRequest<Upload>,
    /// Dropped, it ends the connection, whatever is still under way on it.
    alive: DropGuard,
    key: Key,
    shared: Arc<Shared>,
    upload: Option<Arc<Progress>>,
}

impl Key {
    pub(super) fn of(outbound: &Outbound) -> Self {
        Self {
            box_id: outbound.caller().box_id().clone(),
            grant: Arc::clone(outbound.grant()),
            target: outbound.target().clone(),
            scheme: outbound.scheme(),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let Self { box_id, grant, target, scheme } = self;
        Arc::ptr_eq(grant, &other.grant)
            && *box_id == other.box_id
            && *target == other.target
            && *scheme == other.scheme
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { box_id, grant, target, scheme } = self;
        (box_id, Arc::as_ptr(grant), target, scheme).hash(state);
    }
}

impl Pool {
    pub(super) fn new(idle_life: Duration, per_key: usize, per_box: usize) -> Self {
        Self { shared: Arc::new(Shared { idle: Mutex::new(HashMap::new()), idle_life, per_key, per_box }) }
    }

    /// An idle connection that is still alive, the youngest first.
    pub(super) fn take(&self, key: &Key) -> Option<Lease> {
        let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle.get_mut(key)?;
        let mut found = None;
        while let Some(candidate) = waiting.pop() {
            if candidate.sender.is_ready() && candidate.since.elapsed() < self.shared.idle_life {
                found = Some((candidate.sender, candidate.alive));
                break;
            }
        }
        if waiting.is_empty() {
            idle.remove(key);
        }
        found.map(|(sender, alive)| Lease {
            sender,
            alive,
            key: key.clone(),
            shared: Arc::clone(&self.shared),
            upload: None,
        })
    }

    /// Speaks HTTP/1.1 on a fresh connection. It ends with the run that opened it.
    pub(super) async fn open<S>(&self, key: Key, stream: S, over: CancellationToken) -> hyper::Result<Lease>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .max_headers(200)
            .max_buf_size(512 * 1024)
            .handshake(TokioIo::new(stream))
            .await?;
        let gone = over.child_token();
        let alive = gone.clone().drop_guard();
        tokio::spawn(async move {
            tokio::select! {
                () = gone.cancelled() => {}
                ended = connection.with_upgrades() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "an upstream connection ended");
                    }
                }
            }
        });
        Ok(Lease { sender, alive, key, shared: Arc::clone(&self.shared), upload: None })
    }
}

impl Lease {
    /// Sends a request. An error that still holds the request tells that none of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Upload>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Upload>>> {
        // A connection that was just opened needs a moment until it takes a request; a closed one says so on sending.
        let _ = self.sender.ready().await;
        self.upload = Some(request.body().progress());
        self.sender.try_send_request(request).await
    }

    /// The answer is whole: the connection may serve another request of the same box, grant and target.
    pub fn give_back(self) {
        let Self { sender, alive, key, shared, upload } = self;
        // One that was answered before its body was sent can take no other request.
        if sender.is_closed() || !upload.is_none_or(|upload| upload.is_whole()) {
            return;
        }
        let mut idle = shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever has been waiting too long makes room, wherever it waits: nothing is kept for ever.
        idle.retain(|_, waiting| {
            waiting.retain(|candidate| candidate.since.elapsed() < shared.idle_life && !candidate.sender.is_closed());
            !waiting.is_empty()
        });
        let of_box: usize =
            idle.iter().filter(|(other, _)| other.box_id == key.box_id).map(|(_, waiting)| waiting.len()).sum();
        if of_box >= shared.per_box {
            return;
        }
        let waiting = idle.entry(key).or_default();
        if waiting.len() < shared.per_key {
            waiting.push(Idle { sender, alive, since: Instant::now() });
        }
    }
}
