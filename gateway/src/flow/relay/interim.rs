//! Interim: what the upstream says before its answer (RFC 9110 §15.2) is passed on, and its 100 lets the body go.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Request, StatusCode};
use tokio::time::Sleep;

use super::echo::Watch;
use super::upload::Upload;
use crate::flow::accept::side::SideHandle;

/// Holds a body back until the upstream says 100, or has been silent for long enough (RFC 9110 §10.1.1).
pub(super) struct Gate {
    word: Word,
    patience: Pin<Box<Sleep>>,
}

/// What the upstream said about the body.
#[derive(Clone, Default)]
pub(super) struct Word(Arc<Said>);

#[derive(Default)]
struct Said {
    state: AtomicU8,
    waker: AtomicWaker,
}

impl Gate {
    /// A gate where the box waits to be told to go on; `None` where it does not.
    pub(super) fn of(headers: &HeaderMap) -> Option<(Self, Word)> {
        let expects =
            headers.get_all(EXPECT).into_iter().any(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let word = Word::default();
        expects.then(|| (Self { word: word.clone(), patience: Box::pin(tokio::time::sleep(PATIENCE)) }, word))
    }

    pub(super) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.word.0.waker.register(cx.waker());
        match self.word.0.state.load(Ordering::Acquire) {
            GO_ON => Poll::Ready(()),
            ANSWERED => Poll::Pending,
            _ => self.patience.as_mut().poll(cx),
        }
    }
}

impl Word {
    /// The final answer is there: a body that is still held back stays so.
    pub(super) fn answered(&self) {
        self.say(ANSWERED);
    }

    fn say(&self, what: u8) {
        let _ = self.0.state.compare_exchange(HELD, what, Ordering::AcqRel, Ordering::Acquire);
        self.0.waker.wake();
    }
}

/// Passes on what the upstream says before its answer to this request.
pub(super) fn listen(request: &mut Request<Upload>, side: &SideHandle, word: Option<Word>, watch: Option<Watch>) {
    let side = side.clone();
    hyper::ext::on_informational(request, move |response| match response.status() {
        // hyper tells the box by itself, as soon as the body is asked for.
        StatusCode::CONTINUE => {
            if let Some(word) = &word {
                word.say(GO_ON);
            }
        }
        status => side.hint(rendered(status, response.headers(), watch.as_ref())),
    });
}

fn rendered(status: StatusCode, headers: &HeaderMap, watch: Option<&Watch>) -> Bytes {
    let mut headers = headers.clone();
    crate::hops::strip_answer(&mut headers);
    if let Some(watch) = watch {
        watch.clear(&mut headers);
    }
    // It has no body, whatever it says (RFC 9110 §8.6): a box that believed it would misread the answer.
    headers.remove(CONTENT_LENGTH);
    let phrase = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {phrase}\r\n", status.as_u16()).into_bytes();
    for (name, value) in &headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    Bytes::from(head)
}

const HELD: u8 = 0;
const GO_ON: u8 = 1;
const ANSWERED: u8 = 2;
const PATIENCE: Duration = Duration::from_secs(1);
