//! What a house is to be: boxes, secrets, grants, limits; written as a configuration in a folder of its own.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use box_spec::{Agent, Provider};
use standin::{Real, StandIn};

use super::House;
use crate::files::{give, put, put_deep};

/// What a house is to be.
///
/// # Defaults
///
/// One box `one` with claude, no secret, no grant, a ceiling of two minutes, WebSockets as the gateway has them by itself.
pub struct HouseBuilder {
    boxes: Vec<(String, String)>,
    agent: String,
    secrets: Vec<(Provider, Real)>,
    grants: Vec<Grant>,
    websocket: Option<bool>,
    of_models: String,
    ceiling: String,
    extra: String,
    ledger: String,
    env: Vec<(String, String)>,
    files: Vec<(String, Vec<u8>)>,
    user: Option<u32>,
    in_memory: bool,
}

/// The lines of one grant, and the provider whose models it opens.
struct Grant {
    lines: String,
    serves: Option<Provider>,
}

impl Default for HouseBuilder {
    fn default() -> Self {
        Self {
            boxes: vec![("one".into(), String::new())],
            agent: Agent::Claude.as_str().into(),
            secrets: Vec::new(),
            grants: Vec::new(),
            websocket: None,
            of_models: String::new(),
            ceiling: "2m".into(),
            extra: String::new(),
            ledger: String::new(),
            env: Vec::new(),
            files: Vec::new(),
            user: None,
            in_memory: false,
        }
    }
}

impl HouseBuilder {
    /// Grants Anthropic's models at the stand-in, with the secret; the grant is named `model`.
    #[must_use]
    pub fn model_at(self, standin: &StandIn, secret: Real) -> Self {
        self.model("model", standin, Provider::Anthropic, secret)
    }

    /// Grants a provider's models at the stand-in, with the secret; the grant is named `model-<provider>`. Once per provider.
    #[must_use]
    pub fn serve(self, standin: &StandIn, provider: Provider, secret: Real) -> Self {
        self.model(&format!("model-{provider}"), standin, provider, secret)
    }

    fn model(self, name: &str, standin: &StandIn, provider: Provider, secret: Real) -> Self {
        let (address, ca) = (standin.address(), format!("standin-{provider}-ca.pem"));
        let lines = format!(
            "name = \"{name}\"\npreset = \"{provider}\"\nsecret = \"{provider}\"\nunsafe_dial = \"{address}\"\nupstream_ca = \"{ca}\""
        );
        let mut house = self.file(&ca, standin.ca_pem().as_bytes()).secret_for(provider, secret);
        house.grants.push(Grant { lines, serves: Some(provider) });
        house
    }

    /// Whether the served grants of providers that speak WebSocket allow it.
    #[must_use]
    pub const fn websocket(mut self, allowed: bool) -> Self {
        self.websocket = Some(allowed);
        self
    }

    /// More lines for each served grant.
    #[must_use]
    pub fn of_models(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.of_models);
        self
    }

    /// The agent of `[defaults]`.
    #[must_use]
    pub fn agent(mut self, name: &str) -> Self {
        name.clone_into(&mut self.agent);
        self
    }

    /// Anthropic's real credential, named `anthropic`, read from a file.
    #[must_use]
    pub fn secret(self, secret: Real) -> Self {
        self.secret_for(Provider::Anthropic, secret)
    }

    /// A provider's real credential, named like the provider, read from a file; replaces an earlier one.
    #[must_use]
    pub fn secret_for(mut self, provider: Provider, secret: Real) -> Self {
        self.secrets.retain(|(other, _)| *other != provider);
        self.secrets.push((provider, secret));
        self
    }

    /// The lines of one more grant; the first that matches wins.
    #[must_use]
    pub fn grant(mut self, lines: &str) -> Self {
        self.grants.push(Grant { lines: lines.to_owned(), serves: None });
        self
    }

    /// One more box, with lines of its own beside `id` and `door`.
    #[must_use]
    pub fn add_box(mut self, id: &str, lines: &str) -> Self {
        self.boxes.push((id.to_owned(), lines.to_owned()));
        self
    }

    /// Boxes so far may have a network of their own, as one that is not isolated has here.
    #[must_use]
    pub fn open_network(mut self) -> Self {
        for (_, lines) in &mut self.boxes {
            lines.push_str("unsafe_open_network = true\n");
        }
        self
    }

    /// One more line for each box so far.
    #[must_use]
    pub fn box_line(mut self, line: &str) -> Self {
        for (_, lines) in &mut self.boxes {
            lines.push_str(line);
            lines.push('\n');
        }
        self
    }

    /// No box but those added from here on.
    #[must_use]
    pub fn no_boxes(mut self) -> Self {
        self.boxes.clear();
        self
    }

    #[must_use]
    pub fn ceiling(mut self, duration: &str) -> Self {
        duration.clone_into(&mut self.ceiling);
        self
    }

    /// Lines of the `[ledger]` table.
    #[must_use]
    pub fn ledger(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.ledger);
        self
    }

    /// More text for the end of the configuration, tables and all.
    #[must_use]
    pub fn extra(mut self, text: &str) -> Self {
        self.extra.push_str(text);
        self
    }

    /// A variable of the gateway's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The gateway runs as this ordinary user, who owns all of the house.
    #[must_use]
    pub fn as_user(mut self, uid: u32) -> Self {
        self.user = Some(uid);
        self
    }

    /// Its state lies in memory, for cases that time something else than the disk.
    #[must_use]
    pub const fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// A file beside the configuration.
    #[must_use]
    pub fn file(mut self, name: &str, bytes: &[u8]) -> Self {
        self.files.push((name.to_owned(), bytes.to_vec()));
        self
    }

    /// Starts it and waits until its doors answer.
    ///
    /// # Errors
    ///
    /// When it does not get ready; tells what the gateway said.
    pub fn start(self) -> Result<House> {
        let mut house = self.prepare()?;
        house.start()?;
        Ok(house)
    }

    /// Writes all files and starts nothing.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn prepare(self) -> Result<House> {
        let memory = Path::new("/dev/shm");
        let place = if self.in_memory && memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("house-").tempdir_in(place).context("make the house's folder")?;
        for (name, bytes) in &self.files {
            put_deep(&folder.path().join(name), bytes, 0o600)?;
        }
        for (provider, secret) in &self.secrets {
            put(&folder.path().join(secret_file(*provider)), secret.value().as_bytes(), 0o600)?;
        }
        for (id, _) in &self.boxes {
            std::fs::create_dir(folder.path().join(id)).context("make a door's folder")?;
        }
        put(&folder.path().join("house.toml"), self.text(folder.path()).as_bytes(), 0o600)?;
        if let Some(uid) = self.user {
            give(folder.path(), uid)?;
        }
        let boxes = self.boxes.into_iter().map(|(id, _)| id).collect();
        Ok(House { folder, boxes, running: None, env: self.env, user: self.user, said: String::new() })
    }

    fn text(&self, folder: &Path) -> String {
        let mut text = format!(
            "state = \"state\"\n[defaults]\nagent = \"{}\"\nceiling = \"{}\"\n[ledger]\n{}\n",
            self.agent, self.ceiling, self.ledger
        );
        for (id, lines) in &self.boxes {
            let door = folder.join(id).join("door.sock");
            let _infallible = write!(text, "[[box]]\nid = \"{id}\"\ndoor = \"{}\"\n{lines}\n", door.display());
        }
        for (provider, secret) in &self.secrets {
            text += &secret_lines(*provider, secret);
        }
        for grant in &self.grants {
            let _infallible = write!(text, "\n[[grant]]\n{}\n", grant.lines);
            let speaks = grant.serves.is_some_and(|provider| provider != Provider::Anthropic);
            if let Some(allowed) = self.websocket.filter(|_| speaks) {
                let _infallible = writeln!(text, "websocket = {allowed}");
            }
            if grant.serves.is_some() {
                text += &self.of_models;
            }
        }
        text + &self.extra
    }
}

/// The file beside the configuration that holds a provider's real credential.
pub(super) fn secret_file(provider: Provider) -> String {
    match provider {
        Provider::Anthropic => "secret".to_owned(),
        Provider::Openai | Provider::OpenaiCodex => format!("secret-{provider}"),
    }
}

fn secret_lines(provider: Provider, secret: &Real) -> String {
    let kind = match secret {
        Real::Bearer(_) | Real::Login { .. } => "login",
        Real::ApiKey(_) => "api-key",
    };
    let file = secret_file(provider);
    let account = secret.account().map(|account| format!("account_id = \"{account}\"\n")).unwrap_or_default();
    format!(
        "[[secret]]\nname = \"{provider}\"\nprovider = \"{provider}\"\nkind = \"{kind}\"\nfile = \"{file}\"\n{account}"
    )
}
