//! Exchange: one request with its answer, as the box's side of the connection sees it.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::EXPECT;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::side::SideHandle;

/// Lasts while a request is under way; dropped, the next head may come.
pub struct Exchange {
    side: Option<SideHandle>,
    connects: bool,
}

/// What the box still sends of a request, and where it hears of it.
pub struct FromBox<'a> {
    pub body: Incoming,
    pub side: &'a SideHandle,
    /// It waits to be told to go on.
    expects: bool,
}

/// An answer's body with its exchange.
pub struct Answering<B> {
    body: B,
    _exchange: Exchange,
}

impl Exchange {
    pub(super) fn new(side: SideHandle, method: &Method) -> Self {
        Self { side: Some(side), connects: *method == Method::CONNECT }
    }

    /// Ties the exchange to its answer. After an upgrade the connection is no longer HTTP, and stays so.
    #[must_use]
    pub fn answered<B>(mut self, response: Response<B>) -> Response<Answering<B>> {
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS || self.connects && status.is_success() {
            self.side = None;
        }
        response.map(|body| Answering { body, _exchange: self })
    }
}

impl<'a> FromBox<'a> {
    #[must_use]
    pub fn new(head: &Parts, body: Incoming, side: &'a SideHandle) -> Self {
        Self { body, side, expects: head.headers.contains_key(EXPECT) }
    }

    /// Nobody wants the body. A box that waits to be told to go on is not told so.
    pub fn discard(self) {
        if !self.expects {
            super::discard(self.body);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(side) = &self.side {
            side.end();
        }
    }
}

impl<B: Body + Unpin> Body for Answering<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
