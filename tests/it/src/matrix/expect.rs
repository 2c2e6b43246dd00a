//! What each cell is to end like, as measured with the pinned versions. `docs/agents.md` publishes it.

use box_spec::{Agent, Provider};
use nix::sys::signal::Signal;

use super::event::{Event, Refusal};
use super::seat::{Seat, Transport};

/// How a cell ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expected {
    pub(super) code: i32,
    /// Whether the agent itself calls it a failure; `None` where it tells no end.
    pub(super) failed: Option<bool>,
    /// Part of what the agent said in the end.
    pub(super) text: &'static str,
    /// Requests at the model's route, WebSocket handshakes among them.
    pub(super) requests: usize,
    /// How often the model was asked over WebSockets.
    pub(super) messages: usize,
    /// Requests that the house refused.
    pub(super) refused: usize,
}

/// `None` where there is no such cell.
pub(super) fn expected(seat: &Seat, event: Event) -> Option<Expected> {
    // A key is never refreshed.
    if event == Event::Expired && !seat.login {
        return None;
    }
    let mut expected = match seat.agent {
        Agent::Claude => claude(seat, event),
        Agent::Codex => codex(seat, event),
        Agent::Pi => pi(seat, event),
    };
    // What is refused on the handshake is asked again without one. A handshake that would not do anyway is not refused for
    // what it asks.
    let asked_twice = match seat.transport {
        Transport::Events => false,
        Transport::Fallback => event == Event::Refused(Refusal::NoGrant),
        Transport::WebSocket => matches!(event, Event::Refused(_)),
    };
    expected.refused += usize::from(asked_twice);
    if seat.transport == Transport::WebSocket {
        over_websocket(event, &mut expected);
    }
    Some(expected)
}

/// One handshake serves the whole run, where nothing goes wrong.
fn over_websocket(event: Event, expected: &mut Expected) {
    match event {
        Event::Status(_) | Event::Refused(_) | Event::Hang => {}
        Event::Cut if expected.messages == 0 => expected.messages = 2,
        Event::Cut => {}
        _ => (expected.requests, expected.messages) = (1, expected.requests),
    }
}

fn claude(seat: &Seat, event: Event) -> Expected {
    match event {
        Event::Status(401) => failed(1, "credential-rejected", 1),
        Event::Status(403) => failed(1, "403", 1),
        Event::Status(429) if seat.login => failed(1, "temporarily limiting", 3),
        Event::Status(status) => failed(1, if status == 429 { "429" } else { "500" }, 3),
        Event::Cut | Event::Hang => good("governed", 2),
        // Whether it still tells an end depends on how far it had read when the signal came.
        Event::Signal(Signal::SIGINT) => cut(0),
        Event::Signal(_) => cut(143),
        _ => usual(event, 1),
    }
}

fn codex(seat: &Seat, event: Event) -> Expected {
    // Its handshakes are tried first, and counted with the rest.
    let over_websocket = seat.transport == Transport::WebSocket;
    let tried = |handshakes, posts| if over_websocket { handshakes + posts } else { posts };
    match event {
        Event::Status(401) => failed(1, "credential-rejected", tried(1, 1)),
        Event::Status(403) => failed(1, "403", tried(7, 6)),
        Event::Status(429) => failed(1, "429", tried(1, 1)),
        Event::Status(_) => failed(1, "high demand", tried(7, 30)),
        Event::Cut => good("governed", 2),
        Event::Hang if over_websocket => Expected { messages: 1, ..good("governed", 2) },
        Event::Hang => good("governed", 2),
        Event::Signal(Signal::SIGINT) => cut(1),
        Event::Signal(_) => cut(143),
        _ => usual(event, 1),
    }
}

fn pi(seat: &Seat, event: Event) -> Expected {
    let over_websocket = seat.transport == Transport::WebSocket;
    // At ChatGPT pi looks at the text of an error, not at its status, to see whether it is to try again.
    let at_chatgpt = seat.provider == Provider::OpenaiCodex;
    let tried = |posts| if over_websocket { 1 + posts } else { posts };
    match event {
        Event::Status(401) => failed(0, "credential-rejected", tried(1)),
        Event::Status(429) if at_chatgpt => failed(0, "usage limit", tried(1)),
        Event::Status(_) if at_chatgpt => failed(0, "stand-in fault", tried(1)),
        Event::Status(403) => failed(0, "403", 1),
        Event::Status(status) => failed(0, if status == 429 { "429" } else { "500" }, 4),
        Event::Hang => good("governed", 2),
        // It goes on without WebSockets.
        Event::Cut if over_websocket => Expected { messages: 1, ..good("governed", 2) },
        Event::Cut => good("governed", 2),
        Event::Signal(Signal::SIGINT) => cut(130),
        Event::Signal(_) => cut(143),
        _ => usual(event, 0),
    }
}

/// What is the same for all but for the code of a failure.
fn usual(event: Event, code: i32) -> Expected {
    match event {
        Event::Shell => good("made", 2),
        Event::Silence => good("patient", 1),
        Event::LongPrompt => good("whole", 1),
        Event::Mcp => good("echoed", 2),
        Event::Ceiling => cut(124),
        Event::Refused(Refusal::NoGrant) => refused(code, "no grant"),
        Event::Refused(Refusal::NoSecret) => refused(code, "outage"),
        Event::Refused(Refusal::Untrusted) => refused(code, "certificate"),
        _ => good("governed", 1),
    }
}

const fn good(text: &'static str, requests: usize) -> Expected {
    Expected { code: 0, failed: Some(false), text, requests, messages: 0, refused: 0 }
}

const fn failed(code: i32, text: &'static str, requests: usize) -> Expected {
    Expected { code, failed: Some(true), text, requests, messages: 0, refused: 0 }
}

/// By the house, before anything left.
const fn refused(code: i32, text: &'static str) -> Expected {
    Expected { code, failed: Some(true), text, requests: 0, messages: 0, refused: 1 }
}

/// Ended in the middle of its one answer.
const fn cut(code: i32) -> Expected {
    Expected { code, failed: None, text: "", requests: 1, messages: 0, refused: 0 }
}
