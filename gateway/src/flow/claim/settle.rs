//! How a run ends: reported, unproven, abandoned or lost. Each way has a line, a record, and a dead token.

use std::sync::Arc;
use std::time::Duration;

use box_spec::{Report, RunVerdict, Settled};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::house::House;
use crate::ledger::{Entry, Kind, Receipt};
use crate::runs::{AfterLoss, Grip, Run, RunRecord, RunState};

/// A report came: the verdict, its line and its record.
pub(super) async fn report(house: &House, run: &Arc<Run>, report: &Report) -> Settled {
    // The token dies first: what the run still has open must not outlive its verdict.
    run.cut();
    let verdict = run.verdict(report);
    let entry = Entry::new(Kind::Report)
        .box_id(&run.box_id)
        .run_id(&run.id)
        .fact("verdict", serde_json::to_value(&verdict).unwrap_or_default())
        .fact("requests", run.requests())
        .fact("refusals", run.refusals())
        .fact("report", serde_json::to_value(report).unwrap_or_default());
    let receipt = written(house, entry, "record the report of a run").await;
    let record = RunRecord {
        agent_version: report.agent_version.clone(),
        ended_by: Some(report.ended_by),
        exit_code: Some(report.exit_code),
        signal: report.signal,
        stdout: Some(report.stdout.clone()),
        error: report.error.clone().or_else(|| report.agent_error.clone()),
        receipt: receipt.as_ref().map(Receipt::to_string),
        ..record_of(run, verdict.clone())
    };
    if let Err(fault) = house.runs.end(run, &record) {
        tracing::error!(%fault, run = %run.id, "end a run");
    }
    let (sequence, hash) = receipt.map_or((0, String::new()), |receipt| (receipt.sequence, receipt.hash_text()));
    Settled { sequence, hash, verdict }
}

/// The attestation did not do.
pub(super) async fn unproven(house: &House, run: &Arc<Run>, which: &str) {
    failed(house, run, &format!("attestation failed: {which}")).await;
}

/// The run never began.
pub(super) async fn abandon(house: &House, run: &Arc<Run>, why: &str) {
    failed(house, run, &format!("could not run: {why}")).await;
}

async fn failed(house: &House, run: &Arc<Run>, why: &str) {
    run.cut();
    let verdict = RunVerdict::Failed(why.to_owned());
    let entry = Entry::new(Kind::Failed).box_id(&run.box_id).run_id(&run.id).inside(why);
    written(house, entry, "record a run that did not begin").await;
    if let Err(fault) = house.runs.end(run, &record_of(run, verdict)) {
        tracing::error!(%fault, run = %run.id, "end a run");
    }
}

/// The gateway before this one ended between the claim and its word to go.
pub async fn never_began(house: &House, run: &Arc<Run>) {
    abandon(house, run, "the house went down before it said go").await;
}

/// The claim broke: the run is lost, and the door shut where something of it may live on.
pub(super) async fn lost(house: &House, run: &Arc<Run>, why: &str) {
    let mut record = record_of(run, RunVerdict::Lost(why.to_owned()));
    record.agent_version = run.attested().and_then(|attested| attested.agent_version.clone());
    let (after, recorded) = house.runs.lose(run, &record);
    if let Err(fault) = recorded {
        tracing::error!(%fault, run = %run.id, "record a lost run");
    }
    let door = match after {
        AfterLoss::Freed => "free",
        AfterLoss::Shut => "shut",
    };
    let entry = Entry::new(Kind::Lost)
        .box_id(&run.box_id)
        .run_id(&run.id)
        .inside(why)
        .fact("door", door)
        .fact("requests", run.requests())
        .fact("refusals", run.refusals());
    written(house, entry, "record a lost run").await;
    tracing::warn!(run = %run.id, r#box = %run.box_id, door, why, "a run was lost");
}

/// The claim connection at a TCP door broke: the run waits for its boxd. Nothing where another connection has it by now.
pub(super) async fn detached(house: &Arc<House>, run: &Arc<Run>, grip: &Grip) {
    if !house.runs.detach(run, grip) {
        return;
    }
    let why = "the claim broke and the box did not come back in time";
    let limit = house.limits.reattach;
    tokio::spawn(until_taken_up(Arc::clone(house), Arc::clone(run), grip.clone(), limit, why));
    written(house, Entry::new(Kind::Detached).box_id(&run.box_id).run_id(&run.id), "record a broken claim").await;
    tracing::warn!(run = %run.id, r#box = %run.box_id, "the claim of a run broke: its box may take it up again");
}

/// Waits for the boxd of a run that was left: cuts the run when it reaches its ceiling before that, and loses one that its
/// boxd never came back for.
pub async fn until_taken_up(house: Arc<House>, run: Arc<Run>, grip: Grip, limit: Duration, why: &'static str) {
    let end = Instant::now() + limit;
    if let Some(at) = run.cut_at().filter(|at| *at < end) {
        tokio::time::sleep_until(at).await;
        if house.runs.waits(&run, &grip) {
            cut(&house, &run).await;
        }
    }
    tokio::select! {
        () = house.drain.started() => {}
        () = tokio::time::sleep_until(end) => {
            if house.runs.waits(&run, &grip) {
                lost(&house, &run, why).await;
            }
        }
    }
}

/// The ceiling: the token is dead and everything open is cut before the line is written.
pub(super) async fn cut(house: &House, run: &Run) {
    let is_news = run.reached_ceiling();
    run.cut();
    if is_news {
        let entry = Entry::new(Kind::Cut).box_id(&run.box_id).run_id(&run.id).fact("ended_by", "ceiling");
        written(house, entry, "record the cut of a run").await;
    }
}

/// The record of a run that ends now.
#[must_use]
pub fn record_of(run: &Run, verdict: RunVerdict) -> RunRecord {
    RunRecord {
        run: run.id.clone(),
        box_id: run.box_id.clone(),
        kind: run.kind,
        state: if matches!(verdict, RunVerdict::Lost(_)) { RunState::Lost } else { RunState::Ended },
        agent: run.agent,
        agent_version: None,
        started: run.started,
        ended: Timestamp::now(),
        ended_by: None,
        exit_code: None,
        signal: None,
        error: None,
        requests: run.requests(),
        refusals: run.refusals(),
        verdict,
        transcript: format!("runs/{}/stdout.jsonl", run.id),
        stdout: None,
        receipt: None,
    }
}

async fn written(house: &House, entry: Entry, deed: &str) -> Option<Receipt> {
    match house.ledger.note(entry).await {
        Ok(receipt) => Some(receipt),
        Err(error) => {
            tracing::error!(%error, "{deed}");
            None
        }
    }
}
