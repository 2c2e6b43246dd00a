//! A request's words in its line: what its head asks, as far as it may be shown.

use std::borrow::Cow;

use super::words::Words;

/// The words of a request's head.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Request {
    pub(super) scheme: Option<&'static str>,
    pub(super) method: Option<String>,
    pub(super) path: Option<String>,
    pub(super) query: Option<String>,
    pub(super) headers: Option<String>,
    pub(super) body_length: Option<u64>,
    pub(super) is_chunked: bool,
    pub(super) stand_in: Option<Cow<'static, str>>,
}

impl Request {
    pub(super) fn write(&self, words: &mut Words) {
        let Self { scheme, method, path, query, headers, body_length, is_chunked, stand_in } = self;
        words.text_if("scheme", *scheme);
        words.text_if("method", method.as_deref());
        words.text_if("path", path.as_deref());
        words.raw_if("query", query.as_deref());
        words.raw_if("headers", headers.as_deref());
        words.number_if("body_length", *body_length);
        words.text_if("body", is_chunked.then_some("chunked"));
        words.text_if("stand_in", stand_in.as_deref());
    }
}
