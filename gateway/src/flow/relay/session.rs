//! Session: a WebSocket after its 101, carried both ways as it comes until one side ends it.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderName, Response};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::body::Reads;
use crate::body::messages::Judged;
use crate::echo::{FramedScan, Needles};
use crate::hops;
use crate::refusal::{Reason, Refusal, answer};
use crate::websocket::Handshake;
use crate::websocket::frames::Frames;
use crate::websocket::messages;

use super::echo::Watch;

/// A handshake that was answered as it should be: the answer for the box, and both ends of what the connection became.
pub struct Switched {
    pub response: Response<()>,
    pub upstream: Upgraded,
    pub of_box: OnUpgrade,
    pub injected: Vec<HeaderName>,
    /// What the upstream's frames are looked through for.
    pub watch: Option<Watch>,
    /// What the box's messages are read for.
    pub reads: Option<Reads>,
    pub timings: Vec<(&'static str, Duration)>,
}

/// What passed in one session; readable while it lasts and after it was dropped.
pub struct Passed {
    up: Direction,
    down: Direction,
    begun: Instant,
    /// Milliseconds from the beginning to the last byte.
    last: AtomicU64,
}

#[derive(Default)]
struct Direction {
    bytes: AtomicU64,
    frames: Mutex<Frames>,
}

/// What the upstream's frames are looked through for, and who is told how many were found so far.
pub struct Ear<'a, H: Fn(u64)> {
    pub needles: &'a Needles,
    pub heard: H,
}

/// How long a session may be silent, and what ends it before.
pub struct Limits<'a> {
    pub idle: Duration,
    /// What allowed it is gone.
    pub withdrawn: &'a CancellationToken,
    /// The run is over.
    pub over: &'a CancellationToken,
}

/// How a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parting {
    /// A Close passed, or the box left between two messages: some agents end every session so.
    Complete,
    /// The box left in the middle of a message, or broke the connection.
    BoxGone,
    /// The upstream left without a Close; says how.
    UpstreamGone(String),
    /// Nothing passed for too long.
    Silent,
    /// The box said something that does not pass.
    Refused(Refusal),
    /// What allowed it is gone.
    Withdrawn,
    /// The run is over.
    RunOver,
}

/// Checks a 101 against the handshake that was sent, and takes the stream that comes with it.
pub(super) async fn switch(
    handshake: Option<&Handshake>,
    mut response: Response<Incoming>,
) -> Result<(Response<()>, Upgraded), Refusal> {
    let Some(handshake) = handshake else {
        let inside = "upstream answered 101 to a request without Upgrade";
        return Err(Refusal::new(Reason::UpstreamFailed, "the host switched protocols unasked", inside));
    };
    handshake.check(response.version(), response.headers()).map_err(|mismatch| {
        let outside = format!("the host did not answer the WebSocket handshake as it must: {mismatch}");
        Refusal::new(Reason::UpstreamFailed, outside, format!("upstream answered 101, but {mismatch}"))
    })?;
    let stream = hyper::upgrade::on(&mut response).await.map_err(|error| {
        let inside = format!("upstream answered 101 and left: {error}");
        Refusal::new(Reason::UpstreamFailed, "the host closed the connection with its answer", inside)
    })?;
    let (mut head, _) = response.into_parts();
    hops::strip_answer(&mut head.headers);
    hops::keep_websocket(&mut head.headers);
    Ok((Response::from_parts(head, ()), stream))
}

/// Carries bytes both ways until one side ends; the other then has a moment to end too. What is dropped is cut. What the box
/// says is judged, where it is read: a refusal ends both sides.
pub async fn carry<B, U, H>(
    of_box: B,
    upstream: U,
    passed: &Passed,
    Limits { idle, withdrawn, over }: Limits<'_>,
    ear: Option<Ear<'_, H>>,
    judged: Option<Box<Judged>>,
) -> Parting
where
    B: AsyncRead + AsyncWrite,
    U: AsyncRead + AsyncWrite,
    H: Fn(u64),
{
    let (box_out, mut box_in) = tokio::io::split(of_box);
    let (upstream_out, upstream_in) = tokio::io::split(upstream);
    let parting = {
        let mut up = pin!(one_way(box_out, upstream_in, &passed.up, passed, None::<Ear<'_, H>>, judged));
        let mut down = pin!(one_way(upstream_out, &mut box_in, &passed.down, passed, ear, None));
        tokio::select! {
            biased;
            () = over.cancelled() => Parting::RunOver,
            () = withdrawn.cancelled() => Parting::Withdrawn,
            end = &mut up => {
                if end.is_orderly() {
                    let _ = tokio::time::timeout(AFTER_END, down).await;
                }
                passed.parting(true, end)
            }
            end = &mut down => {
                if end.is_orderly() {
                    let _ = tokio::time::timeout(AFTER_END, up).await;
                }
                passed.parting(false, end)
            }
            () = passed.silence(idle) => Parting::Silent,
        }
    };
    // A box that does not read is not waited for.
    match &parting {
        Parting::Refused(refusal) => {
            let words = [messages::text_frame(&answer::event(refusal)), messages::policy_close(refusal.outside())];
            let _ = tokio::time::timeout(AFTER_END, tell(&mut box_in, &words.concat(), passed)).await;
        }
        Parting::Withdrawn => {
            let words = messages::policy_close("grant-withdrawn: the configuration of the gateway was changed");
            let _ = tokio::time::timeout(LAST_WORDS, tell(&mut box_in, &words, passed)).await;
        }
        Parting::RunOver => {
            let words = messages::policy_close("run-over: the run that opened this session has ended");
            let _ = tokio::time::timeout(LAST_WORDS, tell(&mut box_in, &words, passed)).await;
        }
        Parting::Complete | Parting::BoxGone | Parting::UpstreamGone(_) | Parting::Silent => {}
    }
    parting
}

/// Tells the box why its session ends, where that would not stand in the middle of something else.
async fn tell<W: AsyncWrite + Unpin>(to: &mut W, words: &[u8], passed: &Passed) -> io::Result<()> {
    if passed.is_between_messages() {
        write(to, words, &passed.down, passed).await?;
    }
    to.shutdown().await
}

/// How one direction ended.
enum End {
    /// Its sender ended it.
    Finished,
    Read(io::Error),
    Write(io::Error),
    Refused(Refusal),
}

async fn one_way<R, W, H>(
    mut from: R,
    mut to: W,
    direction: &Direction,
    passed: &Passed,
    ear: Option<Ear<'_, H>>,
    mut judged: Option<Box<Judged>>,
) -> End
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    H: Fn(u64),
{
    let mut piece = vec![0; PIECE];
    let mut scan = FramedScan::default();
    let mut held_until = None;
    loop {
        held_until = scan.holds_messages().then(|| held_until.unwrap_or_else(|| Instant::now() + HELD));
        let Some(read) = in_time(held_until, from.read(&mut piece)).await else {
            if let Err(error) = write(&mut to, &scan.rest(), direction, passed).await {
                return End::Write(error);
            }
            continue;
        };
        let read = match read {
            Ok(0) => break,
            Ok(read) => read,
            // An end without TLS's own: frames say by themselves whether anything is missing.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return End::Read(error),
        };
        if let Some(judged) = &mut judged
            && let Err(refusal) = judged.judge(&piece[..read])
        {
            return End::Refused(refusal);
        }
        let told = match &ear {
            Some(ear) => {
                let cleared = match scan.pass(ear.needles, &piece[..read]) {
                    Ok(cleared) => cleared,
                    Err(endless) => return End::Read(io::Error::other(endless)),
                };
                (ear.heard)(scan.found());
                write(&mut to, &cleared, direction, passed).await
            }
            None => write(&mut to, &piece[..read], direction, passed).await,
        };
        if let Err(error) = told {
            return End::Write(error);
        }
    }
    if let Err(error) = write(&mut to, &scan.rest(), direction, passed).await {
        return End::Write(error);
    }
    match to.shutdown().await {
        // Who ended first may be gone altogether: that the other could not be told is no news.
        Ok(()) | Err(_) => End::Finished,
    }
}

/// `None` where the end came first.
async fn in_time<T>(end: Option<Instant>, deed: impl Future<Output = T>) -> Option<T> {
    match end {
        Some(end) => tokio::time::timeout_at(end, deed).await.ok(),
        None => Some(deed.await),
    }
}

async fn write<W>(to: &mut W, mut left: &[u8], direction: &Direction, passed: &Passed) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    while !left.is_empty() {
        let written = to.write(left).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        passed.note(direction, &left[..written]);
        left = &left[written..];
    }
    to.flush().await
}

impl End {
    const fn is_orderly(&self) -> bool {
        matches!(self, Self::Finished)
    }

    /// Whether it was the box that ended it, on the way up or down.
    const fn is_box(&self, up: bool) -> bool {
        match self {
            Self::Finished | Self::Read(_) | Self::Refused(_) => up,
            Self::Write(_) => !up,
        }
    }
}

impl Default for Passed {
    fn default() -> Self {
        Self { up: Direction::default(), down: Direction::default(), begun: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Passed {
    /// Bytes from the box and bytes to the box.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.up.bytes.load(Ordering::Relaxed), self.down.bytes.load(Ordering::Relaxed))
    }

    fn note(&self, direction: &Direction, bytes: &[u8]) {
        direction.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        direction.frames.lock().unwrap_or_else(PoisonError::into_inner).pass(bytes);
        let since = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    /// Resolves when nothing has passed for so long.
    async fn silence(&self, idle: Duration) {
        loop {
            let end = self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed)) + idle;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }

    /// Whether the box has been sent whole messages so far, and nothing of another.
    fn is_between_messages(&self) -> bool {
        self.down.frames.lock().unwrap_or_else(PoisonError::into_inner).at_rest()
    }

    /// `up` tells on which way it ended.
    fn parting(&self, up: bool, end: End) -> Parting {
        let is_box = end.is_box(up);
        let look = |direction: &Direction| {
            let frames = direction.frames.lock().unwrap_or_else(PoisonError::into_inner);
            (frames.closed(), frames.at_rest())
        };
        let ((up_closed, up_at_rest), (down_closed, down_at_rest)) = (look(&self.up), look(&self.down));
        match end {
            End::Refused(refusal) => Parting::Refused(refusal),
            _ if up_closed || down_closed => Parting::Complete,
            End::Finished if is_box && up_at_rest && down_at_rest => Parting::Complete,
            _ if is_box => Parting::BoxGone,
            End::Finished => Parting::UpstreamGone("the session ended without a Close".to_owned()),
            End::Read(error) | End::Write(error) => Parting::UpstreamGone(format!("the session broke off: {error}")),
        }
    }
}

/// Of each direction. A side that does not read holds the other back; nothing is held in the house.
const PIECE: usize = 16 * 1024;
/// How long a whole message waits for the next one, where it ends as a credential begins.
const HELD: Duration = Duration::from_millis(250);
/// For a box to read the Close of a session that is cut: less than its tunnel has.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// For the side that did not end first: to say what it still has to say.
const AFTER_END: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
