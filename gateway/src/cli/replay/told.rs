//! What is told of a replay, for people. What a box wrote reaches no terminal as a command to it.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::cli::anew::Verdict;
use crate::ledger::story::plain;
use crate::recorded::stream::Left;

use super::groups::{Count, Groups, Key, Sort};

pub(super) fn verdict(verdict: &Verdict) -> Value {
    let key = if matches!(verdict, Verdict::Allow(_)) { "grant" } else { "why" };
    match verdict.why() {
        Some(why) => json!({ "verdict": verdict.word(), key: why }),
        None => json!({ "verdict": verdict.word() }),
    }
}

/// One request in one line.
pub(super) fn each(one: &Value) -> String {
    let text = |key: &str| one[key].as_str().unwrap_or("?");
    let said = |key: &str| {
        let (word, why) = (&one[key]["verdict"], one[key]["grant"].as_str().or_else(|| one[key]["why"].as_str()));
        format!("{}{}", word.as_str().unwrap_or("?"), why.map(|why| format!(" ({why})")).unwrap_or_default())
    };
    let place = format!("{} https://{}{}", text("method"), text("target"), text("path"));
    plain(&format!(
        "seq {} {}  {}  {place}: {} -> {}",
        one["seq"],
        text("time"),
        text("box"),
        said("before"),
        said("after")
    ))
}

pub(super) fn summary(groups: &Groups, left: Left) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", plain(text));
    };
    let Groups { requests, changed, unknown, others, .. } = groups;
    line(&format!("{requests} recorded requests judged anew: {changed} change, {unknown} cannot be judged"));
    for (sort, title) in [
        (Sort::Changed, "what changes:"),
        (Sort::Unknown, "what cannot be judged, for the ledger does not tell all that it hangs on:"),
        (Sort::Otherwise, "the same verdict, by another grant or for another reason:"),
    ] {
        let all = groups.of(sort);
        if !all.is_empty() {
            line(title);
        }
        for (key, group) in all.iter().take(SHOWN) {
            line(&row(key, group));
        }
        if let Some(rest) = all.len().checked_sub(SHOWN).filter(|rest| *rest > 0) {
            line(&format!("  … and {rest} more groups: --json has them"));
        }
    }
    for (fact, count) in groups.missing() {
        line(&format!("not told: {fact}, of {count} requests"));
    }
    let Left { unreadable, unclosed, nothing_asked, counted } = left;
    for (count, what) in [
        (*others, "requests of still other groups, which are in the numbers alone"),
        (unreadable, "lines of the ledger could not be read, and what they tell is not judged"),
        (counted, "refusals of which the ledger kept only the number, and that are not judged"),
        (unclosed, "requests were never closed: what their bodies held is not known"),
        (nothing_asked, "refusals before anything was asked, which no policy changes"),
    ] {
        if count > 0 {
            line(&format!("{count} {what}"));
        }
    }
    out
}

fn row(key: &Key, group: &Count) -> String {
    let Key { sort: _, box_id, target, method, shape, before, after } = key;
    let Count { count, first, last, sequence } = group;
    format!(
        "  {count:>7}  {box_id}  {method} {target}{shape}: {before} -> {after}  ({first:.0} to {last:.0}, seq {sequence})"
    )
}

const SHOWN: usize = 100;
