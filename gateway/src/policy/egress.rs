//! Egress of a provider: what a request body can make a model's provider do by itself, told by tables, and what of that a
//! grant lets it do.

mod addresses;

use std::borrow::Cow;

use box_spec::Provider;

pub use addresses::{Addresses, is_inline, shown};

/// What a grant lets the provider do for the box. Nothing, where the grant says nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Egress {
    /// Names of tools, each of a family (`web_search`) or of one version.
    pub tools: Vec<String>,
    pub fetch: Vec<Addresses>,
}

/// Who does what a tool of the request does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tool<'a> {
    /// The agent, in the box: what it then asks for is judged when it asks.
    Agents,
    /// The provider, or nobody knows: the name that a grant lets it through by.
    Providers(&'a str),
}

/// What a field of a request is to the provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// The kind of what it stands in.
    Kind,
    /// A list of tools.
    Tools,
    /// The agent's own words in any shape, in which nothing has a meaning.
    Opaque,
    /// An address that is fetched, as a text or in an object.
    Fetched,
    /// An address, within what is fetched or called.
    Address,
    /// Where an attachment comes from.
    Source,
    /// Something that the provider does, whatever stands in it: the name that a grant lets it through by.
    Needs(&'static str),
    /// The same, at an address.
    NeedsAt(&'static str),
    Model,
}

/// One line of the table of fields.
#[derive(Debug)]
pub struct Field {
    pub key: &'static str,
    of: &'static [Provider],
    pub means: Means,
}

impl Egress {
    /// Whether a tool is let through, by its own name or its family's.
    #[must_use]
    pub fn lets_tool(&self, kind: &str) -> bool {
        let family = family(kind);
        self.tools.iter().any(|tool| tool == kind || Some(tool.as_str()) == family)
    }

    /// Whether the provider may fetch this address. One that could be read in two ways is none.
    #[must_use]
    pub fn lets_fetch(&self, address: &str) -> bool {
        self.fetch.iter().any(|addresses| addresses.cover(address))
    }

    /// Whether it may fetch an address of which the ledger tells only where it leads; `None` where that is too little.
    #[must_use]
    pub fn lets_place(&self, place: &str) -> Option<bool> {
        let mut told = self.fetch.iter().map(|addresses| addresses.cover_place(place));
        let least = told.find(|is_let| *is_let != Some(false)).unwrap_or(Some(false));
        if least.is_none() && told.any(|is_let| is_let == Some(true)) { Some(true) } else { least }
    }

    /// Whether some tool of this family is let through, all of it or one version.
    #[must_use]
    pub fn lets_some_of(&self, family: &str) -> bool {
        let is_of =
            |tool: &String| tool.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
        self.tools.iter().any(is_of)
    }
}

/// Who does what a tool of this kind does.
#[must_use]
pub fn tool(kind: &str) -> Tool<'_> {
    let is_versioned = |name: &&str| {
        kind.strip_prefix(*name).is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('_').is_some_and(|date| date.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    if AGENTS.contains(&kind) || AGENTS_VERSIONED.iter().any(is_versioned) {
        return Tool::Agents;
    }
    Tool::Providers(family(kind).unwrap_or(kind))
}

/// The field of this name, and whether it is spelled as the provider spells it. Some readers of JSON take a name in any case.
#[must_use]
pub fn field(provider: Provider, key: &str) -> Option<(usize, &'static Field, bool)> {
    let folded = folded(key);
    let at = FIELDS.iter().position(|field| field.key == folded && field.of.contains(&provider))?;
    Some((at, &FIELDS[at], FIELDS[at].key == key))
}

/// Whether a name that the table does not have says of itself that an address stands there.
#[must_use]
pub fn names_an_address(key: &str) -> bool {
    let folded = folded(key);
    folded.ends_with("_url") || folded.ends_with("_uri")
}

/// Whether a field of this name may stand in a request itself: what else stands there may be new, and mean anything.
#[must_use]
pub fn is_of_a_request(provider: Provider, key: &str) -> bool {
    let own = match provider {
        Provider::Anthropic => ANTHROPIC,
        Provider::Openai | Provider::OpenaiCodex => OPENAI,
    };
    own.contains(&key)
}

/// Whether the content of an attachment comes with the request, or from the provider's own store, or from an address that
/// stands beside it.
#[must_use]
pub fn is_a_source(kind: &str) -> bool {
    SOURCES.contains(&kind)
}

/// Whether a model of this name searches by itself.
#[must_use]
pub fn searches_by_itself(model: &str) -> bool {
    model.to_ascii_lowercase().contains("-search")
}

fn family(kind: &str) -> Option<&'static str> {
    let is_of = |name: &&&str| kind.strip_prefix(**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    PROVIDERS.iter().find(is_of).copied()
}

/// In lower case, with the two letters beyond ASCII that fold into it.
fn folded(key: &str) -> Cow<'_, str> {
    if key.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(key);
    }
    Cow::Owned(key.to_ascii_lowercase().replace('\u{17f}', "s").replace('\u{212a}', "k"))
}

/// Tools that an agent runs by itself, or that only name other tools of the same request.
const AGENTS: &[&str] = &["custom", "function", "namespace", "local_shell", "apply_patch", "tool_search"];
/// The same, with a date of theirs behind the name.
const AGENTS_VERSIONED: &[&str] = &["bash", "text_editor", "memory", "tool_search_tool_regex", "tool_search_tool_bm25"];
/// Families of tools that the provider runs, each followed by nothing or by `_` and more.
const PROVIDERS: &[&str] = &[
    "web_search",
    "web_fetch",
    "mcp",
    "code_execution",
    "code_interpreter",
    "file_search",
    "computer",
    "image_generation",
    "shell",
];
const SOURCES: &[&str] = &["base64", "text", "content", "url", "file"];

const ALL: &[Provider] = &Provider::ALL;
const A: &[Provider] = &[Provider::Anthropic];
const O: &[Provider] = &[Provider::Openai, Provider::OpenaiCodex];

/// Fields with a meaning, wherever they stand in a request outside of what is opaque.
pub const FIELDS: &[Field] = &[
    Field { key: "type", of: ALL, means: Means::Kind },
    Field { key: "model", of: ALL, means: Means::Model },
    Field { key: "tools", of: ALL, means: Means::Tools },
    Field { key: "url", of: ALL, means: Means::Address },
    Field { key: "image_url", of: ALL, means: Means::Fetched },
    Field { key: "file_url", of: ALL, means: Means::Fetched },
    Field { key: "server_url", of: ALL, means: Means::NeedsAt("mcp") },
    Field { key: "mcp_servers", of: ALL, means: Means::Needs("mcp") },
    Field { key: "connector_id", of: ALL, means: Means::Needs("connector") },
    Field { key: "source", of: A, means: Means::Source },
    Field { key: "container", of: A, means: Means::Needs("code_execution") },
    Field { key: "skills", of: A, means: Means::Needs("code_execution") },
    Field { key: "web_search_options", of: O, means: Means::Needs("web_search") },
    Field { key: "vector_store_ids", of: O, means: Means::Needs("file_search") },
    Field { key: "prompt", of: O, means: Means::Needs("prompt") },
    Field { key: "input_schema", of: A, means: Means::Opaque },
    Field { key: "input", of: A, means: Means::Opaque },
    Field { key: "input_examples", of: A, means: Means::Opaque },
    Field { key: "schema", of: ALL, means: Means::Opaque },
    Field { key: "output_schema", of: ALL, means: Means::Opaque },
    Field { key: "metadata", of: ALL, means: Means::Opaque },
    Field { key: "parameters", of: O, means: Means::Opaque },
    Field { key: "client_metadata", of: O, means: Means::Opaque },
    Field { key: "env", of: O, means: Means::Opaque },
    Field { key: "logit_bias", of: O, means: Means::Opaque },
];

/// Fields of a request to Anthropic's Messages, of its counting of tokens and its batches.
const ANTHROPIC: &[&str] = &[
    "betas",
    "cache_control",
    "context_management",
    "diagnostics",
    "inference_geo",
    "max_tokens",
    "messages",
    "output_config",
    "output_format",
    "requests",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "thread",
    "tool_choice",
    "top_k",
    "top_p",
];

/// Fields of a request to OpenAI's Responses, over WebSocket too, and to its chat completions.
const OPENAI: &[&str] = &[
    "audio",
    "background",
    "context_management",
    "conversation",
    "frequency_penalty",
    "function_call",
    "functions",
    "generate",
    "include",
    "input",
    "instructions",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "max_tool_calls",
    "messages",
    "modalities",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "response",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
    "verbosity",
];

#[cfg(test)]
mod tests {
    use box_spec::Provider;

    use super::{Egress, FIELDS, Tool, field, tool};

    #[test]
    fn the_agents_tools_are_its_own_and_what_is_not_known_is_the_providers() {
        for kind in
            ["custom", "function", "namespace", "bash_20250124", "text_editor_20250728", "memory_20250818", "bash"]
        {
            assert_eq!(tool(kind), Tool::Agents, "{kind}");
        }
        for (kind, name) in [
            ("web_search", "web_search"),
            ("web_search_20250305", "web_search"),
            ("web_search_preview_2025_03_11", "web_search"),
            ("web_fetch_20250910", "web_fetch"),
            ("mcp", "mcp"),
            ("mcp_toolset", "mcp"),
            ("computer_use_preview", "computer"),
            ("computer_20250124", "computer"),
            ("code_execution_20250825", "code_execution"),
            ("bash_code_execution", "bash_code_execution"),
            ("functions", "functions"),
            ("Function", "Function"),
            ("", ""),
        ] {
            assert_eq!(tool(kind), Tool::Providers(name), "{kind}");
        }
        let egress = Egress { tools: vec!["web_search".to_owned(), "new_tool_1".to_owned()], fetch: Vec::new() };
        for (kind, is_let) in
            [("web_search_20250305", true), ("new_tool_1", true), ("new_tool_12", false), ("web_fetch_20250910", false)]
        {
            assert_eq!(egress.lets_tool(kind), is_let, "{kind}");
        }
    }

    #[test]
    fn a_field_is_known_in_every_case_and_each_stands_once() {
        for (key, is_exact) in [("tools", true), ("Tools", false), ("TOOL\u{17f}", false)] {
            assert_eq!(
                field(Provider::Anthropic, key).map(|(_, field, exact)| (field.key, exact)),
                Some(("tools", is_exact))
            );
        }
        assert!(field(Provider::Openai, "input").is_none() && field(Provider::Anthropic, "input").is_some());
        assert!(FIELDS.len() <= 32, "the reader keeps a bit for each");
        for (at, one) in FIELDS.iter().enumerate() {
            assert!(FIELDS[..at].iter().all(|other| other.key != one.key), "{}", one.key);
        }
    }
}
