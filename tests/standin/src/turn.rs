//! One turn of the model: from a request, and what is remembered of its conversation, to the steps of an answer.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use crate::heard::Heard;
use crate::model::Answer;
use crate::stand::Shared;
use crate::steps::{self, Step};
use crate::{anthropic, chat, responses};

/// In whose words a request is made and answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Words {
    Anthropic,
    Responses,
    Chat,
}

/// What is to be answered.
pub(crate) struct Turn {
    words: Words,
    id: String,
    model: String,
    answer: Answer,
    heard: Heard,
    /// Nothing is asked of the model.
    prewarm: bool,
}

/// The request goes on from an answer that nobody gave, or that was forgotten.
#[derive(Debug)]
pub(crate) struct Unknown(pub(crate) String);

/// Conversations that can be gone on with: what was heard before each answer.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    heard: HashMap<String, Heard>,
    order: VecDeque<String>,
}

impl Words {
    /// Whose words are spoken at this path, if it is a model's.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        let ends = |end: &str| path.ends_with(end);
        if ends("/v1/messages") {
            Some(Self::Anthropic)
        } else if ends("/responses") {
            Some(Self::Responses)
        } else if ends("/chat/completions") {
            Some(Self::Chat)
        } else {
            None
        }
    }

    const fn id(self) -> &'static str {
        match self {
            Self::Anthropic => "msg",
            Self::Responses => "resp",
            Self::Chat => "chatcmpl",
        }
    }
}

impl Turn {
    /// Hears the request and decides what is answered.
    pub(crate) fn new(shared: &Shared, words: Words, request: &Value) -> Result<Self, Unknown> {
        let previous = match words {
            Words::Anthropic => request["thread"]["previous_message_id"].as_str(),
            Words::Responses => request["previous_response_id"].as_str(),
            Words::Chat => None,
        };
        let mut heard = match previous {
            None => Heard::default(),
            Some(id) => shared.live(|live| live.memory.recall(id)).ok_or_else(|| Unknown(id.to_owned()))?,
        };
        match words {
            Words::Anthropic => heard.messages(request),
            Words::Responses => heard.input(request),
            Words::Chat => heard.chat(request),
        }
        let prewarm = is_prewarm(request);
        let id = steps::id(words.id());
        let scripted = shared.live(|live| {
            live.memory.keep(&id, &heard);
            if prewarm { None } else { live.script.pop_front() }
        });
        let answer = scripted.unwrap_or_else(|| Answer::from_heard(&heard.text, heard.results));
        let model = request["model"].as_str().unwrap_or("stand-in").to_owned();
        Ok(Self { words, id, model, answer, heard, prewarm })
    }

    pub(crate) fn stream(&self) -> Vec<Step> {
        let (answer, offered) = (&self.answer, &self.heard.offered);
        match self.words {
            Words::Anthropic => anthropic::stream(answer, offered, &self.model, &self.id),
            Words::Responses if self.prewarm => responses::prewarmed(&self.model, &self.id),
            Words::Responses => responses::stream(answer, offered, &self.model, &self.id),
            Words::Chat => chat::stream(answer, offered, &self.model, &self.id),
        }
    }

    /// The answer as one object, and how long to wait before it.
    pub(crate) fn whole(&self) -> (Duration, Value) {
        let (answer, offered) = (&self.answer, &self.heard.offered);
        let steps = self.stream();
        let whole = match self.words {
            Words::Anthropic => anthropic::whole(answer, offered, &self.model, &self.id),
            Words::Responses => responses::whole(&steps),
            Words::Chat => chat::whole(answer, offered, &self.model, &self.id),
        };
        (steps::length(&steps), whole)
    }
}

impl Memory {
    fn keep(&mut self, id: &str, heard: &Heard) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.heard.remove(&oldest);
        }
        self.order.push_back(id.to_owned());
        self.heard.insert(id.to_owned(), heard.clone());
    }

    fn recall(&self, id: &str) -> Option<Heard> {
        self.heard.get(id).cloned()
    }
}

/// Whether a request only prepares the connection.
pub(crate) fn is_prewarm(request: &Value) -> bool {
    request["generate"] == false
}

/// How many answers can be gone on from.
const REMEMBERED: usize = 1000;
