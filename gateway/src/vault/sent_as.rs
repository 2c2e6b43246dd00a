//! Sent as: how a service takes its credential, where no provider's own way says it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use zeroize::Zeroizing;

/// The one header of a service's credential, and what stands around the value there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentAs {
    pub header: HeaderName,
    pub form: Form,
}

/// What the header's value is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// `Bearer VALUE` (RFC 6750 §2.1).
    Bearer,
    /// `token VALUE`, as GitHub and Gitea take it too.
    Token,
    /// `Basic` with this user name and the value as its password (RFC 7617 §2).
    Basic { username: String },
    /// The value behind this text, which may be empty.
    Bare { prefix: String },
}

impl SentAs {
    /// The header with the value in it, marked sensitive; nothing where it would be no header.
    pub(super) fn rendered(&self, value: &str) -> Option<(HeaderName, HeaderValue)> {
        let text = Zeroizing::new(match &self.form {
            Form::Bearer => format!("Bearer {value}"),
            Form::Token => format!("token {value}"),
            Form::Basic { username } => {
                let pair = Zeroizing::new(format!("{username}:{value}"));
                let letters = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
                format!("Basic {}", *letters)
            }
            Form::Bare { prefix } => format!("{prefix}{value}"),
        });
        let mut rendered = HeaderValue::from_str(&text).ok()?;
        rendered.set_sensitive(true);
        Some((self.header.clone(), rendered))
    }
}

/// A bearer, as most services take it.
impl Default for SentAs {
    fn default() -> Self {
        Self { header: AUTHORIZATION, form: Form::Bearer }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::{Form, SentAs};

    #[test]
    fn each_form_is_what_services_take() {
        let key = HeaderName::from_static("private-token");
        let basic = |username: &str| Form::Basic { username: username.to_owned() };
        let bare = |prefix: &str| Form::Bare { prefix: prefix.to_owned() };
        for (sent_as, name, text) in [
            (SentAs::default(), "authorization", "Bearer real"),
            (SentAs { form: Form::Token, ..SentAs::default() }, "authorization", "token real"),
            // RFC 7617 §2 by way of `printf x-access-token:real | base64`.
            (
                SentAs { form: basic("x-access-token"), ..SentAs::default() },
                "authorization",
                "Basic eC1hY2Nlc3MtdG9rZW46cmVhbA==",
            ),
            (SentAs { form: basic(""), ..SentAs::default() }, "authorization", "Basic OnJlYWw="),
            (SentAs { form: bare("Bot "), ..SentAs::default() }, "authorization", "Bot real"),
            (SentAs { header: key, form: bare("") }, "private-token", "real"),
        ] {
            let (header, value) = sent_as.rendered("real").expect("a header");
            assert_eq!((header.as_str(), value.to_str().expect("ASCII")), (name, text));
            assert!(value.is_sensitive() && !format!("{value:?}").contains("real"));
        }
    }
}
