//! What a stand-in is started with.

use std::net::SocketAddr;
use std::time::Duration;

use crate::certs::Certificate;

/// How a stand-in is to behave from the start. Rules, script, [`Expect`] and idle closing can be changed later.
///
/// # Defaults
///
/// A free port on 127.0.0.1, TLS with a certificate of its own authority for `api.anthropic.com` and `platform.claude.com`,
/// no credential accepted, `100 Continue` sent when asked for, connections kept open.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The host names that the leaf is for.
    pub names: Vec<String>,
    /// The credentials that are accepted. Everything else is answered 401.
    pub real: Vec<Real>,
    pub certificate: Certificate,
    /// Speak plain HTTP.
    pub plain: bool,
    /// Offer TLS 1.2 only.
    pub tls12_only: bool,
    /// The protocols offered by ALPN.
    pub alpn: Vec<String>,
    /// How many bytes of a body, and of a connection, are kept. Length and digest always cover all.
    pub keep: usize,
    pub expect: Expect,
    /// Close a connection on which no request came for so long.
    pub idle_close: Option<Duration>,
}

/// A credential that the stand-in takes for real.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Real {
    /// `authorization: Bearer …`
    Bearer(String),
    /// `x-api-key: …`
    ApiKey(String),
}

/// What is done with `Expect: 100-continue`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Expect {
    #[default]
    Continue,
    /// `100 Continue` comes after a while.
    Late(Duration),
    /// Never sent; the body is read when it comes.
    Ignore,
    /// `417 Expectation Failed` instead of reading the body.
    Refuse,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            names: vec!["api.anthropic.com".into(), "platform.claude.com".into()],
            real: Vec::new(),
            certificate: Certificate::Good,
            plain: false,
            tls12_only: false,
            alpn: vec!["http/1.1".into()],
            keep: 8 * 1024 * 1024,
            expect: Expect::Continue,
            idle_close: None,
        }
    }
}

impl Real {
    /// From one text, as the command line takes it: what starts like a key of the provider's is a key, all else a bearer token.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        if text.starts_with("sk-ant-api") { Self::ApiKey(text.to_owned()) } else { Self::Bearer(text.to_owned()) }
    }

    /// Whether these headers carry exactly one credential, and it is one of `real`.
    pub(crate) fn accepts(real: &[Self], headers: &[(String, String)]) -> bool {
        let mut carried = headers.iter().filter_map(|(name, value)| match name.to_ascii_lowercase().as_str() {
            "authorization" => Some(value.strip_prefix("Bearer ").map(|token| Self::Bearer(token.to_owned()))),
            "x-api-key" => Some(Some(Self::ApiKey(value.clone()))),
            _ => None,
        });
        match (carried.next(), carried.next()) {
            (Some(Some(one)), None) => real.contains(&one),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Real;

    #[test]
    fn only_one_credential_that_is_real_is_accepted() {
        let real = [Real::Bearer("r".into()), Real::ApiKey("k".into())];
        let cases: [(&[(&str, &str)], bool); 9] = [
            (&[("Authorization", "Bearer r")], true),
            (&[("X-API-Key", "k")], true),
            (&[], false),
            (&[("authorization", "Bearer k")], false),
            (&[("authorization", "bearer r")], false),
            (&[("authorization", "Basic r")], false),
            (&[("x-api-key", "r")], false),
            (&[("x-api-key", "k"), ("authorization", "Bearer r")], false),
            (&[("authorization", "Bearer r"), ("authorization", "Bearer s")], false),
        ];
        for (headers, accepted) in cases {
            let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            assert_eq!(Real::accepts(&real, &headers), accepted, "{headers:?}");
        }
    }
}
