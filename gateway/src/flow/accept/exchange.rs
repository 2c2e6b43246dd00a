//! Exchange: one request with its answer, as the box's side of the connection sees it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{EXPECT, UPGRADE};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

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
    /// The box's end of the connection, once it is answered 101.
    pub upgrade: OnUpgrade,
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
        if (status == StatusCode::SWITCHING_PROTOCOLS || self.connects && status.is_success())
            && let Some(side) = self.side.take()
        {
            side.switched();
        }
        response.map(|body| Answering { body, _exchange: self })
    }
}

impl<'a> FromBox<'a> {
    /// Takes a request apart: its head goes to the judge, and what else the box sends waits for the verdict.
    #[must_use]
    pub fn part(mut request: Request<Incoming>, side: &'a SideHandle) -> (Parts, Self) {
        let upgrade = hyper::upgrade::on(&mut request);
        let (head, body) = request.into_parts();
        if head.headers.contains_key(UPGRADE) {
            side.afterwards(close(upgrade.clone()));
        }
        let expects = head.headers.contains_key(EXPECT);
        if body.is_end_stream() {
            side.body(Some(0), Arc::default());
        }
        (head, Self { body, side, upgrade, expects })
    }

    /// Nobody wants the body. A box that waits to be told to go on is not told so.
    pub fn discard(self) {
        if !self.expects {
            super::discard(self.body);
        }
    }
}

/// Once asked for an upgrade, hyper gives the stream away at its end instead of closing it, even where nothing came of it.
async fn close(upgrade: OnUpgrade) {
    if let Ok(given) = upgrade.await {
        let mut given = TokioIo::<Upgraded>::new(given);
        // The box may be gone: then there is nobody to say it to.
        let _ = given.shutdown().await;
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
