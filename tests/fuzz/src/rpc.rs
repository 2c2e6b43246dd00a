//! JSON-RPC: one message goes through, and whoever reads it, by the first name or the last and in any case, calls what the
//! grant names.

use std::sync::Arc;

use gateway::body::Reads;
use gateway::policy::Mcp;
use gateway::policy::mcp::Glob;

use crate::body::{Judged, grant, head, target};
use crate::cut;
use crate::events::{Event, Events};
use crate::secrets::NEEDLES;

pub(crate) fn holds(data: &[u8]) {
    let (sizes, text) = cut(data);
    let globs = |names: &[&str]| Some(names.iter().map(|name| Glob::parse(name).expect("a glob")).collect());
    let mut grant = grant();
    grant.mcp = Some(Mcp { methods: globs(&["tools/*", "ping"]), tools: globs(&["get_*", "list"]) });
    let (head, grant) = (head("/mcp", "identity"), Arc::new(grant));
    let judge = |sizes: &[u8]| {
        let reads = Reads::of(&target("mcp.test:443"), &grant, &head, Arc::clone(&NEEDLES));
        Judged::of(&reads, &head.headers, sizes, text)
    };
    let (whole, in_pieces) = (judge(&[]), judge(sizes));
    assert_eq!(
        in_pieces.is_ok(),
        whole.is_ok(),
        "in pieces of {sizes:?}: {:?} and {:?}",
        in_pieces.told(),
        whole.told()
    );
    in_pieces.check(text);
    if !whole.is_ok() || text.is_empty() {
        return;
    }
    let Ok(Events(events)) = serde_json::from_slice::<Events>(text) else { return };
    let message = match &events[..] {
        [Event::Array, message @ .., Event::End] => message,
        message => message,
    };
    assert_eq!(message.first(), Some(&Event::Object), "a message is an object");
    let members = members(message);
    let calls = |name: &'static str| {
        members.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    for method in calls("method") {
        let [Event::Text(method)] = &method[..] else { panic!("a method that is no text: {method:?}") };
        assert!(method.starts_with("tools/") || method == "ping", "{method}");
        if method != "tools/call" {
            continue;
        }
        let tools: Vec<_> = calls("params")
            .filter(|params| params[0] == Event::Object)
            .flat_map(|params| self::members(params))
            .collect();
        let mut named = 0;
        for (_, tool) in tools.iter().filter(|(key, _)| key.eq_ignore_ascii_case("name")) {
            let [Event::Text(tool)] = &tool[..] else { panic!("a tool that is no text: {tool:?}") };
            assert!(tool.starts_with("get_") || tool == "list", "{tool}");
            named += 1;
        }
        assert_eq!(named, 1, "a call names its tool, once");
    }
}

/// The members of the object that these events are, and that they are nothing else.
fn members(object: &[Event]) -> Vec<(&str, Vec<Event>)> {
    let mut members: Vec<(&str, Vec<Event>)> = Vec::new();
    let mut depth = 0_usize;
    for (at, event) in object.iter().enumerate() {
        assert!(depth > 0 || at == 0, "one message, and nothing behind it");
        match event {
            Event::Key(key) if depth == 1 => {
                members.push((key, Vec::new()));
                continue;
            }
            Event::Object | Event::Array => depth += 1,
            Event::End => depth -= 1,
            _ => {}
        }
        if let (Some((_, value)), true) = (members.last_mut(), depth > 0) {
            value.push(event.clone());
        }
    }
    members
}
