//! Browser: an address that a person opens anywhere, and the code that its page shows, pasted here (RFC 7636).

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::token_host::{Asked, JSON};

use super::form::{self, query_value, urlencoded};
use super::{Given, Provider, SignInFault};

/// A sign-in at Anthropic that has begun: its address is open, its code not yet here.
pub struct Begun {
    client_id: &'static str,
    /// Told to the provider with the code alone: who sees the address or the code cannot use it.
    verifier: Zeroizing<String>,
    state: String,
}

#[derive(Serialize)]
struct Ask<'a> {
    grant_type: &'static str,
    client_id: &'static str,
    code: &'a str,
    state: &'a str,
    redirect_uri: &'static str,
    code_verifier: &'a str,
}

impl Begun {
    /// # Errors
    /// The system has no random bytes.
    pub fn new(provider: &Provider<'_>) -> Result<Self, SignInFault> {
        Ok(Self { client_id: provider.host.client_id(), verifier: Zeroizing::new(random()?), state: random()? })
    }

    /// What to open in a browser.
    #[must_use]
    pub fn address(&self) -> String {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()));
        let query = urlencoded(&[
            // The page shows the code instead of sending it to a port of this machine.
            ("code", "true"),
            ("client_id", self.client_id),
            ("response_type", "code"),
            ("redirect_uri", PAGE_WITH_CODE),
            ("scope", SCOPES),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("state", &self.state),
        ]);
        format!("{AUTHORIZE}?{}", *query)
    }

    /// Gives the provider the code that was pasted, for tokens.
    ///
    /// # Errors
    /// It is no code, or not of this sign-in; or the provider gives nothing for it.
    pub async fn finish(self, provider: &Provider<'_>, pasted: &str) -> Result<Given, SignInFault> {
        let code = self.code_in(pasted)?;
        let ask = Ask {
            grant_type: "authorization_code",
            client_id: self.client_id,
            code: &code,
            state: &self.state,
            redirect_uri: PAGE_WITH_CODE,
            code_verifier: &self.verifier,
        };
        let body = Zeroizing::new(serde_json::to_string(&ask).unwrap_or_default());
        provider.exchange(Asked { path: provider.host.path(), media: JSON, body }).await
    }

    /// The code in `CODE#STATE`, or in the address of the page that shows it.
    fn code_in(&self, pasted: &str) -> Result<Zeroizing<String>, SignInFault> {
        let pasted = pasted.trim();
        let (code, state) = if let Some((_, query)) = pasted.split_once('?') {
            if let Some(word) = query_value(query, "error") {
                let is_plain = word.len() <= 64 && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                return Err(SignInFault::Denied(if is_plain { word } else { "an error".to_owned() }));
            }
            (query_value(query, "code"), query_value(query, "state"))
        } else {
            let (code, state) = pasted.split_once('#').ok_or(SignInFault::NoCode)?;
            (Some(code.to_owned()), Some(state.to_owned()))
        };
        let code = Zeroizing::new(code.unwrap_or_default());
        let is_code = (1..=form::LONGEST).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_code {
            return Err(SignInFault::NoCode);
        }
        if state.as_deref() != Some(&self.state) {
            return Err(SignInFault::OtherState);
        }
        Ok(code)
    }
}

/// 32 octets, as RFC 7636 §4.1 has it.
fn random() -> Result<String, SignInFault> {
    let mut bytes = [0_u8; 32];
    rand::fill(&mut bytes).map_err(|_| SignInFault::Random)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// These are what Anthropic's own agents open and send.
const AUTHORIZE: &str = "https://claude.ai/oauth/authorize";
const PAGE_WITH_CODE: &str = "https://platform.claude.com/oauth/code/callback";
/// What a house needs; no more, so that the login can make no key.
const SCOPES: &str = "user:profile user:inference";

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use sha2::{Digest, Sha256};
    use zeroize::Zeroizing;

    use super::super::SignInFault;
    use super::super::form::query_value;
    use super::{Begun, random};

    fn begun() -> Begun {
        Begun {
            client_id: "client",
            verifier: Zeroizing::new(random().expect("random")),
            state: random().expect("random"),
        }
    }

    #[test]
    fn the_address_tells_a_challenge_and_never_the_verifier() {
        let begun = begun();
        let address = begun.address();
        let (_, query) = address.split_once('?').expect("a query");
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(begun.verifier.as_bytes()));
        assert_eq!(query_value(query, "code_challenge").as_deref(), Some(challenge.as_str()));
        assert_eq!(query_value(query, "code_challenge_method").as_deref(), Some("S256"));
        assert_eq!(query_value(query, "state").as_ref(), Some(&begun.state));
        assert_eq!(query_value(query, "scope").as_deref(), Some("user:profile user:inference"));
        assert!(
            !address.contains(begun.verifier.as_str()) && begun.verifier.len() == 43 && *begun.verifier != begun.state
        );
    }

    #[test]
    fn a_code_is_taken_with_its_own_state_alone() {
        let begun = begun();
        let state = begun.state.clone();
        for good in [
            format!("the-code#{state}"),
            format!("  the-code#{state}\r\n"),
            format!("https://platform.claude.com/oauth/code/callback?code=the-code&state={state}"),
        ] {
            assert_eq!(begun.code_in(&good).map(|code| code.to_string()).ok().as_deref(), Some("the-code"), "{good}");
        }
        for other in ["the-code#", "the-code#other", "https://x/y?code=the-code", "https://x/y?code=the-code&state=o"] {
            assert!(matches!(begun.code_in(other), Err(SignInFault::OtherState)), "{other}");
        }
        for none in
            ["", "the-code", &format!("#{state}"), &format!("a b#{state}"), "https://x/y?state=o", "https://x/y"]
        {
            assert!(matches!(begun.code_in(none), Err(SignInFault::NoCode)), "{none}");
        }
        let denied = begun.code_in("https://x/y?error=access_denied&state=o");
        assert!(matches!(denied, Err(SignInFault::Denied(word)) if word == "access_denied"));
    }
}
