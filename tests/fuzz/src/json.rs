//! JSON: the reader says the same wherever a text is cut, takes what serde_json takes, and hears what it hears.

use gateway::body::json::{Broken, Container, Event as Heard, Fault, LONGEST_KEY, Listener, Reader};
use serde::de::IgnoredAny;

use crate::events::{Event, Events};
use crate::{cut, pieces};

pub(crate) fn holds(data: &[u8]) {
    let (sizes, text) = cut(data);
    let (events, told) = heard(pieces(&[], text));
    assert_eq!(heard(pieces(sizes, text)), (events.clone(), told), "cut by {sizes:?}");
    // Numbers beyond any size and halves of characters are ours to pass: nobody looks at what they are.
    let theirs = std::str::from_utf8(text).map(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    match (told, theirs) {
        (Ok(()), theirs) => assert_eq!(theirs, Ok(true), "nobody else takes it"),
        (Err(Fault::Deep | Fault::Surrogate), _) => {}
        (Err(fault), theirs) => assert_ne!(theirs, Ok(true), "{fault:?}, and others take it"),
    }
    if let (Ok(()), Ok(theirs)) = (told, serde_json::from_slice::<Events>(text)) {
        assert_eq!(events, shortened(theirs));
    }
}

fn heard<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Events, Result<(), Fault>) {
    let (mut reader, mut ear) = (Reader::default(), Ear::default());
    let read = || {
        for piece in pieces {
            reader.read(piece, &mut ear)?;
        }
        reader.end(&mut ear)
    };
    let told = read().map_err(|broken| match broken {
        Broken::Json(fault) => fault,
        Broken::Listener(never) => match never {},
    });
    (ear.0, told)
}

#[derive(Default)]
struct Ear(Events);

impl Listener for Ear {
    type Stop = std::convert::Infallible;

    fn wants(&self) -> usize {
        WANTED
    }

    fn hear(&mut self, event: Heard<'_>) -> Result<(), Self::Stop> {
        self.0.0.push(match event {
            Heard::Begin(Container::Object) => Event::Object,
            Heard::Begin(Container::Array) => Event::Array,
            Heard::End(_) => Event::End,
            Heard::Key(key) => Event::Key(key.map_or_else(|| TOO_LONG.to_owned(), str::to_owned)),
            Heard::Text { begins, whole } => {
                assert!(begins.len() <= WANTED);
                Event::Text(if whole { begins.to_owned() } else { format!("{begins}{TOO_LONG}") })
            }
            Heard::Nothing => Event::Nothing,
            Heard::Other => Event::Other,
        });
        Ok(())
    }
}

/// What of it our reader keeps.
fn shortened(mut events: Events) -> Events {
    for event in &mut events.0 {
        match event {
            Event::Key(key) if key.len() > LONGEST_KEY => *key = TOO_LONG.to_owned(),
            Event::Text(text) if text.len() > WANTED => {
                *text = format!("{}{TOO_LONG}", &text[..text.floor_char_boundary(WANTED)]);
            }
            _ => {}
        }
    }
    events
}

const WANTED: usize = 8;
const TOO_LONG: &str = "\u{1}too long";
