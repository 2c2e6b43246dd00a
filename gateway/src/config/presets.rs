//! Presets: grants that the house knows by a name. Each is a file like a user's, read by the same reader; a grant that names one
//! becomes all of its parts, each with what the grant says besides.

use std::sync::LazyLock;

use box_spec::Provider;
use toml::de::DeTable;

use crate::host::Host;
use crate::policy::providers;

use super::faults::{Faults, Span};
use super::raw::{self, RawGrant, RawMatch, RawSending, Text, Texts};
use super::reader::At;
use super::sending;

/// Grants under one name.
pub struct Preset {
    pub name: &'static str,
    /// What a user could write instead; every `secret` in it stands for one of the user's.
    text: &'static str,
    parts: Vec<RawGrant>,
    /// Whose models they are, where they are models.
    pub(super) provider: Option<Provider>,
}

/// Every preset, in the order in which they are listed.
#[must_use]
pub fn all() -> &'static [Preset] {
    &PRESETS
}

/// The preset of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Preset> {
    let name = if name == "chatgpt" { "openai-codex" } else { name };
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    fn read(name: &'static str, text: &'static str) -> Self {
        let mut faults = Faults::default();
        let table = DeTable::parse(text).unwrap_or_else(|error| panic!("preset {name}: {error}"));
        let parts = raw::read_grants(&table, &mut faults);
        assert!(faults.is_empty(), "preset {name}: {faults:?}");
        let hosts = parts.first().and_then(|part| part.matches.hosts.as_ref());
        let host = hosts.and_then(|hosts| hosts.value.first()).and_then(|host| Host::parse(&host.value).ok());
        Self { name, text, parts, provider: host.as_ref().and_then(providers::model_host) }
    }

    /// What it is, in a sentence or two: the first lines of its file.
    #[must_use]
    pub fn about(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix("# "));
        lines.collect::<Vec<_>>().join(" ")
    }

    /// Its grants as a user would write them, with this secret of theirs, or with none.
    #[must_use]
    pub fn shown(&self, secret: Option<&str>) -> String {
        let mut out = String::new();
        for line in self.text.lines() {
            let (key, _) = line.split_once(" = ").unwrap_or((line, ""));
            let is_secrets = matches!(key, "secret" | "scheme" | "username" | "header" | "prefix");
            match secret {
                Some(name) if key == "secret" => {
                    out.push_str(&format!("secret = {}", toml::Value::String(name.to_owned())));
                }
                None if is_secrets => out.push_str(&format!("# {line}")),
                Some(_) | None => out.push_str(line),
            }
            out.push('\n');
        }
        out
    }

    /// Whether some part of it takes a secret.
    #[must_use]
    pub fn takes_secret(&self) -> bool {
        self.parts.iter().any(|part| part.secret.is_some())
    }

    fn has_one_set_of_hosts(&self) -> bool {
        let [first, rest @ ..] = &self.parts[..] else { return true };
        let hosts = values(first.matches.hosts.as_ref());
        rest.iter().all(|part| values(part.matches.hosts.as_ref()) == hosts)
    }

    /// What may not stand beside it.
    fn check(&self, grant: &RawGrant, faults: &mut Faults) {
        let name = self.name;
        if let Some(deny) = grant.deny.as_ref().filter(|deny| deny.value) {
            faults.add(
                deny.span.clone(),
                format!("`deny` beside the preset {name}, which lets through: write out what is denied"),
            );
        }
        if let Some(secret) = grant.secret.as_ref().filter(|_| !self.takes_secret()) {
            faults.add(
                secret.span.clone(),
                format!("the preset {name} takes no `secret`: whoever wants one writes the grants out, `gateway presets show {name}` prints them"),
            );
        }
        if self.parts.len() == 1 {
            return;
        }
        let RawMatch { boxes: _, hosts, ports, methods, paths, query, headers, plain } = &grant.matches;
        let mut stray: Vec<(&str, Span)> = sending::given(&grant.sending).collect();
        let sockets = &grant.websocket_paths;
        let lists = [
            ("methods", methods),
            ("paths", paths),
            ("query", query),
            ("headers", headers),
            ("websocket_paths", sockets),
        ];
        stray.extend(lists.into_iter().filter_map(|(key, at)| Some((key, at.as_ref()?.span.clone()))));
        stray.extend(ports.as_ref().map(|at| ("ports", at.span.clone())));
        stray.extend(plain.as_ref().map(|at| ("plain", at.span.clone())));
        stray.extend(hosts.as_ref().filter(|_| !self.has_one_set_of_hosts()).map(|at| ("hosts", at.span.clone())));
        for (key, span) in stray {
            faults.add(
                span,
                format!("`{key}` beside the preset {name}, which is {} grants: write them out, `gateway presets show {name}` prints them", self.parts.len()),
            );
        }
    }
}

/// A grant as it was written, or one for each part of its preset; and the preset, whose place is that of its name.
pub(super) fn expand(grant: RawGrant, faults: &mut Faults) -> (Vec<RawGrant>, Option<At<&'static Preset>>) {
    let Some(name) = &grant.preset else { return (vec![grant], None) };
    let span = name.span.clone();
    let Some(preset) = named(&name.value) else {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        faults.add(span, format!("unknown preset: known are {}", known.join(", ")));
        return (vec![grant], None);
    };
    preset.check(&grant, faults);
    let parts = preset.parts.iter().map(|part| merged(&grant, preset, part, &span));
    (parts.collect(), Some(At { value: preset, span }))
}

/// What the grant says, and where it says nothing, what the part does. All that comes from the part stands where the preset is
/// named.
fn merged(grant: &RawGrant, preset: &Preset, part: &RawGrant, span: &Span) -> RawGrant {
    if part.deny.as_ref().is_some_and(|deny| deny.value) {
        // It lets nothing through: of the file it takes for whom it is, and whether it is only tried out.
        let matches = RawMatch { boxes: grant.matches.boxes.clone(), ..part.matches.clone() };
        return RawGrant { matches, observe: grant.observe.clone().or_else(|| part.observe.clone()), ..part.clone() };
    }
    let is_one = preset.parts.len() == 1;
    let texts = |given: &Texts, own: &Texts| given.clone().or_else(|| own.as_ref().map(|own| moved(own, span)));
    let secret = grant.secret.clone().filter(|_| part.secret.is_some());
    let own_sending = secret.is_some() && sending::given(&grant.sending).next().is_none();
    let text = |own: &Text| own.as_ref().map(|own| At { value: own.value.clone(), span: span.clone() });
    let RawSending { header, scheme, username, prefix } = &part.sending;
    let RawMatch { boxes, hosts, ports, methods, paths, query, headers, plain } = grant.matches.clone();
    let own = &part.matches;
    // Where the file gives other paths, any of them, each alone, may be a WebSocket's; other methods are all that is wanted.
    let sockets = match (&grant.websocket_paths, &part.websocket_paths) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(own)) if methods.is_none() => paths.clone().or_else(|| Some(moved(own, span))),
        (None, Some(_) | None) => None,
    };
    RawGrant {
        name: part.name.clone().filter(|_| !is_one),
        preset: None,
        observe: grant.observe.clone().or_else(|| part.observe.clone()),
        secret: secret.clone(),
        sending: if own_sending {
            RawSending { header: text(header), scheme: text(scheme), username: text(username), prefix: text(prefix) }
        } else if is_one {
            grant.sending.clone()
        } else {
            RawSending::default()
        },
        matches: RawMatch {
            boxes,
            hosts: texts(&hosts, &own.hosts),
            ports,
            methods: texts(&methods, &own.methods),
            paths: texts(&paths, &own.paths),
            query: texts(&query, &own.query),
            headers: texts(&headers, &own.headers),
            plain: plain
                .filter(|_| is_one)
                .or_else(|| own.plain.as_ref().map(|own| At { value: own.value, span: span.clone() })),
        },
        websocket_paths: sockets,
        max_body: grant
            .max_body
            .clone()
            .or_else(|| part.max_body.as_ref().map(|own| At { value: own.value, span: span.clone() })),
        unsafe_secret_hosts: grant.unsafe_secret_hosts.clone().filter(|_| secret.is_some() || !preset.takes_secret()),
        ..grant.clone()
    }
}

fn moved(texts: &At<Vec<At<String>>>, span: &Span) -> At<Vec<At<String>>> {
    let value = texts.value.iter().map(|text| At { value: text.value.clone(), span: span.clone() }).collect();
    At { value, span: span.clone() }
}

fn values(texts: Option<&At<Vec<At<String>>>>) -> Vec<&str> {
    texts.map(|texts| texts.value.iter().map(|text| text.value.as_str()).collect()).unwrap_or_default()
}

static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    let files = [
        ("anthropic", include_str!("presets/anthropic.toml")),
        ("openai", include_str!("presets/openai.toml")),
        ("openai-codex", include_str!("presets/openai-codex.toml")),
        ("github", include_str!("presets/github.toml")),
        ("gitlab", include_str!("presets/gitlab.toml")),
        ("npm", include_str!("presets/npm.toml")),
        ("pypi", include_str!("presets/pypi.toml")),
        ("cargo", include_str!("presets/cargo.toml")),
        ("go", include_str!("presets/go.toml")),
        ("debian", include_str!("presets/debian.toml")),
        ("huggingface", include_str!("presets/huggingface.toml")),
    ];
    files.map(|(name, text)| Preset::read(name, text)).into()
});

#[cfg(test)]
mod tests {
    use super::super::faults::Faults;
    use super::super::raw;
    use super::{Preset, RawGrant, merged};

    fn grants(text: &str) -> Vec<RawGrant> {
        let mut faults = Faults::default();
        let grants = raw::read_grants(&toml::de::DeTable::parse(text).expect("TOML"), &mut faults);
        assert!(faults.is_empty(), "{faults:?}");
        grants
    }

    #[test]
    fn each_key_of_a_part_is_the_grants_where_it_says_nothing_else() {
        let preset = Preset::read("p", PARTS);
        let named = grants(
            "[[grant]]\nname = \"mine\"\npreset = \"p\"\nboxes = \"one\"\nunsafe_dial = \"127.0.0.1:1\"\nmax_body = 7\nobserve = true\n",
        );
        let parts: Vec<RawGrant> = preset.parts.iter().map(|part| merged(&named[0], &preset, part, &(0..0))).collect();
        let [open, denied] = &parts[..] else { panic!("two parts") };
        assert_eq!(open.matches.query.as_ref().map(|keys| keys.value[0].value.as_str()), Some("page"));
        assert_eq!(open.matches.headers.as_ref().map(|names| names.value[0].value.as_str()), Some("x-own"));
        assert_eq!(open.max_body.as_ref().map(|most| most.value), Some(7), "what the file says comes first");
        assert!(open.deny.is_none() && open.unsafe_dial.is_some());
        // A denial stays one, and for the same boxes.
        assert!(denied.deny.as_ref().is_some_and(|deny| deny.value) && denied.unsafe_dial.is_none());
        assert!(denied.max_body.is_none() && denied.matches.boxes.is_some() && denied.matches.hosts.is_some());
        assert!(parts.iter().all(|part| part.observe.as_ref().is_some_and(|observe| observe.value)));
    }

    const PARTS: &str = "[[grant]]\nname = \"open\"\nhosts = \"a.test\"\nquery = \"page\"\nheaders = \"x-own\"\nmax_body = 9\n\
        [[grant]]\nname = \"closed\"\ndeny = true\nhosts = \"a.test\"\npaths = \"/admin\"\n";
}
