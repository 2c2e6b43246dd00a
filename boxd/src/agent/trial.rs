//! What the agents' own tests share: a task, its sentinels, a planned file, and what lines of output come to.

use std::path::Path;

use box_spec::{Agent, CredentialKind, Provider, Sentinel};

use super::{Answer, Content, Listener, Plan, Standing, Task, Word};

/// A task without arguments and extras, with this home.
pub(super) fn task<'a>(home: &'a str, prompt: &'a str, sentinels: &'a [Sentinel], standing: &'a Standing) -> Task<'a> {
    Task {
        prompt,
        system: None,
        arguments: &[],
        sentinels,
        home: Path::new(home),
        uid: 0,
        sandbox_is_set: false,
        standing,
        catalog: None,
        now: "2026-11-30T12:00:00Z",
    }
}

/// `PROVIDER-sentinel`, and for a login the refresh token `rt-sentinel`.
pub(super) fn sentinel(provider: Provider, kind: CredentialKind) -> Sentinel {
    let refresh = (kind == CredentialKind::Login).then(|| "rt-sentinel".to_owned());
    Sentinel { provider, kind, access: format!("{provider}-sentinel"), refresh }
}

/// The text of a file that is the launch's alone.
pub(super) fn file<'a>(plan: &'a Plan, name: &str) -> &'a str {
    match &plan.files.iter().find(|file| file.name == name).expect("planned").content {
        Content::Whole(text) => text,
        other => panic!("{other:?}"),
    }
}

/// The answer that stands after these lines, and the last word where the output ends with them.
pub(super) fn heard(agent: Agent, lines: &[&str]) -> (Option<Answer>, Option<Answer>) {
    let mut listener = Listener::new(agent);
    let last = lines.iter().filter_map(|line| listener.hear(line.as_bytes())).last();
    let stands = match last {
        Some(Word::Final(answer)) => Some(answer),
        Some(Word::Anew) | None => None,
    };
    (stands, listener.last_word())
}

pub(super) fn said(text: &str, is_error: bool) -> Option<Answer> {
    Some(Answer { text: text.to_owned(), is_error })
}
