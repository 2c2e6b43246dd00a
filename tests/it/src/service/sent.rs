//! On the wire: what the service is shown, and what the box hears where it can be shown nothing.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::Claimed;
use harness::files::put;
use standin::{Fault, Rule};

use super::base::{MODEL, REAL, ask, grant, holds, house, service};

pub(super) fn overwritten() -> Result<()> {
    let standin = service()?;
    let house = house(&standin, "scheme = \"basic\"").grant(&grant(&standin, "git", "git.test", "")).start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let basic = |pair: &str| STANDARD.encode(pair);
    for fields in [
        String::new(),
        format!("Authorization: Basic {}\r\n", basic("me:placeholder")),
        format!("authorization: Bearer placeholder\r\nAUTHORIZATION: Basic {}\r\n", basic("placeholder:")),
        "Authorization: token placeholder\r\nPrivate-Token: placeholder\r\nX-Api-Key: placeholder\r\n".to_owned(),
        "Cookie: session=placeholder\r\nx_github_token: placeholder\r\nJob-Token: placeholder\r\n".to_owned(),
        "Connection: authorization\r\nAuthorization: Bearer placeholder\r\n".to_owned(),
    ] {
        standin.forget();
        let head = format!(
            "GET /x?private_token=placeholder&q=1&access_token=placeholder HTTP/1.1\r\nHost: git.test\r\n{fields}"
        );
        let answer = ask(&house, &claimed, "git.test", &head)?;
        ensure!(answer.status == 200, "{fields:?}: {answer:?}");
        let seen = standin.seen().pop().context("nothing came")?;
        let real = format!("Basic {}", basic(&format!("x-access-token:{REAL}")));
        ensure!(seen.header("authorization") == [real], "{fields:?}: {seen:?}");
        ensure!(seen.path == "/x?q=1", "{seen:?}");
        ensure!(!String::from_utf8_lossy(&seen.head).contains("placeholder"), "{fields:?}: {seen:?}");
    }
    let line = house.wait_line("the request's end", |line| line["injected"].is_array())?;
    ensure!(line["injected"] == serde_json::json!(["authorization"]), "{line}");
    let ledger = std::fs::read(house.ledger_file()).context("read the ledger")?;
    ensure!(!holds(&ledger, REAL), "the ledger holds the secret");
    ensure!(!holds(house.said().as_bytes(), REAL), "the log holds the secret");
    Ok(())
}

pub(super) fn each_way() -> Result<()> {
    let standin = service()?;
    let house = house(&standin, "")
        .grant(&grant(&standin, "api", "api.test", ""))
        .grant(&grant(&standin, "git", "git.test", "scheme = \"basic\"\nusername = \"oauth2\""))
        .grant(&grant(
            &standin,
            "packages",
            "*.packages.test",
            "header = \"PRIVATE-TOKEN\"\nunsafe_secret_hosts = true",
        ))
        .grant(&grant(&standin, "bot", "bot.test", "scheme = \"none\"\nprefix = \"Bot \""))
        .grant(&grant(&standin, "open", "open.test", "").replace("secret = \"service\"\n", ""))
        .start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let basic = format!("Basic {}", STANDARD.encode(format!("oauth2:{REAL}")));
    for (host, header, value) in [
        ("api.test", "authorization", Some(format!("Bearer {REAL}"))),
        ("git.test", "authorization", Some(basic)),
        ("packages.test", "private-token", Some(REAL.to_owned())),
        ("deep.packages.test", "private-token", Some(REAL.to_owned())),
        ("bot.test", "authorization", Some(format!("Bot {REAL}"))),
        ("open.test", "authorization", None),
    ] {
        standin.forget();
        let sent = "Private-Token: mine\r\nprivate_token: mine\r\nAuthorization: Bearer mine\r\n";
        let answer = ask(&house, &claimed, host, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n{sent}"))?;
        ensure!(answer.status == 200, "{host}: {answer:?}");
        let seen = standin.seen().pop().context("nothing came")?;
        let values: Vec<String> = value.into_iter().collect();
        ensure!(seen.header(header) == values, "{host}: {seen:?}");
        let text = String::from_utf8_lossy(&seen.head).into_owned();
        ensure!(!text.contains("mine") && !text.contains(MODEL), "{host}: {seen:?}");
        ensure!(text.to_ascii_lowercase().matches("token:").count() <= 1, "{host}: {seen:?}");
    }
    let told = house.gateway(&["credential", "list"])?.expect_code(0)?.text();
    ensure!(told.contains("service") && told.contains("a service") && !told.contains(REAL), "{told}");
    let told = house.gateway(&["status"])?.expect_code(0)?.text();
    ensure!(told.contains("secret  service  of a service  usable"), "{told}");
    Ok(())
}

pub(super) fn outage() -> Result<()> {
    let standin = service()?;
    let mut house = house(&standin, "").grant(&grant(&standin, "api", "api.test", "")).prepare()?;
    let file = house.folder().join("service-secret");
    std::fs::remove_file(&file).context("remove the secret")?;
    house.start()?;
    ensure!(house.said().contains("service-secret is missing"), "{}", house.said());
    let claimed = Claimed::take(&house.door("one"))?;
    let head = "GET /x HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer placeholder\r\n";
    for spoiled in [None, Some("two\nlines"), Some(""), Some("sk-ant-oat01-of-a-provider")] {
        if let Some(text) = spoiled {
            put(&file, text.as_bytes(), 0o600)?;
        }
        let answer = ask(&house, &claimed, "api.test", head)?;
        ensure!(answer.status == 503 && answer.reason() == Some("credential-outage"), "{spoiled:?}: {answer:?}");
        let told = answer.json()?;
        ensure!(told["grant"] == "api" && told["error"] == "credential-outage", "{told}");
    }
    ensure!(standin.connections().is_empty(), "the service was dialled");
    put(&file, format!("{REAL}\n").as_bytes(), 0o600)?;
    let answer = ask(&house, &claimed, "api.test", head)?;
    ensure!(answer.status == 200, "once it is there: {answer:?}");
    put(&file, b"ghp_another", 0o600)?;
    ask(&house, &claimed, "api.test", head)?;
    let sent: Vec<_> = standin.seen().iter().map(|seen| seen.header("authorization").join("|")).collect();
    ensure!(sent == [format!("Bearer {REAL}"), "Bearer ghp_another".to_owned()], "{sent:?}");
    Ok(())
}

pub(super) fn rejected() -> Result<()> {
    let standin = service()?;
    let challenge = vec![("WWW-Authenticate".to_owned(), "Basic realm=\"service\"".to_owned())];
    let fault = |status| Fault::Status { status, headers: challenge.clone(), body: b"go away".to_vec() };
    standin.rules(vec![Rule::new("/401", fault(401)), Rule::new("/403", fault(403)), Rule::new("/404", fault(404))]);
    let house = house(&standin, "").grant(&grant(&standin, "api", "api.test", "")).start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let answer = ask(&house, &claimed, "api.test", "GET /401 HTTP/1.1\r\nHost: api.test\r\n")?;
    ensure!(answer.status == 503 && answer.reason() == Some("credential-rejected"), "{answer:?}");
    ensure!(answer.header("www-authenticate").is_none(), "the box is asked for a password: {answer:?}");
    ensure!(answer.json()?["error"] == "credential-rejected", "{answer:?}");
    // What it may not do with it is the service's own word.
    for status in [403, 404] {
        let answer = ask(&house, &claimed, "api.test", &format!("GET /{status} HTTP/1.1\r\nHost: api.test\r\n"))?;
        ensure!(answer.status == status && answer.body == b"go away", "{answer:?}");
    }
    Ok(())
}
