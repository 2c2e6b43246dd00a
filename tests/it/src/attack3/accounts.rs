//! Accounts: a ChatGPT login under an operator's hands and a box's, where a grant is as wide as it can be.

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use box_spec::Provider;
use harness::raw::Response;
use harness::{Case, Claimed, House, Tunnel, case, secrets};
use standin::{Fault, Options, Real, Rule, StandIn};

use super::GATEWAY;

pub(crate) const CASES: &[Case] = &[
    case("attack3::no_spelling_of_a_token_route_leaves_the_house", token_routes).needs(GATEWAY),
    case("attack3::a_preset_reads_nothing_that_the_account_has_stored", stored).needs(GATEWAY),
    case("attack3::a_login_that_is_replaced_while_it_is_used_takes_its_account_along", replaced).needs(GATEWAY),
    case("attack3::a_box_without_a_login_refreshes_none", without).needs(GATEWAY),
    case("attack3::an_odd_token_is_used_or_told_and_never_shown", odd_tokens).needs(GATEWAY),
];

/// A house with a ChatGPT login, and one grant of all that OpenAI's hosts have.
struct Wide {
    standin: StandIn,
    house: House,
    claimed: Claimed,
}

impl Wide {
    fn start(token: &str) -> Result<Self> {
        let standin = StandIn::start(Options { names: HOSTS.map(str::to_owned).to_vec(), ..Options::default() })?;
        let fine = Fault::Status { status: 200, headers: Vec::new(), body: b"fine".to_vec() };
        standin.rules(vec![Rule::new("", fine)]);
        let hosts = HOSTS.map(|host| format!("{host:?}")).join(", ");
        let grant = format!(
            "name = \"wide\"\nhosts = [{hosts}]\nports = [443, 8443]\nsecret = \"chatgpt\"\nunsafe_secret_hosts = true\nwebsocket = true\nunsafe_dial = \"{}\"\nupstream_ca = \"ca.pem\"",
            standin.address()
        );
        let house = House::builder()
            .agent("pi")
            .secret(Real::ApiKey("sk-ant-api03-REAL-of-another-provider".into()))
            .file("ca.pem", standin.ca_pem().as_bytes())
            .file("chatgpt", token.as_bytes())
            .extra(
                "\n[[secret]]\nname = \"chatgpt\"\nprovider = \"openai-codex\"\nkind = \"login\"\nfile = \"chatgpt\"\n",
            )
            .grant(&grant)
            .add_box("two", "agent = \"claude\"\n")
            .start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        Ok(Self { standin, house, claimed })
    }

    fn ask(&self, target: &str, first: &str, headers: &str) -> Result<Response> {
        self.ask_of("one", &self.claimed, target, first, headers)
    }

    fn ask_of(&self, id: &str, claimed: &Claimed, target: &str, first: &str, headers: &str) -> Result<Response> {
        let (host, port) = target.split_once(':').unwrap_or((target, "443"));
        let name = host.to_ascii_lowercase();
        let inside = Tunnel::connect(&self.house.door(id), claimed.token(), &format!("{host}:{port}"))?;
        let request = format!("{first} HTTP/1.1\r\nHost: {name}:{port}\r\n{headers}\r\n");
        inside.tls(&self.house.ca_pem()?, name.trim_end_matches('.'))?.ask(request.as_bytes())
    }

    /// The accounts that the next model request goes out for, or why it does not go out.
    fn account(&self) -> Result<Vec<String>> {
        self.standin.forget();
        let headers = "chatgpt-account-id: mine\r\nchatgpt_account_id: mine\r\nCookie: _account=mine\r\n";
        let answer = self.ask("chatgpt.com", MODEL, headers)?;
        let seen = self.standin.seen();
        ensure!((answer.status == 200) == (seen.len() == 1), "{answer:?}");
        if let Some(reason) = answer.reason() {
            return Ok(vec![reason.to_owned()]);
        }
        ensure!(!secrets::in_bytes(&seen[0].head, &["mine"]), "{:?}", seen[0]);
        Ok(seen[0].header("chatgpt-account-id").iter().map(ToString::to_string).collect())
    }

    /// None of these is in what the house says or writes.
    fn tells_none_of(&self, tokens: &[&str]) -> Result<()> {
        let ledger = std::fs::read(self.house.ledger_file())?;
        let check = self.house.gateway(&["check"])?;
        let told = [self.house.said(), self.house.status()?.to_string(), check.text(), check.stderr];
        let all = [told.join("\n").into_bytes(), ledger].concat();
        ensure!(!secrets::in_bytes(&all, tokens), "a token is told");
        Ok(())
    }
}

fn token_routes() -> Result<()> {
    let wide = Wide::start(Real::chatgpt("acc-1", "first").value())?;
    for path in [
        "/oauth/token",
        "/oauth/token/",
        "//oauth/token",
        "/oauth//token",
        "/oauth/./token",
        "/oauth/token/.",
        "/oauth/token/x/..",
        "/oauth/token;x",
        "/oauth/token%2f",
        "/oauth/toke%6e",
        "/oauth/token%20",
        "/oauth/token.json",
        "/OAuth/Token",
        "/x/..;/oauth/token",
        "/oauth\\token",
        "/oauth/token?x=y",
        "/api/accounts/oauth/token/",
    ] {
        for method in ["POST", "post", "GET", "PUT", "OPTIONS"] {
            for target in ["auth.openai.com", "auth.openai.com:8443", "AUTH.OpenAI.com.", "chatgpt.com"] {
                let answer = wide.ask(target, &format!("{method} {path}"), "")?;
                let is_refresh = method == "POST" && answer.status == 200;
                ensure!(
                    is_refresh || answer.reason() == Some("durable-credential"),
                    "{method} {target} {path}: {answer:?}"
                );
            }
        }
    }
    ensure!(wide.standin.connections().is_empty(), "something was dialled");
    Ok(())
}

/// A GET of a model route lists or shows what others have asked with the same credential.
fn stored() -> Result<()> {
    let login = Real::chatgpt("acc-1", "first");
    let standin = StandIn::start(Options { names: HOSTS.map(str::to_owned).to_vec(), ..Options::default() })?;
    let key = Real::ApiKey("sk-proj-REAL-that-others-use-too".into());
    let house = House::builder().agent("pi").serve(&standin, Provider::Openai, key);
    let house = house.serve(&standin, Provider::OpenaiCodex, login).start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let asks = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (host, path, asking) in [
        ("api.openai.com", "/v1/chat/completions", ""),
        ("api.openai.com", "/v1/chat/completions", asks),
        ("api.openai.com", "/v1/chat/completions/chatcmpl-1/messages", asks),
        ("api.openai.com", "/v1/responses", ""),
        ("api.openai.com", "/v1/responses/resp_1", ""),
        ("api.openai.com", "/v1/responses/resp_1/input_items", asks),
        ("chatgpt.com", "/backend-api/codex/responses", ""),
        ("chatgpt.com", "/backend-api/codex/responses/resp_1", asks),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{asking}\r\n");
        let tunnel = Tunnel::connect(&house.door("one"), claimed.token(), &format!("{host}:443"))?;
        let answer = tunnel.tls(&house.ca_pem()?, host)?.ask(request.as_bytes())?;
        ensure!(answer.status == 400 && answer.reason() == Some("no-grant"), "{host}{path}: {answer:?}");
    }
    ensure!(standin.connections().is_empty(), "something was dialled");
    Ok(())
}

fn replaced() -> Result<()> {
    let logins = [("acc-1", "first"), ("acc-2", "second")].map(|(account, mark)| Real::chatgpt(account, mark));
    let ended = token(r#"{"exp":1,"https://api.openai.com/auth":{"chatgpt_account_id":"acc-3"}}"#);
    let wide = Wide::start(logins[0].value())?;
    ensure!(wide.account()? == ["acc-1"]);
    for (text, account) in [
        (logins[1].value(), "acc-2"),
        (&ended, "credential-outage"),
        ("no-jwt-at-all", "credential-outage"),
        (logins[0].value(), "acc-1"),
    ] {
        harness::files::put(&wide.house.folder().join("chatgpt"), text.as_bytes(), 0o600)?;
        let told = wide.account()?;
        ensure!(told == [account], "{account}: {told:?}");
        wide.tells_none_of(&[logins[0].value(), logins[1].value(), &ended, "no-jwt-at-all"])?;
    }
    Ok(())
}

fn without() -> Result<()> {
    let wide = Wide::start(Real::chatgpt("acc-1", "first").value())?;
    let two = Claimed::take(&wide.house.door("two"))?;
    let answer = wide.ask_of("two", &two, "auth.openai.com", "POST /oauth/token", "")?;
    ensure!(answer.status == 400 && answer.json()?["error"] == "invalid_grant", "{answer:?}");
    let answer = wide.ask_of("two", &two, "chatgpt.com", "GET /backend-api/wham/accounts/check", "")?;
    ensure!(answer.status == 200 && !answer.text().contains("acc-1"), "{answer:?}");
    ensure!(wide.standin.connections().is_empty(), "something was dialled");
    Ok(())
}

fn odd_tokens() -> Result<()> {
    let long =
        format!(r#"{{"x":"{}","https://api.openai.com/auth":{{"chatgpt_account_id":"acc-1"}}}}"#, "a".repeat(40_000));
    let deep = format!(
        r#"{{"x":{}{},"https://api.openai.com/auth":{{"chatgpt_account_id":"acc-1"}}}}"#,
        "[".repeat(100),
        "]".repeat(100)
    );
    for (payload, account) in [
        (r#"{"exp":4000000000.5,"https://api.openai.com/auth":{"chatgpt_account_id":"acc-1"}}"#, "acc-1"),
        (r#"{"exp":"soon","https://api.openai.com/auth":{"chatgpt_account_id":"acc-1"}}"#, "acc-1"),
        (r#"{"exp":-377705023201,"https://api.openai.com/auth":{"chatgpt_account_id":"acc-1"}}"#, "credential-outage"),
        (r#"{"exp":9223372036854775807,"https://api.openai.com/auth":{"chatgpt_account_id":"acc-1"}}"#, "acc-1"),
        (&long, "acc-1"),
        (&deep, "acc-1"),
    ] {
        let token = token(payload);
        let wide = Wide::start(&token)?;
        let told = wide.account()?;
        ensure!(told == [account], "{}: {told:?}", &payload[..payload.len().min(90)]);
        wide.tells_none_of(&[&token])?;
    }
    for payload in [
        r#"{"https://api.openai.com/auth":{"chatgpt_account_id":["acc-1"]}}"#,
        r#"{"https://api.openai.com/auth":{"chatgpt_account_id":7}}"#,
        r#"{"https://api.openai.com/auth":"acc-1"}"#,
        r#"{"https://api.openai.com/auth":{"chatgpt_account_id":"a\r\nx: y"}}"#,
    ] {
        let token = token(payload);
        let told = Wide::start(&token).err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(told.contains("names no ChatGPT account") && !told.contains(&token), "{payload}: {told}");
    }
    Ok(())
}

fn token(payload: &str) -> String {
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload))
}

const HOSTS: [&str; 3] = ["auth.openai.com", "chatgpt.com", "api.openai.com"];
const MODEL: &str = "GET /backend-api/codex/responses";
