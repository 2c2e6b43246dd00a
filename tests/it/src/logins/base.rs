//! A host's login in a folder, a house on it, and a provider whose refresh tokens are good once.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use box_spec::Provider;
use harness::files::put_deep;
use harness::raw::Response;
use harness::{Claimed, House, HouseBuilder, Tunnel, until};
use serde_json::{Value, json};
use standin::{Options, Real, Seen, StandIn};

/// Whose login, and where its tokens stand in its file.
pub(super) struct Kind {
    pub(super) agent: &'static str,
    pub(super) provider: Provider,
    file: &'static str,
}

pub(super) const CLAUDE: Kind = Kind { agent: "claude", provider: Provider::Anthropic, file: ".credentials.json" };
pub(super) const CODEX: Kind = Kind { agent: "codex", provider: Provider::OpenaiCodex, file: "auth.json" };
pub(super) const PI: Kind = Kind { agent: "pi", provider: Provider::OpenaiCodex, file: "auth.json" };

/// The login folder and the house beside it.
pub(super) struct Host {
    pub(super) kind: Kind,
    pub(super) standin: StandIn,
    pub(super) house: House,
}

impl Host {
    /// A house with the boxes `one` and `two`, whose login ends in so many seconds; the provider gives `FRESH` for `FIRST`.
    pub(super) fn new(kind: Kind, ends_in: i64) -> Result<Self> {
        let mut host = Self::prepare(kind, ends_in, |house| house)?;
        host.house.start()?;
        Ok(host)
    }

    pub(super) fn prepare(kind: Kind, ends_in: i64, more: impl FnOnce(HouseBuilder) -> HouseBuilder) -> Result<Self> {
        let real = vec![old(&kind, ends_in), fresh(&kind), hosts(&kind)];
        let standin = StandIn::start(Options { real, ..Options::default() })?;
        standin.chain(FIRST, vec![fresh(&kind)]);
        let house = more(builder(&kind, &standin, Path::new("login"))).prepare()?;
        let host = Self { kind, standin, house };
        host.write(&host.text(&old(&host.kind, ends_in), FIRST, ends_in))?;
        Ok(host)
    }

    pub(super) fn file(&self) -> PathBuf {
        self.house.folder().join("login").join(self.kind.file)
    }

    /// As the host's own agent does: by renaming.
    pub(super) fn write(&self, text: &str) -> Result<()> {
        let new = self.file().with_extension("host");
        put_deep(&new, text.as_bytes(), 0o600)?;
        std::fs::rename(&new, self.file()).context("rename the login into its place")
    }

    pub(super) fn read(&self) -> Result<String> {
        std::fs::read_to_string(self.file()).context("read the login")
    }

    /// The file in the agent's own form, with members that are none of our business.
    pub(super) fn text(&self, access: &Real, refresh: &str, ends_in: i64) -> String {
        let (access, expires) = (access.value(), (seconds() + ends_in) * 1000);
        match self.kind.agent {
            "claude" => format!(
                r#"{{"mcpOAuth":{{"n":1.50}},"claudeAiOauth":{{"accessToken":"{access}","refreshToken":"{refresh}","expiresAt":{expires},"scopes":["user:inference","user:profile"],"subscriptionType":"max"}}, "z":1e2}}"#
            ),
            "codex" => format!(
                r#"{{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{{"id_token":"{access}","access_token":"{access}","refresh_token":"{refresh}","account_id":"{ACCOUNT}"}},"last_refresh":"2026-01-01T00:00:00Z", "z":1e2}}"#
            ),
            _ => format!(
                r#"{{"openai":{{"type":"api_key","key":"sk-other"}},"openai-codex":{{"type":"oauth","access":"{access}","refresh":"{refresh}","expires":{expires},"accountId":"{ACCOUNT}"}}, "z":1e2}}"#
            ),
        }
    }

    /// What was asked of the provider's token endpoint.
    pub(super) fn refreshes(&self) -> Vec<Seen> {
        self.standin.seen().into_iter().filter(|seen| seen.path.ends_with("/oauth/token")).collect()
    }

    /// The credentials that model calls carried.
    pub(super) fn carried(&self) -> Vec<String> {
        let bearer = |seen: &Seen| seen.header("authorization").first().map(|value| (*value).to_owned());
        self.standin.model_calls().iter().filter_map(bearer).collect()
    }

    /// One model call of a box whose claim is held.
    pub(super) fn call(&self, id: &str, claimed: &Claimed) -> Result<Response> {
        call(&self.house, id, claimed)
    }

    /// One model call in a run of its own, whose door is free afterwards.
    pub(super) fn once(&self) -> Result<Response> {
        let claimed = Claimed::take(&self.house.door("one"))?;
        let answer = self.call("one", &claimed)?;
        claimed.report()?;
        Ok(answer)
    }

    /// The lines of refreshes, each with the line that closes it.
    pub(super) fn lines(&self) -> Result<Vec<(Value, Value)>> {
        // An answer does not wait for its line.
        until("the refreshes' lines to close", Duration::from_secs(5), || {
            let lines = self.house.ledger().ok()?;
            let closing = |opened: &Value| lines.iter().find(|line| line["of"] == opened["seq"]).cloned();
            let opened = lines.iter().filter(|line| line["kind"] == "refresh" && line["open"] == true);
            opened.map(|line| Some((line.clone(), closing(line)?))).collect()
        })
    }
}

/// A house on this login folder, with a grant for the provider's models at the stand-in.
pub(super) fn builder(kind: &Kind, standin: &StandIn, folder: &Path) -> HouseBuilder {
    let (agent, provider, address) = (kind.agent, kind.provider, standin.address());
    let secret = format!(
        "[[secret]]\nname = \"host\"\nprovider = \"{provider}\"\nkind = \"login\"\nlogin_of = \"{agent}\"\nfolder = \"{}\"\n\
         unsafe_refresh_dial = \"{address}\"\nrefresh_ca = \"ca.pem\"\n",
        folder.display()
    );
    let grant = format!(
        "name = \"model\"\npreset = \"{provider}\"\nsecret = \"host\"\nunsafe_dial = \"{address}\"\nupstream_ca = \"ca.pem\""
    );
    let house = House::builder().agent(agent).add_box("two", "").file("ca.pem", standin.ca_pem().as_bytes());
    house.grant(&grant).extra(&secret)
}

pub(super) fn call(house: &House, id: &str, claimed: &Claimed) -> Result<Response> {
    let host = "api.anthropic.com";
    let tunnel = Tunnel::connect(&house.door(id), claimed.token(), &format!("{host}:443"))?;
    let mut inside = tunnel.tls(&house.ca_pem()?, host)?;
    inside.deadline(Duration::from_secs(40))?;
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"<<text:hello>>"}]}"#;
    let head = format!("POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
    inside.ask(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

pub(super) fn worked(answer: &Response) -> Result<()> {
    ensure!(answer.status == 200 && answer.text().contains("hello"), "{answer:?}");
    Ok(())
}

pub(super) fn bearer(real: &Real) -> String {
    format!("Bearer {}", real.value())
}

/// What the host's file holds at first.
pub(super) fn old(kind: &Kind, ends_in: i64) -> Real {
    made(kind, "OLD-access-token-51aa", ends_in)
}

/// What the provider gives for the first refresh token.
pub(super) fn fresh(kind: &Kind) -> Real {
    made(kind, "FRESH-access-token-52bb", 36_000)
}

/// What the host's own agent was given.
pub(super) fn hosts(kind: &Kind) -> Real {
    made(kind, "HOSTS-access-token-53cc", 36_000)
}

fn made(kind: &Kind, mark: &str, ends_in: i64) -> Real {
    if kind.provider == Provider::Anthropic {
        return Real::Bearer(format!("sk-ant-oat01-{mark}"));
    }
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    let claims =
        json!({ "exp": seconds() + ends_in, "https://api.openai.com/auth": { "chatgpt_account_id": ACCOUNT } });
    let token = format!("{}.{}.{}", part(r#"{"alg":"RS256"}"#.into()), part(claims.to_string()), part(mark.to_owned()));
    Real::Login { token, account: ACCOUNT.to_owned() }
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// The refresh token that the host's file holds at first.
pub(super) const FIRST: &str = "rt-FIRST-refresh-token-50ff";
const ACCOUNT: &str = "b1b2b3b4-1111-4222-8333-44445555aaaa";
pub(super) const SOON: Duration = Duration::from_secs(20);
