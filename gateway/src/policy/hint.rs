//! Hints: what a grant lets through where a request comes near it, in one line.

use super::query::Stray;
use super::{Ask, Grant, Missed, PathPattern, Scheme};

impl Grant {
    /// Right host, and what else is wrong; and what this grant has in its place.
    #[must_use]
    pub fn near_miss(&self, missed: Missed, ask: &Ask<'_>) -> String {
        let matching = self.matching();
        let (wrong, has) = match missed {
            Missed::Port => return self.near_port(ask.scheme),
            Missed::Path => {
                let paths = matching.paths.iter().flatten().map(PathPattern::as_str);
                ("wrong path".to_owned(), format!("allows {}", list(paths)))
            }
            Missed::Method => {
                let methods = matching.methods.iter().flatten().map(http::Method::as_str);
                ("wrong method".to_owned(), format!("allows {}", list(methods)))
            }
            Missed::Query => {
                let keys = list(matching.query.iter().flat_map(|keys| keys.keys()));
                (self.stray(ask), format!("allows {}", if keys.is_empty() { "no query" } else { &keys }))
            }
            Missed::Header => {
                let names = matching.headers.iter().map(http::HeaderName::as_str);
                ("missing header".to_owned(), format!("wants {}", list(names)))
            }
        };
        format!("right host, {wrong}: grant {:?} {has}", self.name.as_str())
    }

    /// The same of a port or a scheme.
    #[must_use]
    pub fn near_port(&self, scheme: Scheme) -> String {
        let (wrong, has) = match (scheme, &self.matching().ports) {
            (Scheme::Http, _) if self.secret.is_some() => {
                ("wrong scheme", "holds a secret, which never travels in plain".to_owned())
            }
            (Scheme::Http, _) if !self.matching().plain => ("wrong scheme", "allows https alone".to_owned()),
            (_, None) => ("wrong port", format!("allows {}", scheme.default_port())),
            (_, Some(ports)) => ("wrong port", format!("allows {}", list(ports.iter().map(ToString::to_string)))),
        };
        format!("right host, {wrong}: grant {:?} {has}", self.name.as_str())
    }

    fn stray(&self, ask: &Ask<'_>) -> String {
        match self.matching().query.as_ref().and_then(|keys| keys.stray(ask.query)) {
            Some(Stray::Semicolon) => "a `;` in the query, which can be read in two ways".to_owned(),
            Some(Stray::Key(key)) => {
                let short: String = key.chars().take(LONGEST_KEY).collect();
                format!("wrong query key {short:?}")
            }
            None => "wrong query".to_owned(),
        }
    }
}

/// The first of them, and how many more there are.
fn list(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut items = items.into_iter();
    let mut out = String::new();
    for item in items.by_ref().take(MOST) {
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(item.as_ref());
    }
    match items.count() {
        0 => out,
        more => format!("{out} and {more} more"),
    }
}

const MOST: usize = 8;
const LONGEST_KEY: usize = 64;
