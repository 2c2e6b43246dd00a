//! The dialogue on the claim: spec, attestation, report, one JSON line each. When it breaks, the run is lost.

use std::sync::Arc;
use std::time::Duration;

use box_spec::wire::LINE_LIMIT;
use box_spec::{Attestation, EndedBy, FromBox, FromHouse, Marks, Report, RunToken, Spec};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::time::Instant;

use crate::house::{BoxHouse, House};
use crate::ledger::{Entry, Kind};
use crate::refusal::{Reason, Refusal};
use crate::runs::{Grip, Run};

use super::{Opened, proof, settle};

type Io = TokioIo<Upgraded>;

/// One claim connection and what was said on it so far.
struct Dialogue {
    house: Arc<House>,
    here: Arc<BoxHouse>,
    run: Arc<Run>,
    grip: Grip,
    claimed_init: bool,
    taken_up: bool,
    /// On this connection: a run that was taken up may prove itself again, once.
    attested: bool,
    reader: BufReader<ReadHalf<Io>>,
    writer: WriteHalf<Io>,
    /// What came of the next line so far: a wait that ends for another reason must not lose it.
    line: Vec<u8>,
    /// When an answer is due; past it the run is lost.
    due: Option<Instant>,
    cut: bool,
}

/// What the dialogue saw next.
enum Next {
    Attested(Box<Attestation>),
    Reported(Report),
    NotUnderstood,
    /// The connection broke.
    Gone,
    Late,
    /// Another connection took the run up.
    TakenOver,
    CutNow,
    StopNow,
    Draining,
}

/// Holds the claim from the upgrade to the end of the run.
pub(super) async fn hold(
    house: Arc<House>,
    here: Arc<BoxHouse>,
    opened: Opened,
    claimed_init: bool,
    upgrade: OnUpgrade,
) {
    let Opened { run, grip, token, taken_up } = opened;
    let _held = house.drain.hold();
    let Ok(Ok(upgraded)) = tokio::time::timeout(Duration::from_secs(10), upgrade).await else {
        let why = "the claim ended before it began";
        return match taken_up && here.key.is_some() {
            true => settle::detached(&house, &run, &grip).await,
            false => broken(&house, &run, taken_up, why).await,
        };
    };
    let (reader, writer) = tokio::io::split(TokioIo::new(upgraded));
    let spec = spec(&house, &run, token, taken_up);
    let mut dialogue = Dialogue {
        due: run.attested().is_none().then(|| Instant::now() + ATTEST_DEADLINE),
        house,
        here,
        run,
        grip,
        claimed_init,
        taken_up,
        attested: false,
        reader: BufReader::new(reader),
        writer,
        line: Vec::new(),
        cut: false,
    };
    if dialogue.say(&FromHouse::Spec(Box::new(spec))).await {
        dialogue.until_the_end().await;
    } else {
        dialogue.gone("the claim broke").await;
    }
}

fn spec(house: &House, run: &Run, token: RunToken, taken_up: bool) -> Spec {
    Spec {
        run: run.id.clone(),
        box_id: run.box_id.clone(),
        token,
        agent: run.agent,
        house: house.fingerprint.clone(),
        ca_pem: house.ca_pem.clone(),
        ceiling_seconds: run.ceiling.map(|ceiling| ceiling.as_secs()),
        sentinels: run.sentinels.clone(),
        // Behind a run that is taken up there may be an agent, and nothing is searched for any more.
        marks: if taken_up { Marks::default() } else { house.rules().vault.marks() },
        exposed: run.exposed(),
        started: run.started.to_string(),
    }
}

/// The claim is gone. Before the word to go there was no agent, so the run never began and the door is free; else the
/// run is lost.
async fn broken(house: &House, run: &Arc<Run>, taken_up: bool, why: &str) {
    if run.attested().is_none() && !taken_up {
        return settle::abandon(house, run, why).await;
    }
    settle::lost(house, run, why).await;
}

/// The attestation does not do. Where there is an agent already the run is lost, so that the door shuts on what may live on.
async fn unproven(house: &House, run: &Arc<Run>, taken_up: bool, which: &str) {
    if run.attested().is_none() && !taken_up {
        return settle::unproven(house, run, which).await;
    }
    settle::lost(house, run, &format!("attestation failed: {which}")).await;
}

impl Dialogue {
    async fn until_the_end(mut self) {
        loop {
            match self.next().await {
                Next::Attested(attestation) => {
                    if !self.attest(*attestation).await {
                        return;
                    }
                    if !self.say(&FromHouse::Go).await {
                        return self.broken("the claim broke at the word to go").await;
                    }
                }
                Next::Reported(report) => {
                    let settled = settle::report(&self.house, &self.run, &report).await;
                    self.say(&FromHouse::Settled(settled)).await;
                    return self.nothing_more().await;
                }
                Next::NotUnderstood => return self.broken("the claim carried what is no message of it").await,
                Next::Gone => return self.gone("the claim broke and no report came").await,
                Next::Late => return self.broken("the box did not answer in time").await,
                Next::TakenOver => return,
                Next::CutNow => self.cut_at_the_ceiling().await,
                Next::StopNow => self.stop().await,
                Next::Draining => return self.leave_to_the_next_house(),
            }
        }
    }

    /// The connection is gone. Over a network that says nothing about the box: where there is an agent, it has a while to
    /// come back.
    async fn gone(self, why: &str) {
        let begun = self.taken_up || self.run.attested().is_some();
        if begun && self.here.key.is_some() {
            return settle::detached(&self.house, &self.run, &self.grip).await;
        }
        self.broken(why).await;
    }

    async fn broken(self, why: &str) {
        broken(&self.house, &self.run, self.taken_up, why).await;
    }

    /// Writes the attestation down, where it does; else the run is over.
    async fn attest(&mut self, attestation: Attestation) -> bool {
        let which = if self.attested {
            Some("attested twice".to_owned())
        } else if attestation.namespace_init != self.claimed_init {
            Some("namespace_init differs from the claim".to_owned())
        } else {
            proof::missing(&attestation, &self.here.settings())
        };
        if let Some(which) = which {
            // Settled first: who hears that it did not do may claim again at once.
            unproven(&self.house, &self.run, self.taken_up, &which).await;
            self.say(&FromHouse::Unproven { which }).await;
            return false;
        }
        let entry = Entry::new(Kind::Attested)
            .box_id(&self.here.id)
            .run_id(&self.run.id)
            .fact("attestation", serde_json::to_value(&attestation).unwrap_or_default());
        if let Err(error) = self.house.ledger.note(entry).await {
            tracing::error!(%error, "record an attestation");
            let why = "the ledger could not be written";
            unproven(&self.house, &self.run, self.taken_up, why).await;
            self.say(&FromHouse::Unproven { which: "the house's ledger cannot be written".to_owned() }).await;
            return false;
        }
        if let Err(fault) = self.house.runs.attest(&self.run, attestation) {
            tracing::error!(%fault, source = ?std::error::Error::source(&fault), "attest");
            unproven(&self.house, &self.run, self.taken_up, "the record could not be written").await;
            self.say(&FromHouse::Unproven { which: "the record of the run cannot be written".to_owned() }).await;
            return false;
        }
        self.attested = true;
        self.due = None;
        true
    }

    async fn cut_at_the_ceiling(&mut self) {
        self.cut = true;
        self.due = Some(Instant::now() + self.house.limits.report_deadline + AGENT_GRACE);
        settle::cut(&self.house, &self.run).await;
        self.say(&FromHouse::Cut { ended_by: EndedBy::Ceiling }).await;
    }

    /// An operator ended it, and what it had open is cut already.
    async fn stop(&mut self) {
        self.cut = true;
        self.due = Some(Instant::now() + self.house.limits.report_deadline + AGENT_GRACE);
        self.say(&FromHouse::Cut { ended_by: EndedBy::Operator }).await;
    }

    /// The run stays on disk; its boxd takes it up again when the house is back. What it has open until then ends at its
    /// ceiling all the same. That holds up no drain: without anything open there is nothing to cut.
    fn leave_to_the_next_house(self) {
        if let Some(ceiling) = self.run.cut_at().filter(|_| !self.cut) {
            let (house, run) = (self.house, self.run);
            tokio::spawn(async move {
                tokio::time::sleep_until(ceiling).await;
                settle::cut(&house, &run).await;
            });
        }
    }

    /// After the report only the end of the connection may come. Anything else is a second report.
    async fn nothing_more(mut self) {
        self.due = Some(Instant::now() + Duration::from_secs(2));
        if let Next::Attested(_) | Next::Reported(_) | Next::NotUnderstood = self.next().await {
            let refusal = Refusal::new(
                Reason::ReportRefused,
                "the run has reported already",
                "a second message came after the report of the run",
            );
            self.house.ledger.alarm(
                refusal.reason().code(),
                Entry::new(Kind::Refused).box_id(&self.here.id).run_id(&self.run.id).refusal(&refusal),
            );
        }
    }

    async fn next(&mut self) -> Next {
        let cut_at = if self.cut { None } else { self.run.cut_at() };
        let room = LINE_LIMIT.saturating_sub(self.line.len()) as u64;
        let mut reader = (&mut self.reader).take(room);
        let read = tokio::select! {
            () = at(cut_at) => return Next::CutNow,
            () = self.run.stopped(), if !self.cut => return Next::StopNow,
            () = at(self.due) => return Next::Late,
            () = self.grip.lost() => return Next::TakenOver,
            () = self.house.drain.started() => return Next::Draining,
            read = reader.read_until(b'\n', &mut self.line) => read,
        };
        let line = std::mem::take(&mut self.line);
        if read.is_err() || line.last() != Some(&b'\n') && line.len() < LINE_LIMIT {
            return Next::Gone;
        }
        match serde_json::from_slice(&line) {
            Ok(FromBox::Attest(attestation)) => Next::Attested(Box::new(attestation)),
            Ok(FromBox::Report(report)) => Next::Reported(report),
            Err(_) => Next::NotUnderstood,
        }
    }

    async fn say(&mut self, message: &FromHouse) -> bool {
        let Ok(mut line) = serde_json::to_vec(message) else { return false };
        line.push(b'\n');
        let write = async {
            self.writer.write_all(&line).await?;
            self.writer.flush().await
        };
        matches!(tokio::time::timeout(Duration::from_secs(5), write).await, Ok(Ok(())))
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// How long boxd may take from the spec to its attestation.
const ATTEST_DEADLINE: Duration = Duration::from_secs(30);
/// What boxd gives an agent that is told to end, before it reports.
const AGENT_GRACE: Duration = Duration::from_secs(15);
