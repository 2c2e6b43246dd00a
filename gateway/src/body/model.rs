//! Model: a request to a model's provider, listened to for what it makes the provider do by itself. What the grant does not name
//! stops it; what it names is noted.

use std::borrow::Cow;

use box_spec::Provider;

use crate::policy::egress::{self, Egress, Field, Means, Tool};

use super::json::{Container, Event, Listener};

/// What one request asks of its provider, as far as it was read.
#[derive(Debug)]
pub struct Model<'a> {
    provider: Provider,
    egress: &'a Egress,
    state: &'a mut State,
}

/// Where the listening stands, between two pieces.
#[derive(Debug, Default)]
pub struct State {
    open: Vec<Open>,
    let_through: Vec<Asked>,
}

/// Something that the provider is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A tool or another service of its own, by the name that a grant lets it through by.
    Tool(String),
    /// To fetch or call an address: where it leads.
    Fetch(String),
}

/// Why a request is not let through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    Refused(Asked),
    /// It cannot be told what the provider would do.
    Unclear(&'static str),
}

/// An object or array under way.
#[derive(Debug)]
struct Open {
    container: Container,
    role: Role,
    /// What a grant must name if anything stands in it.
    needs: Option<Cow<'static, str>>,
    /// What the value that comes now is.
    next: Next,
    /// A bit for each field of the table that was there.
    seen: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Request,
    Plain,
    Opaque,
    Tools,
    Tool,
    /// What is fetched, or called: a `url` in it is an address.
    Addressed,
    Source,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Next {
    Any,
    Means(Means),
    /// A field of the request that nobody knows.
    New(String),
}

impl Asked {
    /// The sentence for the operator where it is refused.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Tool(name) => format!("{FOR}{name}"),
            Self::Fetch(place) => format!("{FROM}{place}"),
        }
    }

    /// What such a sentence says was asked; `None` where it was cut.
    #[must_use]
    pub fn of_sentence(said: &str) -> Option<Self> {
        let place = said.strip_prefix(FROM).map(|place| Self::Fetch(place.to_owned()));
        let asked = place.or_else(|| said.strip_prefix(FOR).map(|name| Self::Tool(name.to_owned())));
        asked.filter(|_| !said.contains('…'))
    }
}

impl<'a> Model<'a> {
    pub const fn new(provider: Provider, egress: &'a Egress, state: &'a mut State) -> Self {
        Self { provider, egress, state }
    }

    fn begin(&mut self, container: Container) -> Result<(), Stop> {
        let opened = self.opened(container)?;
        self.state.open.push(opened);
        Ok(())
    }

    /// What the object or array is that begins here.
    fn opened(&mut self, container: Container) -> Result<Open, Stop> {
        let is_object = container == Container::Object;
        let plain = |role| Open { container, role, needs: None, next: Next::Any, seen: 0 };
        let Some(outer) = self.state.open.last_mut() else {
            return if is_object { Ok(plain(Role::Request)) } else { Err(Stop::Unclear("it is no object")) };
        };
        let (role, in_array) = (outer.role, outer.container == Container::Array);
        let next = std::mem::replace(&mut outer.next, Next::Any);
        self.something()?;
        Ok(match (role, next) {
            (Role::Opaque, _) | (_, Next::Means(Means::Opaque)) => plain(Role::Opaque),
            (Role::Tools, _) if is_object => plain(Role::Tool),
            (Role::Tools, _) => return Err(Stop::Unclear("a tool is no object")),
            (role @ (Role::Addressed | Role::Source), _) if in_array => plain(role),
            (_, Next::Means(Means::Tools)) if !is_object => plain(Role::Tools),
            (_, Next::Means(Means::Tools)) => return Err(Stop::Unclear("`tools` is no list")),
            (_, Next::Means(Means::Fetched)) if is_object => plain(Role::Addressed),
            (_, Next::Means(Means::Fetched | Means::NeedsAt(_))) => {
                return Err(Stop::Unclear("an address is no text"));
            }
            (Role::Addressed | Role::Source, Next::Means(Means::Address)) => {
                return Err(Stop::Unclear("an address is no text"));
            }
            (Role::Tool | Role::Source, Next::Means(Means::Kind)) => {
                return Err(Stop::Unclear("a kind is no text"));
            }
            (_, Next::Means(Means::Source)) => plain(if is_object { Role::Source } else { Role::Plain }),
            (_, Next::Means(Means::Needs(name))) => Open { needs: Some(Cow::Borrowed(name)), ..plain(Role::Addressed) },
            (_, Next::New(name)) => Open { needs: Some(Cow::Owned(name)), ..plain(Role::Plain) },
            (_, Next::Any | Next::Means(Means::Kind | Means::Model | Means::Address)) => plain(Role::Plain),
        })
    }

    fn end(&mut self) {
        self.state.open.pop();
    }

    fn key(&mut self, key: Option<&str>) -> Result<(), Stop> {
        self.something()?;
        let provider = self.provider;
        let Some(open) = self.state.open.last_mut().filter(|open| open.role != Role::Opaque) else { return Ok(()) };
        let key = key.unwrap_or_default();
        open.next = match egress::field(provider, key) {
            Some((_, _, false)) => return Err(Stop::Unclear("a name that matters is spelled in another case")),
            Some((at, Field { means, .. }, true)) => {
                if open.seen & 1 << at != 0 {
                    return Err(Stop::Unclear("a name that matters stands there twice"));
                }
                open.seen |= 1 << at;
                Next::Means(*means)
            }
            None if egress::names_an_address(key) => Next::Means(Means::Fetched),
            None if open.role == Role::Request && !egress::is_of_a_request(provider, key) => Next::New(key.to_owned()),
            None => Next::Any,
        };
        Ok(())
    }

    /// A text, as far as it was kept; nothing; or something else that is neither object nor array.
    fn scalar(&mut self, value: Event<'_>) -> Result<(), Stop> {
        let Some(open) = self.state.open.last_mut() else { return Err(Stop::Unclear("it is no object")) };
        let (role, next) = (open.role, std::mem::replace(&mut open.next, Next::Any));
        if open.container == Container::Array {
            self.something()?;
        }
        let nothing = value == Event::Nothing;
        match (role, next) {
            (Role::Opaque, _) | (_, Next::Any | Next::Means(Means::Opaque | Means::Source)) if role != Role::Tools => {
                Ok(())
            }
            (Role::Tools, _) => Err(Stop::Unclear("a tool is no object")),
            (_, Next::Means(Means::Tools | Means::Fetched | Means::NeedsAt(_) | Means::Needs(_))) if nothing => Ok(()),
            (_, Next::Means(Means::Tools)) => Err(Stop::Unclear("`tools` is no list")),
            (_, Next::Means(Means::Needs(name))) => self.need(name),
            (_, Next::Means(Means::NeedsAt(name))) => {
                self.need(name)?;
                self.fetch(value)
            }
            (_, Next::Means(Means::Fetched)) => self.fetch(value),
            (Role::Addressed | Role::Source, Next::Means(Means::Address)) => {
                if nothing {
                    Ok(())
                } else {
                    self.fetch(value)
                }
            }
            (Role::Tool, Next::Means(Means::Kind)) => match value {
                Event::Text { begins, whole: true } => self.tool(begins),
                _ => Err(Stop::Unclear("the kind of a tool is no short text")),
            },
            (Role::Source, Next::Means(Means::Kind)) => match value {
                Event::Text { begins, whole: true } if egress::is_a_source(begins) => Ok(()),
                _ => Err(Stop::Unclear("the kind of a source is not known")),
            },
            (_, Next::Means(Means::Model)) => match value {
                Event::Text { begins, .. } if egress::searches_by_itself(begins) => self.need("web_search"),
                _ => Ok(()),
            },
            (_, Next::New(name)) => match value {
                Event::Text { begins, whole } if !whole || begins.contains("://") => self.need(&name),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Something stands in what is open: where a grant must name that, it must.
    fn something(&mut self) -> Result<(), Stop> {
        match self.state.open.last_mut().and_then(|open| open.needs.take()) {
            Some(name) => self.need(&name),
            None => Ok(()),
        }
    }

    fn tool(&mut self, kind: &str) -> Result<(), Stop> {
        match egress::tool(kind) {
            Tool::Agents => Ok(()),
            Tool::Providers(_) if self.egress.lets_tool(kind) => self.note(Asked::Tool(kind.to_owned())),
            Tool::Providers(name) => Err(Stop::Refused(Asked::Tool(name.to_owned()))),
        }
    }

    fn need(&mut self, name: &str) -> Result<(), Stop> {
        let asked = Asked::Tool(name.to_owned());
        if self.egress.lets_tool(name) { self.note(asked) } else { Err(Stop::Refused(asked)) }
    }

    fn fetch(&mut self, value: Event<'_>) -> Result<(), Stop> {
        match value {
            Event::Text { begins, .. } if egress::is_inline(begins) => Ok(()),
            Event::Text { begins, whole } => {
                let asked = Asked::Fetch(egress::shown(begins));
                if whole && self.egress.lets_fetch(begins) { self.note(asked) } else { Err(Stop::Refused(asked)) }
            }
            _ => Err(Stop::Unclear("an address is no text")),
        }
    }

    fn note(&mut self, asked: Asked) -> Result<(), Stop> {
        let noted = &mut self.state.let_through;
        if noted.len() < MOST_NOTED && !noted.contains(&asked) {
            noted.push(asked);
        }
        Ok(())
    }
}

impl State {
    /// What was let through since this was asked last.
    pub fn let_through(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.let_through)
    }
}

impl Listener for Model<'_> {
    type Stop = Stop;

    fn wants(&self) -> usize {
        match self.state.open.last() {
            Some(open) if open.next != Next::Any && open.role != Role::Opaque => LONGEST_ADDRESS,
            Some(_) | None => 0,
        }
    }

    fn hear(&mut self, event: Event<'_>) -> Result<(), Stop> {
        match event {
            Event::Begin(container) => self.begin(container),
            Event::End(_) => {
                self.end();
                Ok(())
            }
            Event::Key(key) => self.key(key),
            Event::Text { .. } | Event::Nothing | Event::Other => self.scalar(event),
        }
    }
}

const FOR: &str = "asks the provider for ";
const FROM: &str = "asks the provider to fetch from ";
/// Of an address, or of a name that matters. Longer ones are let through by nobody.
const LONGEST_ADDRESS: usize = 2048;
const MOST_NOTED: usize = 32;

#[cfg(test)]
mod tests {
    use super::Asked;

    #[test]
    fn what_was_asked_is_read_from_the_sentence_that_refused_it() {
        for asked in [Asked::Tool("web_search".into()), Asked::Fetch("https://docs.example:443".into())] {
            assert_eq!(Asked::of_sentence(&asked.sentence()), Some(asked));
        }
        for said in ["", "asks the provider for a…(+7 bytes)", "a body that is read: it is no object"] {
            assert_eq!(Asked::of_sentence(said), None, "{said}");
        }
    }
}
