//! A credential in hand: text that cannot be printed, and the headers that it becomes.

use std::fmt;
use std::sync::Arc;

use box_spec::{CredentialKind, Provider};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use jiff::Timestamp;
use zeroize::Zeroizing;

use crate::echo::Needles;

use super::sent_as::SentAs;
use super::source::Malformed;
use super::token::{AccountId, Claims};

/// One real credential, checked: visible ASCII only, so that it is always a whole header value.
#[derive(Debug)]
pub struct Credential {
    whose: Whose,
    value: SecretText,
    expires: Option<Timestamp>,
    needles: Arc<Needles>,
}

/// Whose a secret is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    Provider(Role),
    /// A provider's that takes credentials of more than one kind: its text says by its beginning of which one it is.
    ByShape(Provider),
    /// A service's that the house knows nothing of: how it is sent stands in the configuration.
    Service,
}

/// What a provider's secret is besides its text: whose it is, how it authenticates, for which account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Role {
    pub provider: Provider,
    pub kind: CredentialKind,
    /// The account of a ChatGPT login; `None` takes the one that the token names.
    pub account: Option<AccountId>,
}

/// Text that has no printable form and is wiped when dropped.
pub struct SecretText(Zeroizing<String>);

impl Credential {
    /// # Errors
    /// A ChatGPT login for which neither the configuration nor the token names an account: the provider would not
    /// know whom it serves. A text that says by its beginning that it is another provider's, or of another kind; one that
    /// does not say of which kind it is, where nothing else does; a line of another file with one in it. One that answers cannot be looked through for.
    pub fn new(whose: &Whose, value: SecretText) -> Result<Self, Malformed> {
        if is_dressed(value.expose()) {
            return Err(Malformed::Dressed);
        }
        let said = SHAPES.iter().find(|(beginning, ..)| value.expose().starts_with(beginning));
        let mut whose = match (whose, said) {
            (Whose::ByShape(provider), Some((_, of, kind))) if of == provider => {
                Whose::Provider(Role { provider: *provider, kind: *kind, account: None })
            }
            (Whose::ByShape(provider), None) => return Err(Malformed::NoShape(*provider)),
            (whose, _) => whose.clone(),
        };
        let mut expires = None;
        match (&mut whose, said) {
            (Whose::Service | Whose::ByShape(_), Some((_, provider, _))) => return Err(Malformed::Foreign(*provider)),
            (Whose::Provider(role), Some((_, provider, _))) if *provider != role.provider => {
                return Err(Malformed::Foreign(*provider));
            }
            (Whose::Provider(role), Some((_, _, kind))) if *kind != role.kind => {
                return Err(Malformed::OtherKind(*kind));
            }
            (Whose::Provider(role), _) if role.is_chatgpt_login() => {
                let claims = Claims::of(value.expose());
                role.account = Some(role.account.take().or(claims.account).ok_or(Malformed::NoAccount)?);
                expires = claims.expires;
            }
            // A key is no JWT: this is a ChatGPT login, in the file beside its own.
            (Whose::Provider(Role { provider: Provider::Openai, .. }), None)
                if Claims::of(value.expose()).account.is_some() =>
            {
                return Err(Malformed::Foreign(Provider::OpenaiCodex));
            }
            (Whose::Provider(_) | Whose::ByShape(_) | Whose::Service, _) => {}
        }
        let needles = Needles::of(value.expose()).map_err(|_| Malformed::Unsearchable)?;
        Ok(Self { whose, value, expires, needles: Arc::new(needles) })
    }

    /// The same, with the end that its file tells.
    pub(super) fn ending(mut self, expires: Option<Timestamp>) -> Self {
        self.expires = expires.or(self.expires);
        self
    }

    /// When it ceases to be valid, where it says so itself.
    #[must_use]
    pub const fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// The headers by which its provider takes this credential, or its service, for which `sent_as` says it; what is
    /// secret is marked sensitive. None rendered means: do not send.
    #[must_use]
    pub fn headers(&self, sent_as: Option<&SentAs>) -> Vec<(HeaderName, HeaderValue)> {
        match (&self.whose, sent_as) {
            (Whose::Provider(role), None) => self.headers_of(role),
            (Whose::Service, Some(sent_as)) => sent_as.rendered(self.value.expose()).into_iter().collect(),
            // What one is sent as, the other never is.
            (Whose::Provider(_), Some(_)) | (Whose::Service, None) | (Whose::ByShape(_), _) => Vec::new(),
        }
    }

    fn headers_of(&self, role: &Role) -> Vec<(HeaderName, HeaderValue)> {
        let value = self.value.expose();
        let (name, text) = match (role.provider, role.kind) {
            (Provider::Anthropic, CredentialKind::ApiKey) => {
                (HeaderName::from_static("x-api-key"), Zeroizing::new(value.to_owned()))
            }
            (Provider::Anthropic | Provider::Openai | Provider::OpenaiCodex, CredentialKind::Login)
            | (Provider::Openai | Provider::OpenaiCodex, CredentialKind::ApiKey) => {
                (AUTHORIZATION, Zeroizing::new(format!("Bearer {value}")))
            }
        };
        let Ok(mut secret) = HeaderValue::from_str(&text) else { return Vec::new() };
        secret.set_sensitive(true);
        let account = role.account.as_ref().map(|account| HeaderValue::from_str(account.as_str()));
        match account {
            None => vec![(name, secret)],
            Some(Ok(account)) => vec![(name, secret), (ACCOUNT_HEADER, account)],
            Some(Err(_)) => Vec::new(),
        }
    }

    /// How it authenticates; `None` for a service's.
    #[must_use]
    pub fn kind(&self) -> Option<CredentialKind> {
        self.whose.role().map(|role| role.kind)
    }

    /// What an answer is looked through for.
    #[must_use]
    pub const fn needles(&self) -> &Arc<Needles> {
        &self.needles
    }

    /// The value itself, for the search that keeps it from coming back to the box.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.value.expose()
    }
}

impl Whose {
    /// What its provider takes, where that is known before its text is; nothing where it is a service's.
    #[must_use]
    pub const fn role(&self) -> Option<&Role> {
        match self {
            Self::Provider(role) => Some(role),
            Self::ByShape(_) | Self::Service => None,
        }
    }

    /// Nobody where it is a service's.
    #[must_use]
    pub const fn provider(&self) -> Option<Provider> {
        match self {
            Self::Provider(role) => Some(role.provider),
            Self::ByShape(provider) => Some(*provider),
            Self::Service => None,
        }
    }

    /// What it is as a login: of a folder that holds one nothing else can come.
    #[must_use]
    pub fn as_login(&self) -> Option<Role> {
        match self {
            Self::Provider(role) => Some(role.clone()).filter(|role| role.kind == CredentialKind::Login),
            Self::ByShape(provider) => Some(Role { provider: *provider, kind: CredentialKind::Login, account: None }),
            Self::Service => None,
        }
    }
}

impl Role {
    /// Whether the provider must also be told for which account.
    #[must_use]
    pub const fn is_chatgpt_login(&self) -> bool {
        matches!((self.provider, self.kind), (Provider::OpenaiCodex, CredentialKind::Login))
    }
}

impl SecretText {
    /// Takes text that [`super::source`] has checked.
    pub(super) const fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// As if [`super::source`] had checked it.
    #[cfg(test)]
    pub(crate) fn for_test(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
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

/// The account that a ChatGPT login acts for.
const ACCOUNT_HEADER: HeaderName = HeaderName::from_static("chatgpt-account-id");

/// Whether a provider's credential stands in it behind a quote or a `NAME=`, as files for shells have it. Nobody takes it so.
fn is_dressed(text: &str) -> bool {
    let behind = |at: usize| at.checked_sub(1).is_some_and(|at| matches!(text.as_bytes()[at], b'"' | b'\'' | b'='));
    SHAPES.iter().any(|(beginning, ..)| text.match_indices(beginning).any(|(at, _)| behind(at)))
}

/// How providers begin their credentials. A beginning that is not here says nothing.
const SHAPES: [(&str, Provider, CredentialKind); 4] = [
    ("sk-ant-oat", Provider::Anthropic, CredentialKind::Login),
    ("sk-ant-api", Provider::Anthropic, CredentialKind::ApiKey),
    ("sk-proj-", Provider::Openai, CredentialKind::ApiKey),
    ("sk-svcacct-", Provider::Openai, CredentialKind::ApiKey),
];

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use box_spec::{CredentialKind, Provider};
    use zeroize::Zeroizing;

    use super::{AccountId, Credential, Malformed, Role, SecretText, SentAs, Whose};

    fn made(
        provider: Provider,
        kind: CredentialKind,
        account: Option<&str>,
        value: &str,
    ) -> Result<Credential, Malformed> {
        let account = account.map(|account| AccountId::parse(account).expect("an account"));
        of(&Whose::Provider(Role { provider, kind, account }), value)
    }

    fn of(whose: &Whose, value: &str) -> Result<Credential, Malformed> {
        Credential::new(whose, SecretText::new(Zeroizing::new(value.to_owned())))
    }

    fn rendered(credential: &Credential) -> Vec<(String, String)> {
        let text = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_owned();
        credential.headers(None).iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    #[test]
    fn a_login_is_a_bearer_and_a_key_is_what_its_provider_takes() {
        for (provider, kind, name, value) in [
            (Provider::Anthropic, CredentialKind::Login, "authorization", "Bearer sk-real"),
            (Provider::Anthropic, CredentialKind::ApiKey, "x-api-key", "sk-real"),
            (Provider::Openai, CredentialKind::ApiKey, "authorization", "Bearer sk-real"),
        ] {
            let credential = made(provider, kind, None, "sk-real").expect("a credential");
            assert_eq!(rendered(&credential), [(name.to_owned(), value.to_owned())]);
            assert!(credential.headers(None)[0].1.is_sensitive());
            assert!(!format!("{credential:?}{:?}", credential.headers(None)).contains("sk-real"));
        }
    }

    #[test]
    fn what_says_by_its_beginning_that_it_is_something_else_is_refused() {
        use CredentialKind::{ApiKey, Login};
        use Provider::{Anthropic, Openai, OpenaiCodex};
        for (provider, kind, text, told) in [
            (Openai, ApiKey, "sk-ant-api03-x", Some(Malformed::Foreign(Anthropic))),
            (OpenaiCodex, Login, "sk-ant-oat01-x", Some(Malformed::Foreign(Anthropic))),
            (OpenaiCodex, Login, "sk-proj-x", Some(Malformed::Foreign(Openai))),
            (Anthropic, ApiKey, "sk-svcacct-x", Some(Malformed::Foreign(Openai))),
            (Anthropic, ApiKey, "sk-ant-oat01-x", Some(Malformed::OtherKind(Login))),
            (Anthropic, Login, "sk-ant-api03-x", Some(Malformed::OtherKind(ApiKey))),
            (Anthropic, Login, "sk-ant-oat01-x", None),
            (Openai, ApiKey, "sk-x", None),
            (Anthropic, ApiKey, "of-a-relay", None),
            (Anthropic, ApiKey, "\"sk-ant-api03-x\"", Some(Malformed::Dressed)),
            (Anthropic, Login, "CLAUDE_CODE_OAUTH_TOKEN='sk-ant-oat01-x'", Some(Malformed::Dressed)),
            (Openai, ApiKey, "OPENAI_API_KEY=sk-proj-x", Some(Malformed::Dressed)),
            (Openai, ApiKey, "sk-x-sk-proj-y=", None),
        ] {
            let account = (provider == OpenaiCodex).then_some("mine");
            assert_eq!(made(provider, kind, account, text).err(), told, "{provider} {text}");
        }
        let login = chatgpt_token("acc-1");
        assert_eq!(made(Openai, ApiKey, None, &login).err(), Some(Malformed::Foreign(OpenaiCodex)), "a ChatGPT login");
        assert!(made(Openai, ApiKey, None, "e30.e30.e30").is_ok(), "a relay's, of any form");
    }

    #[test]
    fn where_nothing_else_says_the_kind_the_beginning_does() {
        use CredentialKind::{ApiKey, Login};
        let by_shape = Whose::ByShape(Provider::Anthropic);
        for (text, kind, header) in [
            ("sk-ant-oat01-x", Login, ("authorization".to_owned(), "Bearer sk-ant-oat01-x".to_owned())),
            ("sk-ant-api03-x", ApiKey, ("x-api-key".to_owned(), "sk-ant-api03-x".to_owned())),
        ] {
            let credential = of(&by_shape, text).expect("a credential");
            assert_eq!((credential.kind(), rendered(&credential)), (Some(kind), vec![header]), "{text}");
        }
        for (text, told) in [
            ("sk-ant-ort01-x", Malformed::NoShape(Provider::Anthropic)),
            ("sk-ant-", Malformed::NoShape(Provider::Anthropic)),
            ("of-a-relay", Malformed::NoShape(Provider::Anthropic)),
            ("sk-proj-x", Malformed::Foreign(Provider::Openai)),
        ] {
            assert_eq!(of(&by_shape, text).err(), Some(told), "{text}");
        }
    }

    fn chatgpt_token(account: &str) -> String {
        let claim = format!(r#"{{"https://api.openai.com/auth":{{"chatgpt_account_id":"{account}"}}}}"#);
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claim))
    }

    #[test]
    fn a_services_secret_is_sent_as_its_service_takes_it_and_no_providers_is() {
        let (sent_as, real) = (SentAs::default(), "ghp_real");
        let service = of(&Whose::Service, real).expect("a credential");
        assert_eq!(service.headers(Some(&sent_as)).len(), 1);
        assert!(service.headers(None).is_empty(), "nothing says how");
        let provider = made(Provider::Anthropic, CredentialKind::Login, None, real).expect("a credential");
        assert!(provider.headers(Some(&sent_as)).is_empty(), "its provider says how");
        assert_eq!(of(&Whose::Service, "KEY=sk-ant-api03-x").err(), Some(Malformed::Dressed));
        for (text, provider) in [("sk-ant-oat01-x", Provider::Anthropic), ("sk-proj-x", Provider::Openai)] {
            assert_eq!(of(&Whose::Service, text).err(), Some(Malformed::Foreign(provider)), "{text}");
        }
    }

    #[test]
    fn a_chatgpt_login_also_says_for_which_account() {
        let jwt = chatgpt_token("of-token");
        for (configured, token, account) in [
            (None, jwt.as_str(), "of-token"),
            (Some("given"), jwt.as_str(), "given"),
            (Some("given"), "opaque", "given"),
        ] {
            let credential =
                made(Provider::OpenaiCodex, CredentialKind::Login, configured, token).expect("a credential");
            let bearer = ("authorization".to_owned(), format!("Bearer {token}"));
            assert_eq!(rendered(&credential), [bearer, ("chatgpt-account-id".to_owned(), account.to_owned())]);
        }
        let nameless = made(Provider::OpenaiCodex, CredentialKind::Login, None, "opaque");
        assert_eq!(nameless.err(), Some(Malformed::NoAccount));
    }
}
