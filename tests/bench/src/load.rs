//! What a client does to a subject: each gives how much was done in what time, and the latencies. The first fault ends it:
//! a figure of answers that were no answers is worth nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::certs::{HOST, MANY};
use bench::wire::{Connection, Route, now};
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;

/// What was done.
#[derive(Default)]
pub(crate) struct Done {
    /// Connections, requests, bytes or events.
    pub(crate) units: u64,
    pub(crate) seconds: f64,
    /// Nanoseconds, sorted.
    pub(crate) latencies: Vec<u64>,
}

impl Done {
    pub(crate) fn rate(&self) -> f64 {
        self.units as f64 / self.seconds
    }

    /// A share of the latencies lies below this: microseconds.
    pub(crate) fn micros(&self, share: f64) -> f64 {
        let at = ((self.latencies.len() as f64 * share) as usize).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
    }

    fn of(latencies: Vec<Vec<u64>>, began: Instant) -> Self {
        let seconds = began.elapsed().as_secs_f64();
        let mut latencies = latencies.concat();
        latencies.sort_unstable();
        Self { units: latencies.len() as u64, seconds, latencies }
    }
}

/// New connections to the host, each for one request, `at_once` at a time.
pub(crate) async fn connections(route: &Route, at_once: usize, time: Duration) -> Result<Done> {
    let began = Instant::now();
    let one = |route: Arc<Route>| async move {
        let mut latencies = Vec::new();
        while began.elapsed() < time {
            let opened = Instant::now();
            Connection::open(&route, HOST).await?.get("/json").await?;
            latencies.push(nanos(opened));
        }
        Ok(latencies)
    };
    Ok(Done::of(side_by_side(route, at_once, |route, _| one(route)).await?, began))
}

/// One connection for one request to each of `count` hosts that were never asked before.
pub(crate) async fn hosts(route: &Route, first: usize, count: usize, at_once: usize) -> Result<Done> {
    let route = &route.to_strangers();
    let began = Instant::now();
    let next = Arc::new(AtomicUsize::new(first));
    let one = |route: Arc<Route>| {
        let next = next.clone();
        async move {
            let mut latencies = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= first + count {
                    return Ok(latencies);
                }
                let opened = Instant::now();
                Connection::open(&route, &format!("h{at}.{MANY}")).await?.get("/json").await?;
                latencies.push(nanos(opened));
            }
        }
    };
    Ok(Done::of(side_by_side(route, at_once, |route, _| one(route)).await?, began))
}

/// Requests on connections that stay open, one after the other on each.
pub(crate) async fn requests(route: &Route, connections: usize, time: Duration) -> Result<Done> {
    let ready = Arc::new(Barrier::new(connections));
    let one = |route: Arc<Route>| {
        let ready = ready.clone();
        async move {
            let opened = warm(&route).await;
            ready.wait().await;
            let mut connection = opened?;
            let mut latencies = Vec::new();
            let began = Instant::now();
            while began.elapsed() < time {
                let asked = Instant::now();
                connection.get("/json").await?;
                latencies.push(nanos(asked));
            }
            Ok(latencies)
        }
    };
    let began = Instant::now();
    let mut done = Done::of(side_by_side(route, connections, |route, _| one(route)).await?, began);
    done.seconds = time.as_secs_f64();
    Ok(done)
}

/// Bodies of 100 MiB on one connection; units are bytes.
pub(crate) async fn bulk(route: &Route, up: bool, time: Duration) -> Result<Done> {
    let mut connection = warm(route).await?;
    let began = Instant::now();
    let mut units = 0;
    while began.elapsed() < time {
        if up {
            connection.post("/sink", MANY_BYTES, |_| ()).await?;
        } else {
            let length = connection.get(&format!("/bytes/{MANY_BYTES}")).await?;
            ensure!(length == MANY_BYTES, "only {length} bytes came");
        }
        units += MANY_BYTES as u64;
    }
    Ok(Done { units, seconds: began.elapsed().as_secs_f64(), latencies: Vec::new() })
}

/// Streams of events, all open at once; a latency is from the origin's write to the client's sight of an event.
pub(crate) async fn events(route: &Route, streams: usize, count: u64, pause: Duration) -> Result<Done> {
    let open = hold(route, streams).await?;
    let lead = Duration::from_millis(200 + streams as u64);
    let start = now() + u64::try_from(lead.as_nanos())?;
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for (at, mut connection) in open.into_iter().enumerate() {
        let phase = u64::try_from(pause.as_nanos())? * at as u64 / streams as u64;
        let path = format!("/events/{count}/{}/{}", pause.as_millis(), start + phase);
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            let mut text = Vec::new();
            connection.get_each(&path, |piece| sight(&mut text, piece, &mut latencies)).await?;
            anyhow::Ok(latencies)
        });
    }
    let latencies = all(tasks).await?;
    let done = Done::of(latencies, began);
    let expected = streams as u64 * count;
    ensure!(done.units == expected, "{} of {expected} events came", done.units);
    Ok(done)
}

fn sight(text: &mut Vec<u8>, piece: &[u8], latencies: &mut Vec<u64>) {
    let seen = now();
    text.extend_from_slice(piece);
    while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
        let event = String::from_utf8_lossy(&text[..end]);
        let at = event.split_once("\"at\":").and_then(|(_, rest)| rest.get(..20)?.parse::<u64>().ok());
        latencies.extend(at.map(|at| seen.saturating_sub(at)));
        text.drain(..end + 2);
    }
}

/// Opens connections, with one request on each, and gives them to be held.
pub(crate) async fn hold(route: &Route, count: usize) -> Result<Vec<Connection>> {
    let places = Arc::new(Semaphore::new(32));
    let mut tasks = JoinSet::new();
    let route = Arc::new(route.clone());
    for _ in 0..count {
        let (route, places) = (route.clone(), places.clone());
        tasks.spawn(async move {
            let _place = places.acquire_owned().await.context("wait for a place")?;
            warm(&route).await
        });
    }
    all(tasks).await
}

/// Asks once more on each; gives how many still answer.
pub(crate) async fn alive(held: Vec<Connection>) -> usize {
    let mut alive = 0;
    for mut connection in held {
        let answered = tokio::time::timeout(Duration::from_secs(2), connection.get("/json")).await;
        alive += usize::from(matches!(answered, Ok(Ok(_))));
    }
    alive
}

/// Fails unless this came in time: a subject that hangs ends its own figure and no other.
pub(crate) async fn in_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(PATIENCE, work).await.with_context(|| format!("not done in {PATIENCE:?}"))?
}

async fn warm(route: &Route) -> Result<Connection> {
    let mut connection = Connection::open(route, HOST).await?;
    connection.get("/json").await?;
    Ok(connection)
}

async fn side_by_side<F>(route: &Route, count: usize, work: impl Fn(Arc<Route>, usize) -> F) -> Result<Vec<Vec<u64>>>
where
    F: Future<Output = Result<Vec<u64>>> + Send + 'static,
{
    let route = Arc::new(route.clone());
    let mut tasks = JoinSet::new();
    for at in 0..count {
        tasks.spawn(work(route.clone(), at));
    }
    all(tasks).await
}

async fn all<T: Send + 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(ended) = tasks.join_next().await {
        results.push(ended.context("wait for a client")??);
    }
    Ok(results)
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

const MANY_BYTES: usize = 100 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
