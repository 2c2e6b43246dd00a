//! The claim while it is held: lines both ways, and taking the run up again when the connection breaks.

use std::time::Duration;

use box_spec::{Agent, ClaimReason, Fingerprint, FromBox, FromHouse, RunId, RunToken, Spec};
use box_spec::{EndedBy, Settled};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::http::{HttpFault, Lines};
use super::{Asked, ClaimFault, Way};
use crate::say;

/// The run's connection, kept by a task of its own.
#[derive(Debug)]
pub(in crate::launch) struct Held {
    told: mpsc::Receiver<Told>,
    to_say: mpsc::Sender<FromBox>,
}

/// What the house says while the run lives.
#[derive(Debug)]
pub(in crate::launch) enum Told {
    Go,
    Unproven(String),
    Cut(EndedBy),
    Settled(Settled),
    /// The connection broke and the run could not be taken up again.
    Lost(String),
}

impl Held {
    pub(super) fn new(way: Way, agent: Option<Agent>, spec: &Spec, lines: Lines) -> Self {
        let (tell, told) = mpsc::channel(8);
        let (to_say, saying) = mpsc::channel(2);
        let keeper = Keeper {
            way,
            agent,
            run: spec.run.clone(),
            house: spec.house.clone(),
            token: spec.token.clone(),
            tell,
            saying,
            may_reattach: false,
        };
        tokio::spawn(keeper.keep(lines));
        Self { told, to_say }
    }

    pub(in crate::launch) async fn say(&self, message: FromBox) {
        // The keeper is gone only after it has told that the run is lost.
        let _ = self.to_say.send(message).await;
    }

    /// The next word of the house.
    pub(in crate::launch) async fn told(&mut self) -> Told {
        let gone = || Told::Lost("the claim is closed".to_owned());
        self.told.recv().await.unwrap_or_else(gone)
    }

    /// The same, where the house must answer.
    pub(in crate::launch) async fn told_in_time(&mut self) -> Told {
        let late = |_| Told::Lost(format!("the house does not answer within {} s", IN_TIME.as_secs()));
        timeout(IN_TIME, self.told()).await.unwrap_or_else(late)
    }
}

struct Keeper {
    way: Way,
    agent: Option<Agent>,
    run: RunId,
    house: Fingerprint,
    token: RunToken,
    tell: mpsc::Sender<Told>,
    saying: mpsc::Receiver<FromBox>,
    /// Only a run that the house has let go has something to be taken up.
    may_reattach: bool,
}

impl Keeper {
    async fn keep(mut self, mut lines: Lines) {
        // What was last said and not answered: said again on the next connection.
        let mut unanswered = None;
        loop {
            let Some(broken) = self.exchange(&mut lines, &mut unanswered).await else {
                return;
            };
            lines = match self.take_up(&broken).await {
                Ok(lines) => lines,
                Err(why) => {
                    let _ = self.tell.send(Told::Lost(why)).await;
                    return;
                }
            };
        }
    }

    /// Carries lines until the connection breaks; `None` when boxd is done with it.
    async fn exchange(&mut self, lines: &mut Lines, unanswered: &mut Option<FromBox>) -> Option<HttpFault> {
        if let Some(message) = unanswered.as_ref()
            && let Err(fault) = lines.send(message).await
        {
            return Some(fault);
        }
        loop {
            tokio::select! {
                line = lines.next() => {
                    let told = match line.map(told_of) {
                        Ok(Some(told)) => told,
                        Ok(None) => return Some(HttpFault::Protocol("a second spec")),
                        Err(fault) => return Some(fault),
                    };
                    self.may_reattach |= matches!(told, Told::Go);
                    if !matches!(told, Told::Cut(_)) {
                        *unanswered = None;
                    }
                    self.tell.send(told).await.ok()?;
                }
                message = self.saying.recv() => {
                    let message = unanswered.insert(message?);
                    if let Err(fault) = lines.send(message).await {
                        return Some(fault);
                    }
                }
            }
        }
    }

    /// Takes the run up again, for as long as a gateway may need to start again, or a network to come back.
    async fn take_up(&self, broken: &HttpFault) -> Result<Lines, String> {
        let broken = say::chain(broken);
        if !self.may_reattach {
            return Err(broken);
        }
        let until = Instant::now() + REATTACH;
        loop {
            match self.try_to_take_up().await {
                Ok(lines) => return Ok(lines),
                Err(Trouble::Final(why)) => return Err(format!("{broken}; {why}")),
                Err(Trouble::Passing(why)) if Instant::now() + PAUSE > until => {
                    return Err(format!("{broken}; not taken up again within {} s: {why}", REATTACH.as_secs()));
                }
                Err(Trouble::Passing(_)) => sleep(PAUSE).await,
            }
        }
    }

    async fn try_to_take_up(&self) -> Result<Lines, Trouble> {
        // The token is shown to this house alone.
        let asked = Asked { agent: self.agent, command: false, reattach: Some(self.token.clone()) };
        let (spec, lines) = self.way.open(Some(&self.house), asked).await.map_err(Trouble::of)?;
        match spec.run == self.run && spec.house == self.house {
            true => Ok(lines),
            false => Err(Trouble::Final("the house gave another run".to_owned())),
        }
    }
}

enum Trouble {
    Passing(String),
    Final(String),
}

impl Trouble {
    fn of(fault: ClaimFault) -> Self {
        let text = say::chain(&fault);
        match fault {
            ClaimFault::NoDoor { .. } | ClaimFault::BarredDoor { .. } | ClaimFault::NoHouse { .. } => {
                Self::Passing(text)
            }
            ClaimFault::Refused(refused)
                if matches!(refused.reason, ClaimReason::Draining | ClaimReason::LedgerDown) =>
            {
                Self::Passing(text)
            }
            _ => Self::Final(text),
        }
    }
}

fn told_of(line: FromHouse) -> Option<Told> {
    match line {
        FromHouse::Spec(_) => None,
        FromHouse::Go => Some(Told::Go),
        FromHouse::Unproven { which } => Some(Told::Unproven(which)),
        FromHouse::Cut { ended_by } => Some(Told::Cut(ended_by)),
        FromHouse::Settled(settled) => Some(Told::Settled(settled)),
    }
}

/// For a word that the house owes.
const IN_TIME: Duration = Duration::from_secs(5);
const REATTACH: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);
