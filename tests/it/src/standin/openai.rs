//! The stand-in as OpenAI and as ChatGPT, by the byte: sessions, what goes wrong in them, accounts, tokens.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::{Case, case};
use serde_json::{Value, json};
use standin::{Cut, Fault, Options, Real, Rule, StandIn, Then};

use super::socket::{Came, Socket};
use super::{ask, connect};

pub(crate) const CASES: &[Case] = &[
    case("standin::a_session_goes_on_from_what_was_answered", goes_on),
    case("standin::a_session_is_begun_with_the_real_credential_alone", begun),
    case("standin::faults_of_a_session_are_as_told", faults),
    case("standin::a_silent_answer_lives_and_an_idle_session_ends", silent),
    case("standin::an_anthropic_thread_goes_on", thread),
    case("standin::only_the_real_account_is_listed", account),
    case("standin::a_refresh_is_refused_unless_told_otherwise", refresh),
];

fn goes_on() -> Result<()> {
    let standin = standin()?;
    let mut socket = session(&standin)?;
    socket.say(&json!({"type": "response.create", "model": "m", "input": [], "generate": false}))?;
    let first = socket.events()?;
    ensure!(first.len() == 2 && first[1]["response"]["output"] == json!([]), "{first:?}");
    let tools = json!({"type": "additional_tools", "tools": [{"type": "function", "name": "bash"}]});
    let typed = json!({"role": "user", "content": [{"type": "input_text", "text": "<<sh:ls>><<text:two>>"}]});
    socket.say(&create(&first[1], json!([tools, typed])))?;
    let second = socket.events()?;
    let call = &second.last().context("an event")?["response"]["output"][0];
    ensure!(call["name"] == "bash" && call["arguments"] == "{\"command\":\"ls\"}", "{call}");
    // In another session, too: what was answered is known to the whole stand-in.
    socket.close()?;
    ensure!((socket.next()?, socket.next()?) == (Came::Close, Came::Nothing), "no end in due form");
    let mut socket = session(&standin)?;
    let output = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "x"}]);
    socket.say(&create(second.last().context("an event")?, output))?;
    let third = socket.events()?;
    ensure!(third.last().context("an event")?["response"]["output"][0]["content"][0]["text"] == "two", "{third:?}");
    socket.say(&create(&json!({"response": {"id": "resp_unknown"}}), json!([])))?;
    let unknown = socket.events()?;
    ensure!(unknown.len() == 1 && unknown[0]["status"] == 400 && unknown[0].to_string().contains("resp_unknown"));
    let seen: Vec<_> = standin.seen().iter().map(|seen| (seen.method.clone(), seen.answered, seen.model)).collect();
    let message = |status, model| ("WS".to_owned(), Some(status), model);
    let upgrade = || ("GET".to_owned(), Some(101), false);
    let expected =
        [upgrade(), message(200, false), message(200, true), upgrade(), message(200, true), message(400, true)];
    ensure!(seen == expected, "{seen:?}");
    ensure!(standin.model_calls().len() == 3 && standin.model_calls()[0].text().contains("<<sh:ls>>"));
    Ok(())
}

fn begun() -> Result<()> {
    let standin = standin()?;
    for headers in ["", "Authorization: Bearer t\r\n", "Authorization: Bearer t\r\nChatGPT-Account-Id: other\r\n"] {
        let answer = Socket::open(connect(&standin)?, PATH, headers)?;
        ensure!(answer.err().is_some_and(|answer| answer.status == 401), "{headers:?} was accepted");
    }
    standin.websocket(false);
    let refused = Socket::open(connect(&standin)?, PATH, LOGIN)?.err().context("an upgrade was accepted")?;
    ensure!(refused.status == 426, "{refused:?}");
    standin.websocket(true);
    let keyless = format!("GET {PATH} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{LOGIN}\r\n");
    ensure!(ask(&mut connect(&standin)?, keyless.as_bytes())?.status == 400, "an upgrade without a key was accepted");
    standin.rules(vec![Rule::status("/responses", 503)]);
    let refused = Socket::open(connect(&standin)?, PATH, LOGIN)?.err().context("an upgrade was accepted")?;
    ensure!(refused.status == 503 && refused.text().contains("server_error"), "{refused:?}");
    Ok(())
}

/// Each of them in a fresh session, at the first thing asked.
fn faults() -> Result<()> {
    let standin = standin()?;
    let with = |fault: Fault| -> Result<Socket> {
        standin.rules(vec![Rule::new("/responses", fault).on("WS")]);
        let mut socket = session(&standin)?;
        socket.say(&json!({"type": "response.create", "input": [], "generate": false}))?;
        ensure!(socket.events()?.len() == 2, "a rule harmed what only prepares");
        socket.say(&json!({"type": "response.create", "input": "hello"}))?;
        Ok(socket)
    };
    for (cut, end) in [(Cut::Reset, Came::Nothing), (Cut::Close, Came::Nothing), (Cut::Clean, Came::Close)] {
        let mut socket = with(Fault::CutAfter { events: 2, cut })?;
        let came = [socket.next()?, socket.next()?];
        ensure!(came.iter().all(|came| matches!(came, Came::Text(_))), "{cut:?}: {came:?}");
        let last = socket.next()?;
        ensure!(last == end, "{cut:?}: {last:?}");
    }
    let body = json!({"error": {"type": "usage_limit_reached"}}).to_string().into_bytes();
    let mut socket = with(Fault::Status { status: 429, headers: Vec::new(), body })?;
    let told = json!({"type": "error", "status": 429, "error": {"type": "usage_limit_reached"}});
    ensure!(socket.events()? == [told]);
    standin.rules(Vec::new());
    socket.say(&json!({"type": "response.create", "input": "hello"}))?;
    ensure!(socket.events()?.len() > 2, "the session did not go on after an error");
    let mut socket = with(Fault::Event(json!({"type": "error", "odd": true}).to_string()))?;
    ensure!(socket.events()? == [json!({"type": "error", "odd": true})]);
    let mut socket = with(Fault::Hang(Duration::from_millis(50)))?;
    ensure!(socket.next()? == Came::Nothing, "a hang was answered");
    let mut socket = with(Fault::Reset)?;
    ensure!(socket.next()? == Came::Nothing, "a reset was answered");
    let mut socket = with(Fault::Raw { pieces: vec![(Duration::ZERO, vec![0x89, 0])], then: Then::Close })?;
    ensure!((socket.next()?, socket.next()?) == (Came::Ping, Came::Nothing), "raw bytes came otherwise");
    Ok(())
}

fn silent() -> Result<()> {
    let standin = standin()?;
    standin.idle_close(Some(Duration::from_millis(200)));
    let mut socket = session(&standin)?;
    let began = Instant::now();
    socket.say(&json!({"type": "response.create", "input": "<<ping:1>><<sleep:1>><<text:late>>"}))?;
    socket.ping()?;
    let mut pings = (0, 0);
    loop {
        match socket.next()? {
            Came::Ping => pings.0 += 1,
            Came::Pong => pings.1 += 1,
            Came::Text(event) if event["type"] == "response.completed" => break,
            Came::Text(_) => {}
            end => bail!("{end:?}"),
        }
    }
    ensure!(pings == (1, 1) && began.elapsed() >= Duration::from_secs(2), "{pings:?} {:?}", began.elapsed());
    ensure!(socket.next()? == Came::Nothing, "a session in which nothing is asked goes on");
    Ok(())
}

fn thread() -> Result<()> {
    let standin = standin()?;
    let mut stream = connect(&standin)?;
    let mut post = |body: Value| -> Result<(u16, Value)> {
        let body = body.to_string();
        let head =
            format!("POST /v1/messages HTTP/1.1\r\nAuthorization: Bearer r\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = ask(&mut stream, format!("{head}{body}").as_bytes())?;
        Ok((answer.status, serde_json::from_str(&answer.text()).context("parse the answer")?))
    };
    let tools = json!([{"name": "bash"}]);
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let (_, first) = post(json!({"tools": tools, "messages": user(json!("<<sh:ls>><<text:two>>"))}))?;
    ensure!(first["content"][0]["name"] == "bash", "{first}");
    let go_on = |id: &Value| {
        json!({"thread": {"type": "continue", "previous_message_id": id},
        "messages": user(json!([{"type": "tool_result", "content": "x"}]))})
    };
    let (_, second) = post(go_on(&first["id"]))?;
    ensure!(second["content"][0]["text"] == "two", "{second}");
    let (status, unknown) = post(go_on(&json!("msg_unknown")))?;
    ensure!(status == 400 && unknown.to_string().contains("msg_unknown"), "{status} {unknown}");
    Ok(())
}

fn account() -> Result<()> {
    let standin = standin()?;
    let head = format!("GET /backend-api/wham/accounts/check HTTP/1.1\r\n{LOGIN}\r\n");
    let answer = ask(&mut connect(&standin)?, head.as_bytes())?;
    let listed: Value = serde_json::from_str(&answer.text()).context("parse the accounts")?;
    let ids: Vec<_> = listed["accounts"].as_array().into_iter().flatten().map(|one| &one["id"]).collect();
    ensure!(answer.status == 200 && ids == ["account"], "{answer:?}");
    Ok(())
}

fn refresh() -> Result<()> {
    let standin = standin()?;
    let head = b"POST /oauth/token HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
    let mut stream = connect(&standin)?;
    let answer = ask(&mut stream, head)?;
    ensure!(answer.status == 400 && answer.text().contains("invalid_grant"), "{answer:?}");
    standin.refresh(Some(real()));
    let answer = ask(&mut stream, head)?;
    ensure!(answer.status == 200 && answer.text().contains("\"access_token\":\"t\""), "{answer:?}");
    Ok(())
}

/// What goes on from an event's response.
fn create(event: &Value, input: Value) -> Value {
    json!({"type": "response.create", "previous_response_id": event["response"]["id"], "input": input})
}

fn session(standin: &StandIn) -> Result<Socket> {
    Socket::open(connect(standin)?, PATH, LOGIN)?.map_err(|answer| anyhow::anyhow!("no session: {answer:?}"))
}

fn standin() -> Result<StandIn> {
    StandIn::start(Options { plain: true, real: vec![real(), Real::Bearer("r".into())], ..Options::default() })
}

fn real() -> Real {
    Real::Login { token: "t".into(), account: "account".into() }
}

const PATH: &str = "/backend-api/codex/responses";
const LOGIN: &str = "Authorization: Bearer t\r\nChatGPT-Account-Id: account\r\n";
