//! Refresh: asks a provider for fresh tokens of a login, once for all who wait, and never without a line in the ledger.

mod exchange;

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::dial::Dialer;
use crate::drain::Drain;
use crate::ledger::{Ended, Entry, Kind, Ledger, Line, Outcome, Ruling, Verdict};
use crate::refusal::Reason;
use crate::tls;
use crate::token_host::{Reach, TokenHost};
use crate::vault::login::{Attempt, Login};

use exchange::{Answer, Posting};

/// Keeps logins fresh; clones share what they need for it.
#[derive(Clone)]
pub struct Refresher {
    dialer: Arc<Dialer>,
    tls: Arc<tls::Upstreams>,
    ledger: Ledger,
    drain: Drain,
}

impl Refresher {
    #[must_use]
    pub const fn new(dialer: Arc<Dialer>, tls: Arc<tls::Upstreams>, ledger: Ledger, drain: Drain) -> Self {
        Self { dialer, tls, ledger, drain }
    }

    /// Refreshes a login that is due, or waits for whoever does it already; returns when that is over, or the wait would be
    /// too long. Whether the login can be used then is for the vault to say. `anew`: also before the time that a failure
    /// put it off to.
    pub async fn fresh(&self, login: &Arc<Login>, anew: bool) {
        let Some(patience) = login.due(anew) else { return };
        let over = match Arc::clone(&login.turn).try_lock_owned() {
            // A task of its own: a box that goes away must not take with it what the provider gives once.
            Ok(turn) => {
                let done = tokio::spawn(self.clone().refresh(turn, Arc::clone(login), anew));
                tokio::time::timeout(patience, done).await.is_ok()
            }
            // One refresh at a time, and no task for whoever only waits for it.
            Err(_) => tokio::time::timeout(patience, login.turn.lock()).await.is_ok(),
        };
        if !over {
            tracing::debug!(secret = %login.name(), "a request went on before the refresh was over");
        }
    }

    async fn refresh(self, _turn: OwnedMutexGuard<()>, login: Arc<Login>, anew: bool) {
        let _held = self.drain.hold();
        // Whoever had the turn before may have done it.
        if login.due(anew).is_none() {
            return;
        }
        if let Err(said) = self.attempt(&login, anew).await {
            tracing::warn!(secret = %login.name(), "a login was not refreshed, and will be tried again: {said}");
            login.failed(&said);
        }
    }

    /// # Errors
    /// It may work another time; says what stood in the way.
    async fn attempt(&self, login: &Arc<Login>, anew: bool) -> Result<(), String> {
        let Some(lock) = locked(login, anew).await? else { return Ok(()) };
        let begin = Arc::clone(login);
        let Some(attempt) = on_disk(move || begin.begin(anew)).await?.map_err(|fault| fault.to_string())? else {
            return Ok(());
        };
        let host = TokenHost::of(login.provider()).ok_or("its provider refreshes nothing")?;
        let entry = Entry::new(Kind::Refresh)
            .target(host.target())
            .scheme("https")
            .method(&Method::POST)
            .path_and_query(host.path())
            .ruling(Ruling::Allow)
            .fact("secret", login.name().as_str())
            .fact("login_of", login.config().agent.as_str());
        let posting = Posting::new(host, &attempt);
        let (posting, line) =
            self.ledger.enter(Verdict::allow(posting, entry)).await.map_err(|told| told.refusal.inside().to_owned())?;
        let reach = Reach { dialer: &self.dialer, tls: &self.tls, config: login.config() };
        let answer = posting.send(reach).await;
        let settled = settle(login, attempt, answer, line).await;
        drop(lock);
        settled
    }
}

/// What comes of an answer, on disk and in the ledger.
async fn settle(
    login: &Arc<Login>,
    attempt: Attempt,
    answer: Result<Answer, String>,
    line: Line,
) -> Result<(), String> {
    let Attempt { refresh: spent, scopes: _ } = attempt;
    match answer {
        Ok(Answer::Given(rotated)) => {
            let expires = rotated.expires;
            let keep = Arc::clone(login);
            let kept = on_disk(move || keep.keep(&spent, rotated)).await?.map_err(|fault| fault.to_string());
            let inside = match &kept {
                Ok(()) => format!("refreshed: good until {expires}"),
                Err(fault) => format!("refreshed, and not used before it is on disk: {fault}"),
            };
            close(line, Some(200), Ended::Complete, kept.is_err().then_some(Reason::CredentialOutage), inside);
            if kept.is_ok() {
                tracing::info!(secret = %login.name(), %expires, "a login was refreshed");
            }
            kept
        }
        Ok(Answer::Refused { status, said }) => {
            let (told, word) = (Arc::clone(login), said.clone());
            let broken = on_disk(move || told.refused(&spent, &word)).await?;
            let inside = if broken {
                tracing::error!(
                    secret = %login.name(),
                    "the login's chain is broken: the provider refused to refresh it ({said}); log in again on the host ({})",
                    login.command()
                );
                format!("refused ({said}): the login's chain is broken")
            } else {
                format!("refused ({said}), since the host's own agent had refreshed it: its login is used")
            };
            close(line, Some(status), Ended::Complete, broken.then_some(Reason::CredentialOutage), inside);
            Ok(())
        }
        Ok(Answer::Unclear { status, said }) => {
            close(line, Some(status), Ended::Complete, Some(Reason::UpstreamFailed), said.clone());
            Err(said)
        }
        Err(said) => {
            close(line, None, Ended::Failed, Some(Reason::UpstreamUnreachable), said.clone());
            Err(said)
        }
    }
}

fn close(line: Line, status: Option<u16>, ended: Ended, reason: Option<Reason>, inside: String) {
    line.close(Outcome { status, ended, reason, inside: Some(inside), ..Outcome::default() });
}

/// The lock that all gateways with this login share. `None`: whoever has it was refreshing, and it is not due any more.
async fn locked(login: &Arc<Login>, anew: bool) -> Result<Option<File>, String> {
    let end = Instant::now() + LOCK_WAIT;
    loop {
        let asked = Arc::clone(login);
        match on_disk(move || asked.lock()).await? {
            Ok(Some(lock)) => return Ok(Some(lock)),
            Ok(None) if login.due(anew).is_none() => return Ok(None),
            Ok(None) if Instant::now() < end => tokio::time::sleep(LOCK_STEP).await,
            Ok(None) => return Err("another gateway has been refreshing it for too long".to_owned()),
            Err(error) => return Err(format!("{error} ({})", error.kind())),
        }
    }
}

/// A sync of a disk may take long: not on a thread that carries requests.
async fn on_disk<T: Send + 'static>(deed: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(deed).await.map_err(|_| "it was broken off".to_owned())
}

const LOCK_WAIT: Duration = Duration::from_secs(25);
const LOCK_STEP: Duration = Duration::from_millis(50);
