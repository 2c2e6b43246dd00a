//! A credential in hand: text that cannot be printed, and the headers that it becomes.

use std::fmt;

use box_spec::{CredentialKind, Provider};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use zeroize::Zeroizing;

/// One real credential, checked: visible ASCII only, so that it is always a whole header value.
#[derive(Debug)]
pub struct Credential {
    provider: Provider,
    kind: CredentialKind,
    value: SecretText,
}

/// Text that has no printable form and is wiped when dropped.
pub struct SecretText(Zeroizing<String>);

impl Credential {
    #[must_use]
    pub const fn new(provider: Provider, kind: CredentialKind, value: SecretText) -> Self {
        Self { provider, kind, value }
    }

    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    #[must_use]
    pub const fn kind(&self) -> CredentialKind {
        self.kind
    }

    /// The headers by which the provider takes this credential, marked sensitive. None rendered means: do not send.
    #[must_use]
    pub fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let value = self.value.expose();
        let (name, text) = match (self.provider, self.kind) {
            (Provider::Anthropic, CredentialKind::ApiKey) => {
                (HeaderName::from_static("x-api-key"), Zeroizing::new(value.to_owned()))
            }
            (Provider::Anthropic | Provider::Openai | Provider::OpenaiCodex, CredentialKind::Login)
            | (Provider::Openai | Provider::OpenaiCodex, CredentialKind::ApiKey) => {
                (AUTHORIZATION, Zeroizing::new(format!("Bearer {value}")))
            }
        };
        let rendered = HeaderValue::from_str(&text).map(|mut header| {
            header.set_sensitive(true);
            (name, header)
        });
        rendered.into_iter().collect()
    }

    /// The value itself, for the search that keeps it from coming back to the box.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.value.expose()
    }
}

impl SecretText {
    /// Takes text that [`super::source`] has checked.
    pub(super) const fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

#[cfg(test)]
mod tests {
    use box_spec::{CredentialKind, Provider};
    use zeroize::Zeroizing;

    use super::{Credential, SecretText};

    #[test]
    fn a_login_is_a_bearer_and_a_key_is_x_api_key() {
        for (kind, name, value) in [
            (CredentialKind::Login, "authorization", "Bearer sk-real"),
            (CredentialKind::ApiKey, "x-api-key", "sk-real"),
        ] {
            let credential =
                Credential::new(Provider::Anthropic, kind, SecretText::new(Zeroizing::new("sk-real".to_owned())));
            let headers = credential.headers();
            assert_eq!(headers.len(), 1);
            assert_eq!((headers[0].0.as_str(), headers[0].1.as_bytes()), (name, value.as_bytes()));
            assert!(headers[0].1.is_sensitive());
            assert!(!format!("{credential:?}{headers:?}").contains("sk-real"));
        }
    }
}
