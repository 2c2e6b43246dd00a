//! One test per edge of the door's state machine (`docs/door.md`).

use std::time::Duration;

use box_spec::{
    Agent, Attestation, BoxFacts, BoxId, ClaimReason, CredentialKind, EndedBy, Layer, Layers, Provider, Report,
    RunToken, RunVerdict, StdoutRecord,
};
use jiff::Timestamp;

use super::{AfterLoss, Ask, ClaimError, Exposure, Reattach, Run, RunKind, RunRecord, RunState, Runs};
use crate::vault::SecretName;

fn boxed() -> BoxId {
    "one".parse().expect("a box id")
}

fn exposure() -> Exposure {
    let variables = ["GH_TOKEN", "GITHUB_TOKEN"].map(|name| name.parse().expect("a name"));
    Exposure { secret: SecretName::new("github"), variables: variables.to_vec() }
}

fn ask(namespace_init: bool) -> Ask {
    Ask {
        box_id: boxed(),
        agent: Agent::Claude,
        kind: RunKind::OneShot,
        namespace_init,
        ceiling: Some(Duration::from_secs(60)),
        served: vec![(Provider::Anthropic, CredentialKind::Login)],
        exposures: vec![exposure()],
    }
}

#[test]
fn each_run_has_a_stand_in_of_its_own_for_an_exposed_secret() {
    let (github, other) = (SecretName::new("github"), SecretName::new("other"));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let folder = tempfile::tempdir().expect("a folder");
        let runs = Runs::open(folder.path(), &[boxed()]).expect("a registry");
        let (run, _) = runs.claim(ask(true)).expect("a run");
        let own = run.sentinel_for(&github).expect("a sentinel").to_owned();
        assert!(own.contains(box_spec::wire::SENTINEL_MARK) && run.sentinel_for(&other).is_none(), "{own}");
        let exposed: Vec<_> = run.exposed().into_iter().map(|one| (one.name.to_string(), one.value)).collect();
        assert_eq!(exposed, ["GH_TOKEN", "GITHUB_TOKEN"].map(|name| (name.to_owned(), own.clone())));
        seen.push(own);
    }
    assert_ne!(seen[0], seen[1]);
}

fn attestation() -> Attestation {
    Attestation {
        locked: true,
        non_dumpable: true,
        no_new_privileges: true,
        namespace_init: true,
        pinned: false,
        trusts_house: true,
        secret_free: true,
        layers: Layers { filter: Layer::On, capabilities: Layer::On, scope: Layer::On, limits: Layer::On },
        uid: 1000,
        agent_version: None,
        facts: BoxFacts::default(),
    }
}

fn record(run: &Run) -> RunRecord {
    RunRecord {
        run: run.id.clone(),
        box_id: boxed(),
        kind: RunKind::OneShot,
        state: RunState::Ended,
        agent: run.agent,
        agent_version: None,
        started: run.started,
        ended: Timestamp::now(),
        ended_by: None,
        exit_code: None,
        signal: None,
        error: None,
        requests: 0,
        refusals: 0,
        verdict: RunVerdict::Completed,
        transcript: String::new(),
        stdout: None,
        receipt: None,
    }
}

fn open(folder: &std::path::Path) -> Runs {
    Runs::open(folder, &[boxed()]).expect("a registry")
}

fn reason(runs: &Runs) -> Option<ClaimReason> {
    match runs.claim(ask(true)) {
        Ok(_) => None,
        Err(ClaimError::Taken(taken)) => Some(taken.reason),
        Err(ClaimError::Record(fault)) => panic!("{fault}"),
    }
}

#[test]
fn a_free_door_is_claimed_and_a_held_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (run, token) = runs.claim(ask(true)).expect("a run");
    assert_eq!(runs.caller(&boxed(), &token).expect("the caller").id, run.id);
    assert_eq!(reason(&runs), Some(ClaimReason::DoorTaken));
}

#[test]
fn the_token_of_an_ended_run_is_nobody_and_the_door_is_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (run, token) = runs.claim(ask(true)).expect("a run");
    runs.end(&run, &record(&run)).expect("recorded");
    assert!(run.over().is_cancelled());
    assert!(runs.caller(&boxed(), &token).is_none());
    assert_eq!(reason(&runs), None);
}

#[test]
fn a_lost_run_frees_the_door_only_if_its_boxd_was_the_namespace_init() {
    for (init, left, then) in [(true, AfterLoss::Freed, None), (false, AfterLoss::Shut, Some(ClaimReason::DoorShut))] {
        let folder = tempfile::tempdir().expect("a folder");
        let runs = open(folder.path());
        let (run, token) = runs.claim(ask(init)).expect("a run");
        let (after, written) = runs.lose(&run, &record(&run));
        written.expect("recorded");
        assert_eq!(after, left);
        assert!(runs.caller(&boxed(), &token).is_none());
        assert_eq!(reason(&runs), then);
    }
}

#[test]
fn a_shut_door_stays_shut_over_a_restart_until_an_operator_releases_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (run, token) = runs.claim(ask(false)).expect("a run");
    runs.lose(&run, &record(&run)).1.expect("recorded");
    drop(runs);
    let runs = open(folder.path());
    assert_eq!(reason(&runs), Some(ClaimReason::DoorShut));
    assert!(runs.reattach(&boxed(), &token, Reattach::Waiting).is_err());
    assert_eq!(runs.release(&boxed()).expect("released"), Some(run.id.clone()));
    assert_eq!(runs.release(&boxed()).expect("nothing to release"), None);
    assert_eq!(reason(&runs), None);
}

#[test]
fn after_a_restart_only_the_token_takes_the_run_up_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (run, token) = runs.claim(ask(true)).expect("a run");
    drop(runs);
    let runs = open(folder.path());
    assert_eq!(runs.waiting().len(), 1);
    assert_eq!(reason(&runs), Some(ClaimReason::DoorTaken));
    let guess: RunToken = "00000000-0000-4000-8000-000000000000".parse().expect("a token");
    assert_eq!(
        runs.reattach(&boxed(), &guess, Reattach::Waiting).expect_err("no run").reason,
        ClaimReason::NothingToReattach
    );
    let (again, grip) = runs.reattach(&boxed(), &token, Reattach::Waiting).expect("the run");
    assert_eq!((again.id.clone(), again.sentinels.clone()), (run.id.clone(), run.sentinels.clone()));
    assert_eq!(again.exposed(), run.exposed());
    assert!(!runs.waits(&again, &grip));
    assert!(runs.reattach(&boxed(), &token, Reattach::Waiting).is_err(), "a held run cannot be taken up twice");
}

#[test]
fn what_a_box_proved_holds_over_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (run, token) = runs.claim(ask(true)).expect("a run");
    runs.attest(&run, attestation()).expect("written");
    drop(runs);
    let (again, _) = open(folder.path()).reattach(&boxed(), &token, Reattach::Waiting).expect("the run");
    assert_eq!(again.attested(), Some(&attestation()));
}

#[test]
fn the_disk_holds_no_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (_run, token) = runs.claim(ask(true)).expect("a run");
    let text = std::fs::read_to_string(folder.path().join("live/one.json")).expect("the record");
    assert!(!text.contains(token.expose()));
}

#[test]
fn a_damaged_record_stops_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(folder.path()));
    crate::files::write_private(&folder.path().join("live/one.json"), b"{").expect("written");
    assert!(Runs::open(folder.path(), &[boxed()]).is_err());
}

#[test]
fn the_verdict_puts_host_evidence_before_the_report_and_refusals_last() {
    let report = |ended_by, exit_code| Report {
        ended_by,
        exit_code,
        signal: None,
        agent_spoke: true,
        agent_error: None,
        error: None,
        stdout: StdoutRecord::default(),
        orphans: 0,
        lingered: false,
        agent_version: None,
        started: String::new(),
        ended: String::new(),
    };
    let attested = attestation();
    type Row<'a> = (&'a str, bool, u64, Option<&'a Attestation>, Report, Option<&'a str>);
    let table: [Row<'_>; 7] = [
        ("clean", false, 0, Some(&attested), report(EndedBy::Exit, 0), None),
        ("never attested", false, 0, None, report(EndedBy::Exit, 0), Some("never attested")),
        ("the house saw the ceiling", true, 0, Some(&attested), report(EndedBy::Exit, 0), Some("ceiling of 1 minutes")),
        (
            "the box saw the ceiling",
            false,
            0,
            Some(&attested),
            report(EndedBy::Ceiling, 124),
            Some("ceiling of 1 minutes"),
        ),
        ("the agent failed", false, 3, Some(&attested), report(EndedBy::Exit, 42), Some("ended with 42")),
        ("a signal", false, 0, Some(&attested), report(EndedBy::Signal, 0), Some("signal")),
        ("silent refusals", false, 2, Some(&attested), report(EndedBy::Exit, 0), Some("2 of its requests")),
    ];
    for (name, ceiling, refusals, attested, report, failed) in table {
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path());
        let run = super::mint::run(ask(true), folder.path()).run;
        if ceiling {
            run.reached_ceiling();
        }
        for _ in 0..refusals {
            run.count_refusal();
        }
        if let Some(attested) = attested {
            run.attest(attested.clone());
        }
        match (run.verdict(&report), failed) {
            (RunVerdict::Completed, None) => {}
            (RunVerdict::Failed(said), Some(part)) => assert!(said.contains(part), "{name}: {said}"),
            (verdict, _) => panic!("{name}: {verdict:?}"),
        }
    }
}

#[test]
fn what_counts_against_a_run_outlives_the_gateway_and_not_the_run() {
    type Spoil = fn(&Runs, &Run);
    let spoils: [(&str, Spoil); 2] =
        [("a refusal", |_, run| run.count_refusal()), ("a knock by somebody else", |runs, _| runs.intruded(&boxed()))];
    for (name, spoil) in spoils {
        let folder = tempfile::tempdir().expect("a folder");
        let runs = open(folder.path());
        let (run, token) = runs.claim(ask(true)).expect("a run");
        assert!(run.held_against_it().is_none());
        spoil(&runs, &run);
        assert!(run.held_against_it().is_some(), "{name}");
        drop(runs);
        let runs = open(folder.path());
        let (run, _) = runs.reattach(&boxed(), &token, Reattach::Waiting).expect("the run");
        assert!(run.held_against_it().is_some(), "{name} was forgotten");
        runs.end(&run, &record(&run)).expect("recorded");
        let left = std::fs::read_dir(folder.path().join("live")).expect("a listing").count();
        assert_eq!(left, 0, "nothing is left of an ended run");
        let (run, _) = runs.claim(ask(true)).expect("a run");
        assert!(run.held_against_it().is_none(), "the next run is another");
    }
}

#[test]
fn a_run_that_could_not_be_recorded_does_not_come_back_with_its_token() {
    for init in [true, false] {
        let folder = tempfile::tempdir().expect("a folder");
        let runs = open(folder.path());
        let (run, token) = runs.claim(ask(init)).expect("a run");
        std::fs::remove_dir(folder.path().join("runs")).expect("removed");
        assert!(runs.lose(&run, &record(&run)).1.is_err(), "the verdict found no place");
        drop(runs);
        let runs = open(folder.path());
        assert!(runs.caller(&boxed(), &token).is_none());
        assert_eq!(reason(&runs), if init { None } else { Some(ClaimReason::DoorShut) });
    }
}

#[test]
fn a_run_cut_at_its_ceiling_while_nobody_held_it_may_still_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, token) = open(folder.path()).claim(ask(true)).expect("a run");
    let runs = open(folder.path());
    let waiting = runs.waiting();
    waiting[0].cut();
    assert!(runs.reattach(&boxed(), &token, Reattach::Waiting).is_err(), "one that is over is over");
    assert!(waiting[0].reached_ceiling());
    assert!(!waiting[0].reached_ceiling(), "no news");
    assert!(runs.caller(&boxed(), &token).is_none(), "its token opens no tunnel");
    runs.reattach(&boxed(), &token, Reattach::Waiting).expect("the run, for its report");
}

/// A run that has attested, so that it has an agent.
fn attested(runs: &Runs, init: bool) -> (std::sync::Arc<Run>, RunToken) {
    let (run, token) = runs.claim(ask(init)).expect("a run");
    runs.attest(&run, attestation()).expect("written");
    (run, token)
}

#[test]
fn a_claim_that_breaks_at_a_tcp_door_waits_and_its_token_takes_it_up_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (run, token) = attested(&runs, true);
    let first = run.grip();
    assert!(runs.detach(&run, &first));
    assert!(runs.waits(&run, &first));
    assert!(!runs.detach(&run, &first), "it waits already");
    assert_eq!(runs.caller(&boxed(), &token).expect("what is under way goes on").id, run.id);
    assert_eq!(reason(&runs), Some(ClaimReason::DoorTaken));
    let guess: RunToken = "00000000-0000-4000-8000-000000000000".parse().expect("a token");
    assert!(runs.reattach(&boxed(), &guess, Reattach::AlsoHeld).is_err());
    let (again, second) = runs.reattach(&boxed(), &token, Reattach::AlsoHeld).expect("the run");
    assert!(again.id == run.id && second.holds() && !first.holds());
    // The wait that began with the first break must not end what was taken up and broke once more.
    assert!(runs.detach(&run, &second));
    assert!(!runs.waits(&run, &first) && runs.waits(&run, &second));
    // It never came back: as any lost run.
    let (after, written) = runs.lose(&run, &record(&run));
    written.expect("recorded");
    assert_eq!(after, AfterLoss::Freed);
    assert!(run.over().is_cancelled() && runs.caller(&boxed(), &token).is_none());
}

#[test]
fn at_a_tcp_door_the_box_may_know_of_the_break_before_the_house() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (run, token) = attested(&runs, false);
    let first = run.grip();
    assert!(runs.reattach(&boxed(), &token, Reattach::Waiting).is_err(), "at a unix door a held run is not lost");
    assert!(first.holds());
    let (_, second) = runs.reattach(&boxed(), &token, Reattach::AlsoHeld).expect("the run");
    assert!(!first.holds() && second.holds());
    assert!(!runs.detach(&run, &first), "the connection before has nothing to say any more");
    assert!(runs.detach(&run, &second));
    // Not PID 1, and not back in time: something may live on.
    assert_eq!(runs.lose(&run, &record(&run)).0, AfterLoss::Shut);
    assert!(!runs.detach(&run, &second), "a shut door stays shut");
    assert!(runs.reattach(&boxed(), &token, Reattach::AlsoHeld).is_err());
}

#[test]
fn a_claim_without_an_agent_cannot_be_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (_run, token) = runs.claim(ask(true)).expect("a run");
    assert!(runs.reattach(&boxed(), &token, Reattach::AlsoHeld).is_err());
}

#[test]
fn a_run_that_waits_when_the_gateway_goes_waits_for_the_next_one_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = open(folder.path());
    let (run, token) = attested(&runs, true);
    assert!(runs.detach(&run, &run.grip()));
    drop(runs);
    let runs = open(folder.path());
    assert_eq!(runs.waiting().len(), 1);
    runs.reattach(&boxed(), &token, Reattach::AlsoHeld).expect("the run");
}
