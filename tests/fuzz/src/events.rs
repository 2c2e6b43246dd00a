//! Events: what stands in a text, told by serde_json the way the gateway's reader tells it, names that stand there twice included.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// One thing after the other, in the text's order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Events(pub(crate) Vec<Event>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Object,
    Array,
    End,
    Key(String),
    Text(String),
    Nothing,
    Other,
}

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Ear)
    }
}

struct Ear;

impl<'de> Visitor<'de> for Ear {
    type Value = Events;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Events, E> {
        Ok(Events(vec![if value { Event::Other } else { Event::Nothing }]))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Events, E> {
        Ok(Events(vec![Event::Other]))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Events, E> {
        Ok(Events(vec![Event::Other]))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Events, E> {
        Ok(Events(vec![Event::Other]))
    }

    fn visit_unit<E>(self) -> Result<Events, E> {
        Ok(Events(vec![Event::Nothing]))
    }

    fn visit_str<E>(self, text: &str) -> Result<Events, E> {
        Ok(Events(vec![Event::Text(text.to_owned())]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Events, A::Error> {
        let mut all = vec![Event::Array];
        while let Some(item) = items.next_element::<Events>()? {
            all.extend(item.0);
        }
        all.push(Event::End);
        Ok(Events(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Events, A::Error> {
        let mut all = vec![Event::Object];
        while let Some((key, value)) = members.next_entry::<String, Events>()? {
            all.push(Event::Key(key));
            all.extend(value.0);
        }
        all.push(Event::End);
        Ok(Events(all))
    }
}
