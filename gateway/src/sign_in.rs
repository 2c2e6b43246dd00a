//! Sign in: a person lets the house have a login of its own, by a browser on whatever machine has one.
//!
//! Anthropic shows a code that is pasted here ([`browser`]); OpenAI takes a code that is shown here ([`device`]). The forms
//! are those of the providers' own agents. Nothing is written before the provider has given tokens, and then all at once.

pub mod browser;
pub mod device;
pub mod line;
mod form;

use std::fmt;

use jiff::Timestamp;

use crate::dial::Dialer;
use crate::tls;
use crate::token_host::{Asked, Heard, Reach, TokenHost};
use crate::vault::LoginConfig;
use crate::vault::login::Rotated;

/// What a provider gave for a sign-in. Has no printable form.
pub struct Given {
    pub(crate) tokens: Rotated,
    /// What it is good for, separated by blanks; `None` where the provider did not say.
    pub(crate) scopes: Option<String>,
}

/// Why there is no login. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum SignInFault {
    #[error("{0}; nothing was written: try again when the provider can be reached")]
    Unreachable(String),
    #[error("the provider refused the login ({0}); nothing was written: begin again, and allow it in the browser")]
    Denied(String),
    #[error("the code is no longer good ({0}); nothing was written: begin again, and be done with it sooner")]
    Expired(String),
    #[error(
        "what was pasted belongs to another login (its state is not the one that was sent); nothing was written: begin again, and open only the address that this command prints"
    )]
    OtherState,
    #[error(
        "what was pasted is no code; nothing was written: begin again, and paste the whole of what the page shows, as in CODE#STATE"
    )]
    NoCode,
    #[error(
        "the provider did not understand: {0}; nothing was written. It may have changed: make the login with its own agent, and give the house that folder"
    )]
    Unclear(String),
    #[error(
        "this account has no login by device code; nothing was written: allow it in ChatGPT's security settings, or log in with `codex login` where there is a browser and give the house that folder"
    )]
    NoDeviceCode,
    #[error("no random bytes can be drawn")]
    Random,
}

/// The provider's token host, and the way to it.
pub struct Provider<'a> {
    host: TokenHost,
    reach: Reach<'a>,
}

impl<'a> Provider<'a> {
    /// `None` where the provider has keys only.
    #[must_use]
    pub fn of(
        provider: box_spec::Provider,
        dialer: &'a Dialer,
        tls: &'a tls::Upstreams,
        config: &'a LoginConfig,
    ) -> Option<Self> {
        Some(Self { host: TokenHost::of(provider)?, reach: Reach { dialer, tls, config } })
    }

    async fn ask(&self, asked: Asked) -> Result<Heard, SignInFault> {
        self.host.post(self.reach, asked).await.map_err(SignInFault::Unreachable)
    }

    /// The last step of both ways: a code for tokens (RFC 6749 §4.1.3).
    async fn exchange(&self, asked: Asked) -> Result<Given, SignInFault> {
        let heard = self.ask(asked).await?;
        if !heard.status.is_success() {
            return Err(refused(&heard));
        }
        let nothing = || SignInFault::Unclear("it answered 200 without tokens".to_owned());
        let tokens = heard.tokens(Timestamp::now()).ok_or_else(nothing)?;
        if tokens.refresh.is_none() {
            return Err(SignInFault::Unclear(
                "it gave no refresh token, so that the login could not be kept".to_owned(),
            ));
        }
        Ok(Given { tokens, scopes: form::member(&heard.body, "scope") })
    }
}

/// What an answer without tokens means.
fn refused(heard: &Heard) -> SignInFault {
    match heard.error_word().as_deref() {
        Some(word @ ("access_denied" | "authorization_denied" | "unauthorized_client")) => {
            SignInFault::Denied(word.to_owned())
        }
        Some(word @ ("expired_token" | "invalid_grant")) => SignInFault::Expired(word.to_owned()),
        _ if heard.status.is_server_error() => SignInFault::Unreachable(heard.summary()),
        _ => SignInFault::Unclear(heard.summary()),
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").finish_non_exhaustive()
    }
}
