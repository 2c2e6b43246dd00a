//! `gateway suggest`: the smallest grants that would have let the refused calls of a run through, to be pasted; and what of them
//! no grant can allow, or nobody should allow unseen. Asks no gateway and looks nothing up.

mod calls;
mod paths;
mod told;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use box_spec::RunId;

use crate::config;
use crate::recorded::stream::Wanted;
use crate::recorded::{Headers, Query, Recorded};
use crate::refusal::Reason;

use super::Exit;
use super::anew::{Candidate, Fact, Verdict};
use super::replay::{Place, ReplayFault, read};

use calls::{Call, Calls, Proposed};

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The run whose refused calls are meant
    #[arg(long, value_name = "RUN")]
    run: RunId,
    /// The house's configuration, a TOML file
    #[arg(long, value_name = "FILE", env = "BOXGATE_CONFIG")]
    config: PathBuf,
    #[command(flatten)]
    place: Place,
}

/// What is not proposed, and why, counted; with an example each.
#[derive(Default)]
struct Others(BTreeMap<String, (u64, String)>);

/// Writes the grants as TOML, and everything else that there is to say as comments of it.
///
/// # Errors
/// The configuration has faults, or the ledger cannot be read.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, ReplayFault> {
    let Arguments { run, config: file, place } = arguments;
    let config = config::load(file)?;
    let ledger = place.ledger(&config.ledger.file);
    let now = Candidate::of(config);
    let wanted = Wanted { run: Some(run.clone()), ..Wanted::default() };
    let (mut refused, mut again, mut left_out, mut requests) = (Vec::new(), 0, 0, 0);
    let left = read(&ledger, &wanted, |recorded| {
        requests += recorded.asked.count;
        if recorded.refused().is_none() {
            return;
        }
        if is_repeat(&recorded) {
            again += recorded.asked.count;
        } else if refused.len() < MOST {
            refused.push(recorded);
        } else {
            left_out += recorded.asked.count;
        }
    })?;
    let mut others = Others::default();
    let mut calls = Calls::default();
    let mut asked = Vec::new();
    for recorded in refused {
        match now.judge(&recorded) {
            Verdict::Allow(_) | Verdict::Answer => {
                others.add(&recorded, "the configuration as it is now lets it through")
            }
            _ => match Call::of(&recorded, &now) {
                Ok(call) => {
                    calls.add(call);
                    asked.push(recorded);
                }
                Err(why) => others.add(&recorded, &why),
            },
        }
    }
    let (grants, proposed) = written(file, calls.grants(), &now, &mut others)?;
    let mut through = 0;
    for recorded in &asked {
        match proposed.judge(recorded) {
            Verdict::Allow(_) => through += recorded.asked.count,
            Verdict::Unknown(Fact::Body) => {
                through += recorded.asked.count;
                others.add(
                    recorded,
                    "proposed above, but its body was never read: what stands in it may be refused still",
                );
            }
            Verdict::Unknown(fact) => {
                others.add(recorded, &format!("the ledger does not tell all that it hangs on: {}", fact.word()))
            }
            Verdict::Refuse(_) | Verdict::NoBox | Verdict::Answer => {
                others.add(recorded, "another grant, or what no grant decides, keeps it out")
            }
        }
    }
    others.count(again, "they came again within ten seconds, of which the ledger keeps method and path alone: they are as the first of them");
    others.count(left.counted, "the ledger kept only their number: let the run go again, and ask again");
    others.count(left_out, "only so many are looked at: paste, let the run go again, and ask again");
    others.count(left.unreadable, "lines of the ledger could not be read");
    let text = told::whole(run, requests, through, &grants, &others.0);
    out.write_all(text.as_bytes()).map_err(ReplayFault::Output)?;
    Ok(Exit::Done)
}

/// The grants as text, and the configuration with them behind its own. What the configuration would not take is left out.
fn written(
    file: &Path,
    mut proposed: Vec<Proposed>,
    now: &Candidate,
    others: &mut Others,
) -> Result<(String, Candidate), ReplayFault> {
    let text = told::grants(&proposed, now);
    if let Ok(config) = config::load_with(file, &text) {
        return Ok((text, Candidate::of(config)));
    }
    proposed.retain(|one| {
        let taken = config::load_with(file, &told::grants(std::slice::from_ref(one), now)).is_ok();
        others.count(
            u64::from(!taken),
            "grants that the configuration would not take: `gateway explain` says what of a call of theirs",
        );
        taken
    });
    let text = told::grants(&proposed, now);
    let config = config::load_with(file, &text)?;
    Ok((text, Candidate::of(config)))
}

/// The first of them stands for itself.
fn is_repeat(recorded: &Recorded) -> bool {
    recorded.asked.query == Query::Unknown && recorded.asked.headers == Headers::Unknown
}

impl Others {
    fn add(&mut self, recorded: &Recorded, why: &str) {
        let asked = &recorded.asked;
        let method = asked.method.as_ref().map_or("?", http::Method::as_str);
        let example =
            format!("{method} {}://{}{}", asked.scheme, asked.target, asked.path.as_deref().unwrap_or_default());
        let (count, _) = self.0.entry(why.to_owned()).or_insert((0, example));
        *count += asked.count;
    }

    fn count(&mut self, count: u64, why: &str) {
        if count > 0 {
            self.0.entry(why.to_owned()).or_default().0 += count;
        }
    }
}

/// What is refused whatever a grant says, or is for a person alone to allow.
fn never(reason: Reason, grant: Option<&str>) -> Option<String> {
    let grant = grant.unwrap_or("?");
    let why = match reason {
        Reason::NoGrant | Reason::PortRefused => return None,
        Reason::DurableCredential => "durable-credential: it makes keys or tokens, which no grant can allow",
        Reason::SentinelAstray => "sentinel-astray: it carried a stand-in where none belongs, which is an alarm",
        Reason::SecretOutbound => "secret-outbound: it carried a real secret, which is an alarm",
        Reason::AddressRefused => {
            "address-refused: it leads to an address that is never dialled unless a person names it"
        }
        Reason::ProviderEgress => {
            return Some(format!(
                "provider-egress: it has a provider reach out by itself; a person may allow that by `provider_tools` or `provider_fetch` in grant {grant:?}"
            ));
        }
        Reason::McpRefused => {
            return Some(format!(
                "mcp-refused: a person may allow it by `mcp_methods` or `mcp_tools` in grant {grant:?}"
            ));
        }
        Reason::UpgradeRefused => {
            return Some(format!(
                "upgrade-refused: where it asks for a WebSocket, `websocket = true` in grant {grant:?} allows it"
            ));
        }
        Reason::Denied => return Some(format!("denied: grant {grant:?} denies it, whatever else is granted")),
        Reason::BodyTooLarge => {
            return Some(format!("body-too-large: a person may raise `max_body` in grant {grant:?}"));
        }
        other => return Some(format!("{}: that is no matter of grants", other.code())),
    };
    Some(why.to_owned())
}

/// Of one run.
const MOST: usize = 20_000;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]
mod tests;
