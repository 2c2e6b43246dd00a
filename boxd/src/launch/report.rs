//! Report: tell the house how the run ended, print the answer where text was asked for, and give the exit code.

use std::io;
use std::time::Duration;

use box_spec::FromBox;
use box_spec::{Report, RunVerdict, Settled};
use jiff::Timestamp;
use tokio::time::timeout;

use super::claim::{Held, Told};
use super::is_namespace_init;
use super::supervise::Ended;
use crate::agent::Answer;
use crate::cli::Output;
use crate::exit;
use crate::inputs::Wanted;
use crate::output;
use crate::say;
use crate::screen::Outlet;

/// Gives the report and waits for the house to settle it.
pub(super) async fn report(wanted: &Wanted, mut held: Held, mut ended: Ended, started: String) -> u8 {
    if wanted.output == Output::Text {
        ended.unprinted = print_answer(ended.answer.as_ref());
    }
    // pi ends with 0 whatever happens, and the house takes no agent's word for a verdict.
    if ended.agent_spoke && ended.exit_code == 0 && ended.answer.as_ref().is_some_and(|answer| answer.is_error) {
        say::line(&"WARNING: the agent ended with 0, and what it said last is an error");
    }
    let exit_code = match &ended.unprinted {
        Some(fault) => unprinted(ended.exit_code, fault),
        None => ended.exit_code,
    };
    // As PID 1 boxd takes with it whatever is left. Otherwise a report would free the door for what lives on: without
    // one the house counts the run as lost and shuts it.
    if ended.survives && !is_namespace_init() {
        return unreported(exit_code, "something that the agent started could not be ended");
    }
    held.say(FromBox::Report(report_of(ended, started))).await;
    match timeout(SETTLE, settled(&mut held)).await {
        Ok(Ok(settled)) => {
            if let RunVerdict::Failed(why) | RunVerdict::Lost(why) = &settled.verdict {
                say::line(&format!("the house's verdict: failed: {why}"));
            }
            exit_code
        }
        Ok(Err(why)) => unreported(exit_code, &why),
        Err(_) => unreported(exit_code, "the house does not answer"),
    }
}

/// The time as reports carry it.
pub(super) fn now() -> String {
    Timestamp::now().to_string()
}

fn report_of(ended: Ended, started: String) -> Report {
    let Ended {
        by,
        exit_code,
        signal,
        agent_spoke,
        error,
        stdout,
        unprinted: _,
        answer,
        orphans,
        survives: _,
        lingered,
        agent_version,
    } = ended;
    let agent_error = answer.filter(|answer| answer.is_error).map(|answer| answer.text);
    let short = |text: String| say::cut(&text, TEXT_LIMIT).to_owned();
    Report {
        ended_by: by,
        exit_code,
        signal,
        agent_spoke,
        agent_error: agent_error.map(short),
        error: error.map(short),
        stdout,
        orphans,
        lingered,
        agent_version,
        started,
        ended: now(),
    }
}

async fn settled(held: &mut Held) -> Result<Settled, String> {
    loop {
        match held.told().await {
            Told::Settled(settled) => return Ok(settled),
            Told::Lost(why) => return Err(why),
            Told::Cut(_) | Told::Go | Told::Unproven(_) => {}
        }
    }
}

/// Success that nobody recorded is none; any other code says more than this one would.
fn unreported(exit_code: u8, why: &str) -> u8 {
    say::line(&format!("the report could not be given: {why}"));
    if exit_code == 0 { exit::UNREPORTED } else { exit_code }
}

/// Success whose output the caller has not is none.
fn unprinted(exit_code: u8, why: &io::Error) -> u8 {
    say::line(&format!("print the agent's output: {why}"));
    if exit_code == 0 { exit::UNREPORTED } else { exit_code }
}

/// The answer alone on standard output; what the agent says went wrong on standard error. Gives
/// what hindered it.
fn print_answer(answer: Option<&Answer>) -> Option<io::Error> {
    let line = answer.map(|answer| format!("{}\n", answer.text));
    let outcome = match (answer, line) {
        (Some(answer), Some(line)) if answer.is_error => Outlet::new(io::stderr()).write(line.as_bytes()),
        (_, Some(line)) => Outlet::new(io::stdout()).write(line.as_bytes()),
        (_, None) => Ok(()),
    };
    outcome.err().and_then(output::matters)
}

/// For the house to write the report down.
const SETTLE: Duration = Duration::from_secs(5);
/// Of a text in a report, in bytes.
const TEXT_LIMIT: usize = 500;

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Ended, report_of, unprinted, unreported};
    use crate::agent::Answer;

    #[test]
    fn a_success_that_was_not_recorded_is_74_and_nothing_else_is() {
        assert_eq!([0, 1, 124, 137].map(|code| unreported(code, "test")), [74, 1, 124, 137]);
    }

    #[test]
    fn a_success_whose_output_was_not_printed_is_74_and_nothing_else_is() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!([0, 1, 124, 137].map(|code| unprinted(code, &full)), [74, 1, 124, 137]);
    }

    #[test]
    fn texts_of_a_report_are_short_and_whole_characters() {
        let text = "é".repeat(400);
        let answer = Some(Answer { text: text.clone(), is_error: true });
        let report = report_of(
            Ended { answer, error: Some(text), exit_code: 0, agent_spoke: true, ..Ended::default() },
            String::new(),
        );
        assert_eq!(report.agent_error.expect("an error").len(), 500);
        assert_eq!(report.error.expect("an error").len(), 500);
    }
}
