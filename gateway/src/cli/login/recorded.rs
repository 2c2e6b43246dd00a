//! Recorded: the ledger's line of a login that a person made, by the gateway that serves, or by this command where none does.

use super::Wanted;
use crate::cli::ask::{AskFault, ask};
use crate::config::Config;
use crate::ledger::{Entry, Kind, Ledger, LedgerError};
use crate::sign_in::line::{LOGINS, NAMELESS, entry};
use crate::vault::SecretName;

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub enum RecordFault {
    #[error("the gateway that serves could not write it ({0})")]
    Refused(String),
    #[error("{}", chain(.0))]
    Ledger(#[from] LedgerError),
}

/// Writes the line, durably. The gateway that serves is the one writer of the ledger, so it is asked first.
///
/// # Errors
/// There is no line; the login must not be kept.
pub(super) async fn recorded(config: &Config, wanted: &Wanted) -> Result<(), RecordFault> {
    let name = wanted.name.as_ref().map_or(NAMELESS, SecretName::as_str);
    let path = format!("{LOGINS}{}/{}/{name}", wanted.role.provider, wanted.config.agent);
    match ask(&config.operator_socket, "POST", &path) {
        Ok((true, _)) => Ok(()),
        Ok((false, answer)) => {
            Err(RecordFault::Refused(answer["error"].as_str().unwrap_or("it did not say why").to_owned()))
        }
        Err(AskFault::Answer { path }) => Err(RecordFault::Refused(format!("no answer at {}", path.display()))),
        Err(AskFault::Connect { .. }) => by_itself(config, &path).await,
    }
}

/// Nobody serves: nobody else has the ledger.
async fn by_itself(config: &Config, path: &str) -> Result<(), RecordFault> {
    let ledger = Ledger::open(&config.ledger)?;
    let entry = path.strip_prefix(LOGINS).and_then(entry).unwrap_or_else(|| Entry::new(Kind::Login));
    let noted = ledger.note(entry).await;
    ledger.close().await?;
    noted.map(drop).map_err(RecordFault::Ledger)
}

fn chain(fault: &LedgerError) -> String {
    match std::error::Error::source(fault) {
        Some(source) => format!("{fault}: {source}"),
        None => fault.to_string(),
    }
}
