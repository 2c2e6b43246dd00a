//! The file as it was written: typed, with the place of every value, and nothing yet believed.

use toml::Spanned;
use toml::de::DeTable;

use super::faults::Faults;
use super::limits::Limits;
use super::reader::{At, Section};

pub(super) type Text = Option<At<String>>;
pub(super) type Texts = Option<At<Vec<At<String>>>>;

#[derive(Debug)]
pub(super) struct RawConfig {
    pub(super) state: Text,
    pub(super) operator_socket: Text,
    pub(super) ledger: RawLedger,
    pub(super) defaults: RawDefaults,
    pub(super) dial: RawDial,
    pub(super) limits: Limits,
    pub(super) boxes: Vec<RawBox>,
    pub(super) secrets: Vec<RawSecret>,
    pub(super) grants: Vec<RawGrant>,
}

#[derive(Debug, Default)]
pub(super) struct RawLedger {
    pub(super) file: Text,
    pub(super) sync: Text,
    pub(super) deadline: Text,
}

#[derive(Debug, Default)]
pub(super) struct RawDefaults {
    pub(super) agent: Text,
    pub(super) ceiling: Text,
}

#[derive(Debug, Default)]
pub(super) struct RawDial {
    pub(super) nameservers: Texts,
    pub(super) connect_timeout: Text,
}

#[derive(Debug)]
pub(super) struct RawBox {
    pub(super) id: Text,
    pub(super) door: RawDoor,
    pub(super) agent: Text,
    pub(super) ceiling: Text,
    pub(super) unsafe_open_network: Option<At<bool>>,
    pub(super) unsafe_unhardened: Option<At<bool>>,
    pub(super) unsafe_secrets_in_box: Option<At<bool>>,
}

/// The keys of a box that say how it reaches the house.
#[derive(Debug)]
pub(super) struct RawDoor {
    pub(super) socket: Text,
    pub(super) listen: Text,
    pub(super) key_file: Text,
    pub(super) house_file: Text,
    pub(super) unsafe_loopback: Option<At<bool>>,
}

#[derive(Debug)]
pub(super) struct RawSecret {
    pub(super) name: Text,
    pub(super) provider: Text,
    pub(super) kind: Text,
    pub(super) account_id: Text,
    pub(super) sending: RawSending,
    pub(super) expose: Texts,
    pub(super) env: Text,
    pub(super) file: Text,
    pub(super) expires: Text,
    pub(super) login: RawLogin,
}

/// The keys that say how a service's secret is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct RawSending {
    pub(super) header: Text,
    pub(super) scheme: Text,
    pub(super) username: Text,
    pub(super) prefix: Text,
}

/// The keys of a secret that is a login of the host.
#[derive(Debug)]
pub(super) struct RawLogin {
    pub(super) folder: Text,
    pub(super) login_of: Text,
    pub(super) unsafe_refresh_dial: Text,
    pub(super) refresh_ca: Text,
}

#[derive(Clone, Debug)]
pub(super) struct RawGrant {
    pub(super) name: Text,
    pub(super) preset: Text,
    pub(super) deny: Option<At<bool>>,
    pub(super) observe: Option<At<bool>>,
    pub(super) secret: Text,
    pub(super) sending: RawSending,
    pub(super) matches: RawMatch,
    pub(super) websocket: Option<At<bool>>,
    pub(super) websocket_paths: Texts,
    pub(super) egress: RawEgress,
    pub(super) max_body: Option<At<u64>>,
    pub(super) upstream_ca: Text,
    pub(super) unsafe_dial: Text,
    pub(super) unsafe_keep_credentials: Option<At<bool>>,
    pub(super) unsafe_secret_hosts: Option<At<bool>>,
}

/// The keys of a grant that say what may stand in a body.
#[derive(Clone, Debug)]
pub(super) struct RawEgress {
    pub(super) provider_tools: Texts,
    pub(super) provider_fetch: Texts,
    pub(super) mcp_methods: Texts,
    pub(super) mcp_tools: Texts,
}

/// The keys of a grant that say what it is for.
#[derive(Clone, Debug)]
pub(super) struct RawMatch {
    pub(super) boxes: Texts,
    pub(super) hosts: Texts,
    pub(super) ports: Option<At<Vec<At<u64>>>>,
    pub(super) methods: Texts,
    pub(super) paths: Texts,
    pub(super) query: Texts,
    pub(super) headers: Texts,
    pub(super) plain: Option<At<bool>>,
}

/// Reads all that has the right type; the rest are faults.
pub(super) fn read(table: &Spanned<DeTable<'_>>, faults: &mut Faults) -> RawConfig {
    let mut root = Section::new("the file", table.get_ref(), table.span());
    root.need(&["state"], faults);
    let raw = RawConfig {
        state: root.text("state", faults),
        operator_socket: root
            .section("operator", "[operator]", faults)
            .and_then(|operator| read_operator(operator, faults)),
        ledger: root
            .section("ledger", "[ledger]", faults)
            .map(|ledger| read_ledger(ledger, faults))
            .unwrap_or_default(),
        defaults: root
            .section("defaults", "[defaults]", faults)
            .map(|defaults| read_defaults(defaults, faults))
            .unwrap_or_default(),
        dial: root.section("dial", "[dial]", faults).map(|dial| read_dial(dial, faults)).unwrap_or_default(),
        limits: root
            .section("limits", "[limits]", faults)
            .map(|limits| Limits::read(limits, faults))
            .unwrap_or_default(),
        boxes: root.sections("box", "[[box]]", faults).into_iter().map(|one| read_box(one, faults)).collect(),
        secrets: root
            .sections("secret", "[[secret]]", faults)
            .into_iter()
            .map(|one| read_secret(one, faults))
            .collect(),
        grants: grants(&mut root, faults),
    };
    root.finish(faults);
    raw
}

/// Reads a file that holds grants alone.
pub(super) fn read_grants(table: &Spanned<DeTable<'_>>, faults: &mut Faults) -> Vec<RawGrant> {
    let mut root = Section::new("the file", table.get_ref(), table.span());
    let grants = grants(&mut root, faults);
    root.finish(faults);
    grants
}

fn grants(root: &mut Section<'_>, faults: &mut Faults) -> Vec<RawGrant> {
    root.sections("grant", "[[grant]]", faults).into_iter().map(|one| read_grant(one, faults)).collect()
}

fn read_operator(mut section: Section<'_>, faults: &mut Faults) -> Text {
    let socket = section.text("socket", faults);
    section.finish(faults);
    socket
}

fn read_ledger(mut section: Section<'_>, faults: &mut Faults) -> RawLedger {
    let raw = RawLedger {
        file: section.text("file", faults),
        sync: section.text("sync", faults),
        deadline: section.text("deadline", faults),
    };
    section.finish(faults);
    raw
}

fn read_defaults(mut section: Section<'_>, faults: &mut Faults) -> RawDefaults {
    let raw = RawDefaults { agent: section.text("agent", faults), ceiling: section.text("ceiling", faults) };
    section.finish(faults);
    raw
}

fn read_dial(mut section: Section<'_>, faults: &mut Faults) -> RawDial {
    let raw = RawDial {
        nameservers: section.texts("nameservers", faults),
        connect_timeout: section.text("connect_timeout", faults),
    };
    section.finish(faults);
    raw
}

fn read_box(mut section: Section<'_>, faults: &mut Faults) -> RawBox {
    section.need(&["id"], faults);
    section.need(&["door", "listen"], faults);
    let raw = RawBox {
        id: section.text("id", faults),
        door: RawDoor {
            socket: section.text("door", faults),
            listen: section.text("listen", faults),
            key_file: section.text("key_file", faults),
            house_file: section.text("house_file", faults),
            unsafe_loopback: section.flag("unsafe_loopback", faults),
        },
        agent: section.text("agent", faults),
        ceiling: section.text("ceiling", faults),
        unsafe_open_network: section.flag("unsafe_open_network", faults),
        unsafe_unhardened: section.flag("unsafe_unhardened", faults),
        unsafe_secrets_in_box: section.flag("unsafe_secrets_in_box", faults),
    };
    section.finish(faults);
    raw
}

fn read_secret(mut section: Section<'_>, faults: &mut Faults) -> RawSecret {
    section.need(&["name"], faults);
    section.need(&["env", "file", "folder"], faults);
    let raw = RawSecret {
        name: section.text("name", faults),
        provider: section.text("provider", faults),
        kind: section.text("kind", faults),
        account_id: section.text("account_id", faults),
        sending: read_sending(&mut section, faults),
        expose: section.texts("expose", faults),
        env: section.text("env", faults),
        file: section.text("file", faults),
        expires: section.text("expires", faults),
        login: RawLogin {
            folder: section.text("folder", faults),
            login_of: section.text("login_of", faults),
            unsafe_refresh_dial: section.text("unsafe_refresh_dial", faults),
            refresh_ca: section.text("refresh_ca", faults),
        },
    };
    section.finish(faults);
    raw
}

fn read_sending(section: &mut Section<'_>, faults: &mut Faults) -> RawSending {
    RawSending {
        header: section.text("header", faults),
        scheme: section.text("scheme", faults),
        username: section.text("username", faults),
        prefix: section.text("prefix", faults),
    }
}

fn read_grant(mut section: Section<'_>, faults: &mut Faults) -> RawGrant {
    section.need(&["name"], faults);
    section.need(&["hosts", "preset"], faults);
    let raw = RawGrant {
        name: section.text("name", faults),
        preset: section.text("preset", faults),
        matches: RawMatch {
            boxes: section.texts("boxes", faults),
            hosts: section.texts("hosts", faults),
            ports: section.numbers("ports", faults),
            methods: section.texts("methods", faults),
            paths: section.texts("paths", faults),
            query: section.texts_or_none("query", faults),
            headers: section.texts("headers", faults),
            plain: section.flag("plain", faults),
        },
        deny: section.flag("deny", faults),
        observe: section.flag("observe", faults),
        secret: section.text("secret", faults),
        sending: read_sending(&mut section, faults),
        websocket: section.flag("websocket", faults),
        websocket_paths: section.texts("websocket_paths", faults),
        egress: RawEgress {
            provider_tools: section.texts("provider_tools", faults),
            provider_fetch: section.texts("provider_fetch", faults),
            mcp_methods: section.texts("mcp_methods", faults),
            mcp_tools: section.texts("mcp_tools", faults),
        },
        max_body: section.number("max_body", faults),
        upstream_ca: section.text("upstream_ca", faults),
        unsafe_dial: section.text("unsafe_dial", faults),
        unsafe_keep_credentials: section.flag("unsafe_keep_credentials", faults),
        unsafe_secret_hosts: section.flag("unsafe_secret_hosts", faults),
    };
    section.finish(faults);
    raw
}
