//! Rpc: a message to an MCP server, JSON-RPC 2.0, listened to for its method and the tool that it calls. One message a body:
//! of several only the first would be judged.

use crate::policy::mcp::Mcp;

use super::json::{Container, Event, Listener};

/// One message, as far as it was read.
#[derive(Debug)]
pub struct Rpc<'a> {
    mcp: &'a Mcp,
    state: &'a mut State,
}

/// Where the listening stands, between two pieces.
#[derive(Debug, Default)]
pub struct State {
    open: Vec<Container>,
    /// The list around the message.
    in_list: bool,
    /// `params` is open, as an object.
    in_params: bool,
    next: Next,
    seen: u8,
    method: Option<String>,
    tool: Option<String>,
    is_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Next {
    #[default]
    Any,
    Method,
    Params,
    Name,
}

/// Why a message is not let through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    Method(String),
    Tool(String),
    Unclear(&'static str),
}

impl<'a> Rpc<'a> {
    pub const fn new(mcp: &'a Mcp, state: &'a mut State) -> Self {
        Self { mcp, state }
    }

    /// How deep the message itself lies.
    const fn depth(&self) -> usize {
        if self.state.in_list { 2 } else { 1 }
    }

    fn begin(&mut self, container: Container) -> Result<(), Stop> {
        let state = &mut *self.state;
        let next = std::mem::take(&mut state.next);
        match (state.open.len(), container) {
            (0, Container::Array) => state.in_list = true,
            (0, Container::Object) => {}
            (1, _) if state.in_list && state.is_over => return Err(Stop::Unclear("it holds more than one message")),
            (1, Container::Array) if state.in_list => return Err(Stop::Unclear("a message is no object")),
            _ if next == Next::Params && container == Container::Object => state.in_params = true,
            _ if matches!(next, Next::Method | Next::Name) => return Err(Stop::Unclear("a name is no text")),
            _ => {}
        }
        state.open.push(container);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        let depth = self.depth();
        let at = self.state.open.len();
        self.state.open.pop();
        if at == depth + 1 {
            self.state.in_params = false;
        }
        if at < depth && !self.state.is_over {
            return Err(Stop::Unclear("it holds no message"));
        }
        if at == depth {
            self.state.is_over = true;
            return self.judge();
        }
        Ok(())
    }

    fn key(&mut self, key: Option<&str>) -> Result<(), Stop> {
        let depth = self.depth();
        let state = &mut *self.state;
        let names: &[(&str, Next, u8)] = match state.open.len() {
            at if at == depth => MESSAGE,
            at if at == depth + 1 && state.in_params => PARAMS,
            _ => return Ok(()),
        };
        let key = key.unwrap_or_default();
        let Some((name, next, bit)) = names.iter().find(|(name, ..)| name.eq_ignore_ascii_case(key)) else {
            return Ok(());
        };
        if *name != key {
            return Err(Stop::Unclear("a name that matters is spelled in another case"));
        }
        if state.seen & bit != 0 {
            return Err(Stop::Unclear("a name that matters stands there twice"));
        }
        state.seen |= bit;
        state.next = *next;
        Ok(())
    }

    fn scalar(&mut self, value: Event<'_>) -> Result<(), Stop> {
        let state = &mut *self.state;
        if state.open.is_empty() || state.in_list && state.open.len() == 1 {
            return Err(Stop::Unclear("a message is no object"));
        }
        let into = match std::mem::take(&mut state.next) {
            Next::Method => &mut state.method,
            Next::Name => &mut state.tool,
            Next::Any | Next::Params => return Ok(()),
        };
        match value {
            Event::Text { begins, whole: true } => *into = Some(begins.to_owned()),
            _ => return Err(Stop::Unclear("a name is no short text")),
        }
        Ok(())
    }

    /// The message is whole.
    fn judge(&self) -> Result<(), Stop> {
        let State { method, tool, seen, .. } = &*self.state;
        let Some(method) = method else {
            // An answer to what the server asked.
            return if seen & ANSWER != 0 { Ok(()) } else { Err(Stop::Unclear("it is neither a call nor an answer")) };
        };
        if !self.mcp.lets_method(method) {
            return Err(Stop::Method(method.clone()));
        }
        match tool {
            _ if method != CALL => Ok(()),
            Some(tool) if self.mcp.lets_tool(tool) => Ok(()),
            Some(tool) => Err(Stop::Tool(tool.clone())),
            None => Err(Stop::Unclear("it calls a tool without a name")),
        }
    }
}

impl State {
    /// The method, and the tool that is called, once the message is whole.
    pub fn told(&mut self) -> (Option<String>, Option<String>) {
        if !self.is_over {
            return (None, None);
        }
        let method = self.method.take();
        let tool = self.tool.take().filter(|_| method.as_deref() == Some(CALL));
        (method, tool)
    }
}

impl Listener for Rpc<'_> {
    type Stop = Stop;

    fn wants(&self) -> usize {
        if matches!(self.state.next, Next::Method | Next::Name) { LONGEST } else { 0 }
    }

    fn hear(&mut self, event: Event<'_>) -> Result<(), Stop> {
        match event {
            Event::Begin(container) => self.begin(container),
            Event::End(_) => self.end(),
            Event::Key(key) => self.key(key),
            Event::Text { .. } | Event::Nothing | Event::Other => self.scalar(event),
        }
    }
}

const MESSAGE: &[(&str, Next, u8)] = &[
    ("method", Next::Method, 1),
    ("params", Next::Params, 2),
    ("result", Next::Any, ANSWER),
    ("error", Next::Any, 16),
    ("id", Next::Any, 32),
];
const PARAMS: &[(&str, Next, u8)] = &[("name", Next::Name, 4)];
const ANSWER: u8 = 8;
const CALL: &str = "tools/call";
const LONGEST: usize = 256;

#[cfg(test)]
mod tests {
    use super::{Rpc, State, Stop};
    use crate::body::json::{Broken, Reader};
    use crate::policy::mcp::{Glob, Mcp};

    fn judged(body: &str, size: usize) -> Result<(Option<String>, Option<String>), Stop> {
        let globs = |texts: &[&str]| texts.iter().map(|text| Glob::parse(text).expect("a glob")).collect();
        let mcp = Mcp {
            methods: Some(globs(&["initialize", "notifications/*", "tools/*"])),
            tools: Some(globs(&["read_*"])),
        };
        let (mut reader, mut state) = (Reader::default(), State::default());
        let stop = |broken| match broken {
            Broken::Listener(stop) => stop,
            Broken::Json(_) => Stop::Unclear("no JSON"),
        };
        for piece in body.as_bytes().chunks(size) {
            reader.read(piece, &mut Rpc::new(&mcp, &mut state)).map_err(stop)?;
        }
        reader.end(&mut Rpc::new(&mcp, &mut state)).map_err(stop)?;
        Ok(state.told())
    }

    #[test]
    fn methods_and_tools_are_lifted_wherever_they_stand_and_however_it_is_cut() {
        let some = |text: &str| Some(text.to_owned());
        let unclear = |why| Err(Stop::Unclear(why));
        for (body, want) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"name":7}}"#,
                unclear("a name is no short text"),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#, Ok((some("initialize"), None))),
            (
                r#"{"method":"tools/call","params":{"name":"read_it","arguments":{"name":"write_it","method":"x"}}}"#,
                Ok((some("tools/call"), some("read_it"))),
            ),
            (
                r#"{"params":{"arguments":{"Name":1},"name":"read_it"},"method":"tools/call"}"#,
                Ok((some("tools/call"), some("read_it"))),
            ),
            (r#"[{"method":"tools/list"}]"#, Ok((some("tools/list"), None))),
            (r#"{"method":"notifications/cancelled","params":null}"#, Ok((some("notifications/cancelled"), None))),
            (r#"{"id":1,"result":{"name":"write_it"}}"#, Ok((None, None))),
            (
                r#"{"\u006dethod":"tools/call","params":{"n\u0061me":"write_it"}}"#,
                Err(Stop::Tool("write_it".to_owned())),
            ),
            (r#"{"params":{"name":"write_it"},"method":"tools/call"}"#, Err(Stop::Tool("write_it".to_owned()))),
            (r#"{"method":"resources/read","params":{"uri":"x"}}"#, Err(Stop::Method("resources/read".to_owned()))),
            (r#"{"method":"Tools/call","params":{"name":"read_it"}}"#, Err(Stop::Method("Tools/call".to_owned()))),
            (r#"[{"method":"tools/list"},{"method":"resources/read"}]"#, unclear("it holds more than one message")),
            (r#"[{"method":"tools/list"},{"method":"tools/list"}]"#, unclear("it holds more than one message")),
            (r#"[[{"method":"tools/list"}]]"#, unclear("a message is no object")),
            (r#"{"method":"tools/list","method":"resources/read"}"#, unclear("a name that matters stands there twice")),
            (
                r#"{"method":"tools/call","params":{"name":"read_it","name":"write_it"}}"#,
                unclear("a name that matters stands there twice"),
            ),
            (
                r#"{"method":"tools/call","params":{"name":"read_it"},"params":{"name":"write_it"}}"#,
                unclear("a name that matters stands there twice"),
            ),
            (
                r#"{"method":"tools/list","Method":"resources/read"}"#,
                unclear("a name that matters is spelled in another case"),
            ),
            (r#"{"method":"tools/call","params":["read_it"]}"#, unclear("it calls a tool without a name")),
            (r#"{"method":["tools/list"]}"#, unclear("a name is no text")),
            (r#"{"id":1}"#, unclear("it is neither a call nor an answer")),
            ("7", unclear("a message is no object")),
            ("[]", unclear("it holds no message")),
            ("[\"x\"]", unclear("a message is no object")),
        ] {
            for size in [1, 2, 5, body.len()] {
                assert_eq!(judged(body, size), want, "{body} in pieces of {size}");
            }
        }
    }
}
