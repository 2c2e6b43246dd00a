//! Stand-ins in an agent's environment: stock clients take them up by themselves, and they open nothing but their own service.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use box_spec::wire::SENTINEL_MARK;
use harness::{BoxRun, Claimed, House};
use serde_json::Value;
use standin::{Fault, Rule, StandIn};

use super::base::{MODEL, REAL, ask, grant, holds, house, left_behind, probe, service};

/// curl and gh's way, git with a helper, a URL with user name and password: the sentinel goes in, the real one goes out.
pub(super) fn clients() -> Result<()> {
    let (standin, house) = exposing()?;
    let launch = BoxRun::new(&house, "one")?.isolated().env("PACKAGES_PAT", "real-of-the-image");
    let seen = probe(
        &launch,
        "token = os.environ['GH_TOKEN']
out['values'] = [os.environ[name] for name in ('GH_TOKEN', 'GITHUB_TOKEN', 'PACKAGES_PAT')]
def curl(*words): return run('curl', '--silent', '--show-error', '--fail', *words)
out['bearer'] = curl('-H', 'Authorization: Bearer ' + token, 'https://api.test/bearer')
out['token'] = curl('-H', 'Authorization: token ' + token, 'https://api.test/token')
out['nothing'] = curl('https://api.test/nothing')
out['basic'] = curl('-u', 'x-access-token:' + token, 'https://git.test/basic')
out['user'] = curl('https://' + token + ':x-oauth-basic@git.test/user')
out['own'] = curl('-H', 'Private-Token: ' + token, 'https://packages.test/own')
helper = '!f() { echo username=me; echo password=$GH_TOKEN; }; f'
out['helper'] = run('git', '-c', 'credential.helper=' + helper, 'ls-remote', 'https://git.test/helper', GIT_TERMINAL_PROMPT='0')
out['env'] = '\\n'.join(os.environ.values())",
    )?;
    for step in ["bearer", "token", "nothing", "basic", "user", "own"] {
        ensure!(seen[step][0] == 0 && seen[step][1] == "fine", "{step}: {}", seen[step]);
    }
    let values: Vec<&str> = seen["values"].as_array().context("no values")?.iter().filter_map(Value::as_str).collect();
    ensure!(values.len() == 3 && values.iter().all(|value| *value == values[0]), "{values:?}");
    ensure!(values[0].contains(SENTINEL_MARK), "{values:?}");
    let basic = format!("Basic {}", STANDARD.encode(format!("x-access-token:{REAL}")));
    let requests = standin.seen();
    ensure!(requests.len() >= 7, "saw only {requests:?}");
    for request in &requests {
        let host = request.header("host").join("");
        let (header, value) = match host.as_str() {
            "api.test" => ("authorization", format!("Bearer {REAL}")),
            "git.test" => ("authorization", basic.clone()),
            _ => ("private-token", REAL.to_owned()),
        };
        ensure!(request.header(header) == [value], "{request:?}");
    }
    ensure!(standin.connections().iter().all(|one| !holds(&one.raw, values[0])), "a sentinel left");
    ensure!(!holds(seen.to_string().as_bytes(), REAL), "the box was told the secret");
    left_behind(&launch, REAL)?;
    let claim = house.wait_line("the claim", |line| line["kind"] == "claim")?;
    let named = serde_json::json!(["GH_TOKEN", "GITHUB_TOKEN", "PACKAGES_PAT"]);
    ensure!(claim["facts"]["exposed"] == named && !claim.to_string().contains(SENTINEL_MARK), "{claim}");
    Ok(())
}

/// npm by `.npmrc`, where `cafile` outvotes that of the machine's own settings, pip by the user name and password of an index.
pub(super) fn npm_and_pip() -> Result<()> {
    let (standin, house) = exposing()?;
    let page = br#"{"name":"thing","dist-tags":{"latest":"1.2.3"},"versions":{"1.2.3":{"name":"thing","version":"1.2.3","dist":{"tarball":"https://api.test/thing.tgz"}}}}"#;
    let answer = |kind: &str, body: &[u8]| Fault::Status {
        status: 200,
        headers: vec![("Content-Type".into(), kind.into())],
        body: body.to_vec(),
    };
    standin.rules(vec![
        Rule::new("/thing", answer("application/json", page)),
        Rule::new("/simple", answer("text/html", b"<!DOCTYPE html><html><body></body></html>")),
    ]);
    let seen = probe(
        &BoxRun::new(&house, "one")?.isolated(),
        "open('.npmrc', 'w').write('registry=https://api.test/\\n//api.test/:_authToken=${GH_TOKEN}\\ncafile=${SSL_CERT_FILE}\\n')
out['npm'] = run('npm', 'view', 'thing', 'version', '--fetch-retries=0', '--no-update-notifier')
index = 'https://me:' + os.environ['GH_TOKEN'] + '@git.test/simple/'
out['pip'] = run('/usr/bin/python3', '-m', 'pip', 'download', '--no-cache-dir', '--disable-pip-version-check', '--index-url', index, 'no-such-thing')",
    )?;
    ensure!(seen["npm"][0] == 0 && seen["npm"][1].as_str().unwrap_or_default().contains("1.2.3"), "{}", seen["npm"]);
    let told = seen["pip"][2].as_str().unwrap_or_default();
    ensure!(seen["pip"][0] == 1 && told.contains("No matching distribution"), "{}", seen["pip"]);
    let sent = |path: &str| -> Vec<String> {
        let asked = standin.seen().into_iter().filter(|seen| seen.path.contains(path));
        asked.map(|seen| seen.header("authorization").join("|")).collect()
    };
    let basic = format!("Basic {}", STANDARD.encode(format!("x-access-token:{REAL}")));
    ensure!(!sent("/thing").is_empty() && sent("/thing").iter().all(|one| *one == format!("Bearer {REAL}")), "npm");
    ensure!(!sent("/simple").is_empty() && sent("/simple").iter().all(|one| *one == basic), "pip");
    Ok(())
}

/// In another place than its own it is an alarm, and goes nowhere.
pub(super) fn astray() -> Result<()> {
    let (standin, house) = exposing()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let own = claimed.spec.exposed.first().context("nothing is exposed")?.value.clone();
    let model = claimed.spec.sentinels.first().context("no sentinel")?.access.clone();
    let basic = STANDARD.encode(format!("me:{own}"));
    for (host, path, field) in [
        ("open.test", "/1", format!("Authorization: Bearer {own}")),
        ("open.test", "/2", format!("Authorization: Basic {basic}")),
        ("api.test", "/3", format!("X-Note: {own}")),
        ("api.test", &format!("/4?token={own}"), "Accept: */*".to_owned()),
        ("api.test", &format!("/5/{own}"), "Accept: */*".to_owned()),
        ("api.test", "/6", format!("Authorization: Bearer {model}")),
        ("bot.test", "/7", format!("Authorization: Bearer {own}")),
        ("api.test", "/8", "Authorization: Bearer boxgate-sentinel-00000000000000000000000000000000".to_owned()),
    ] {
        let answer = ask(&house, &claimed, host, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n"))?;
        ensure!(answer.status == 403 && answer.reason() == Some("sentinel-astray"), "{host}{path}: {answer:?}");
    }
    ensure!(standin.seen().is_empty(), "{:?}", standin.seen());
    let alarms = house.ledger()?.iter().filter(|line| line["kind"] == "alarm").count();
    ensure!(alarms >= 1, "no alarm");
    let ledger = std::fs::read(house.ledger_file()).context("read the ledger")?;
    for secret in [REAL, MODEL] {
        ensure!(!holds(&ledger, secret), "the ledger holds a secret");
    }
    Ok(())
}

/// Each run has its own, a restart of the house keeps it, and a secret that is not there yet is exposed all the same.
pub(super) fn over_time() -> Result<()> {
    let (standin, mut house) = exposing()?;
    let file = house.folder().join("service-secret");
    let first = Claimed::take(&house.door("one"))?;
    let value = |claimed: &Claimed| claimed.spec.exposed.iter().map(|one| one.value.clone()).collect::<Vec<_>>();
    let kept = value(&first);
    first.report()?;
    std::fs::remove_file(&file).context("remove the secret")?;
    house.term()?.expect_code(0)?;
    house.start()?;
    let second = Claimed::take(&house.door("one"))?;
    ensure!(value(&second).len() == 3 && value(&second) != kept, "{:?}", second.spec.exposed);
    let bearer = |claimed: &Claimed| {
        format!("GET /x HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer {}\r\n", value(claimed)[0])
    };
    let answer = ask(&house, &second, "api.test", &bearer(&second))?;
    ensure!(answer.status == 503 && answer.reason() == Some("credential-outage"), "{answer:?}");
    harness::files::put(&file, REAL.as_bytes(), 0o600)?;
    ensure!(ask(&house, &second, "api.test", &bearer(&second))?.status == 200, "once it is there");
    // That of the run before is another run's.
    let old = format!("GET /x HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer {}\r\n", kept[0]);
    let answer = ask(&house, &second, "api.test", &old)?;
    ensure!(answer.status == 403 && answer.reason() == Some("sentinel-astray"), "{answer:?}");
    ensure!(standin.seen().len() == 1, "{:?}", standin.seen());
    Ok(())
}

/// One secret in three variables, sent in three ways; another that is exposed to no box of these cases; an open host.
fn exposing() -> Result<(StandIn, House)> {
    let standin = service()?;
    let names = "expose = [\"GH_TOKEN\", \"GITHUB_TOKEN\", \"PACKAGES_PAT\"]";
    let house = house(&standin, names)
        .file("bot-secret", b"another-secret-of-a-bot")
        .extra("[[secret]]\nname = \"bot\"\nfile = \"bot-secret\"\n")
        .grant(&grant(&standin, "api", "api.test", ""))
        .grant(&grant(&standin, "git", "git.test", "scheme = \"basic\""))
        .grant(&grant(&standin, "packages", "packages.test", "header = \"private-token\""))
        .grant(&grant(&standin, "bot", "bot.test", "").replace("\"service\"", "\"bot\""))
        .grant(&grant(&standin, "open", "open.test", "").replace("secret = \"service\"\n", ""))
        .start()?;
    Ok((standin, house))
}
