//! What the agent finds around it: variables, roots, the shim, and its own command line.

use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use harness::BoxRun;
use harness::fakes::FakeAgents;
use serde_json::Value;
use standin::{Options, Real, StandIn};

use super::{SECRET, SOON, builder, house, launch, probe};

pub(super) fn variables() -> Result<()> {
    let house = house()?;
    let ca = house.ca_pem()?;
    for isolated in [false, true] {
        let seen = probe(
            &launch(&house, isolated)?.option("--env").option("GIT_CONFIG_COUNT=1").option("--env").option("GIT_CONFIG_KEY_0=user.name").option("--env").option("GIT_CONFIG_VALUE_0=me"),
            "import ssl, subprocess
out['env'] = dict(os.environ)
def pem(name):
    text = open(os.environ[name]).read()
    ssl.create_default_context(cadata=text)
    return text
out['ca'] = pem('NODE_EXTRA_CA_CERTS')
names = ['SSL_CERT_FILE', 'CURL_CA_BUNDLE', 'REQUESTS_CA_BUNDLE', 'GIT_SSL_CAINFO', 'PIP_CERT', 'CODEX_CA_CERTIFICATE', 'DENO_CERT', 'CARGO_HTTP_CAINFO']
out['bundles'] = {n: pem(n) for n in names}
def private(folder):
    found = []
    for d, _, fs in os.walk(folder):
        for f in fs:
            try: text = open(os.path.join(d, f), 'rb').read(1 << 20)
            except OSError: continue
            if b'PRIVATE KEY' in text or b'\"kind\":\"claimed\"' in text: found.append(os.path.join(d, f))
    return found
out['private'] = private(os.environ['BOXGATE_SESSION_DIR']) + (private('/tmp') + private('/run') + private('/workspace') if os.getcwd() == '/workspace' else [])",
        )?;
        let env = |name: &str| seen["env"][name].as_str().with_context(|| format!("{name} is missing"));
        let proxy = env("HTTPS_PROXY")?;
        ensure!(proxy.starts_with("http://127.0.0.1:") && !proxy.contains('@'), "{proxy}");
        for name in ["https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            ensure!(env(name)? == proxy, "{name} is {}", env(name)?);
        }
        for name in ["NO_PROXY", "no_proxy"] {
            ensure!(env(name)? == "localhost,127.0.0.1,::1", "{name} is {}", env(name)?);
        }
        ensure!(env("NODE_USE_ENV_PROXY")? == "1");
        // Git's settings are appended to.
        ensure!(env("GIT_CONFIG_COUNT")? == "2" && env("GIT_CONFIG_KEY_0")? == "user.name");
        ensure!(env("GIT_CONFIG_KEY_1")? == "http.proxyAuthMethod" && env("GIT_CONFIG_VALUE_1")? == "basic");
        let trimmed = |value: &Value| value.as_str().map(|text| text.trim().to_owned());
        ensure!(
            trimmed(&seen["ca"]).as_deref() == Some(ca.trim()),
            "NODE_EXTRA_CA_CERTS is not the house's certificate alone"
        );
        let bundles = seen["bundles"].as_object().context("no bundles")?;
        ensure!(bundles.len() == 8, "{}", bundles.len());
        for (name, bundle) in bundles {
            let bundle = bundle.as_str().unwrap_or_default();
            ensure!(bundle.contains(ca.trim()), "{name} lacks the house's certificate");
            ensure!(bundle.matches("BEGIN CERTIFICATE").count() > 50, "{name} lacks the image's own roots");
        }
        ensure!(seen["private"].as_array().is_some_and(Vec::is_empty), "{}", seen["private"]);
    }
    Ok(())
}

pub(super) fn reserved() -> Result<()> {
    let names = [
        "HOME",
        "TMPDIR",
        "PI_CODING_AGENT_DIR",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "CODEX_CA_CERTIFICATE",
        "NODE_USE_ENV_PROXY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "DISABLE_TELEMETRY",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "BOXGATE_DOOR",
        "BOXGATE_RUN",
    ];
    for name in names.iter().flat_map(|name| [(*name).to_owned(), name.to_ascii_lowercase()]) {
        let launch = BoxRun::at_door("/nowhere/door.sock".into())?.prompt("hi");
        let launch = launch.option("--env").option(format!("{name}=value-that-is-not-said"));
        let ran = launch.run(SOON)?.expect_code(64).with_context(|| name.clone())?;
        ensure!(ran.stderr.contains(&name) && ran.stderr.contains("reserved"), "{name}: {}", ran.stderr);
        ensure!(!ran.stderr.contains("value-that"), "{name}: the value was said: {}", ran.stderr);
    }
    Ok(())
}

/// A fake that has claude's own guard.
pub(super) fn sandbox() -> Result<()> {
    let house = house()?;
    let guard = "case \" $* \" in *' --dangerously-skip-permissions '*|*'bypassPermissions'*)
  if [ \"$(id -u)\" = 0 ] && [ \"$IS_SANDBOX\" != 1 ] && [ \"$CLAUDE_CODE_BUBBLEWRAP\" != 1 ]; then echo 'cannot be used with root/sudo privileges' >&2; exit 1; fi;;
esac; echo \"$IS_SANDBOX\"";
    let fakes = FakeAgents::shell(guard)?;
    let start = || Ok::<_, anyhow::Error>(launch(&house, false)?.agents(fakes.folder()));
    let ran = start()?.run(SOON)?.expect_code(0)?;
    ensure!(ran.text() == "1\n", "{}", ran.text());
    // The user's own word wins, and the guard's refusal is told as it is: once.
    let ran = start()?.env("IS_SANDBOX", "0").run(SOON)?.expect_code(1)?;
    ensure!(ran.stderr.matches("cannot be used with root").count() == 1, "{}", ran.stderr);
    let facts = super::last_facts(&house)?;
    ensure!(facts["verdict"].to_string().contains("ended with 1"), "{facts}");
    Ok(())
}

pub(super) fn version() -> Result<()> {
    let pinned = std::fs::read_to_string(harness::Tools::agents().join("package.json"))?;
    for isolated in [false, true] {
        let launch = BoxRun::at_door(std::env::temp_dir().join("no-such-door.sock"))?.argument("--version");
        let launch = if isolated { launch.isolated() } else { launch };
        let ran = launch.run(SOON)?.expect_code(0).with_context(|| format!("isolated: {isolated}"))?;
        let told = ran.text();
        let number = told.split_whitespace().next().context("no version")?;
        ensure!(pinned.contains(number) && number.split('.').count() == 3, "{told}");
        ensure!(std::fs::read_dir(launch.session_folder())?.next().is_none(), "files were written for a version");
    }
    Ok(())
}

pub(super) fn dashes() -> Result<()> {
    let real = Real::Bearer(SECRET.into());
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let house = harness::House::builder().model_at(&standin, real).start()?;
    for prompt in ["--help <<text:it was a prompt>>", "-p <<text:it was a prompt>>"] {
        let launch = BoxRun::new(&house, "one")?.isolated().output("text").option(format!("--prompt={prompt}"));
        let ran = launch.run(SOON)?.expect_code(0)?;
        ensure!(ran.text().trim_end() == "it was a prompt", "{prompt}: {}", ran.text());
    }
    Ok(())
}

pub(super) fn fixed_flags() -> Result<()> {
    let house = house()?;
    let fakes = FakeAgents::shell("for a in \"$@\"; do printf '[%s]' \"$a\"; done")?;
    let start = || Ok::<_, anyhow::Error>(launch(&house, false)?.agents(fakes.folder()));
    for refused in [
        &["--output-format", "text"][..],
        &["--output-format=text"],
        &["--input-format", "stream-json"],
        &["-p"],
        &["--print"],
        &["--permission-mode", "default"],
        &["--resume", "x"],
        &["-r"],
        &["--continue"],
        &["--", "another prompt"],
    ] {
        let launch = refused.iter().fold(start()?, |launch, argument| launch.argument(*argument));
        let ran = launch.run(SOON)?.expect_code(64).with_context(|| format!("{refused:?}"))?;
        ensure!(ran.stdout.is_empty(), "{refused:?}: the agent started");
    }
    let ran =
        start()?.argument("--append-system-prompt").argument("be kind").argument("--model").argument("m").run(SOON)?;
    let fixed = "[-p][--output-format][stream-json][--verbose][--dangerously-skip-permissions]";
    ensure!(ran.text() == format!("{fixed}[--append-system-prompt][be kind][--model][m][--][hi]"), "{}", ran.text());
    Ok(())
}

/// Many starts: a shim that is raised beside the agent would lose one of them.
pub(super) fn first_instruction() -> Result<()> {
    let house = house()?;
    let fakes = FakeAgents::shell(
        "exec python3 -c 'import os, socket
host, port = os.environ[\"HTTPS_PROXY\"].removeprefix(\"http://\").split(\":\")
s = socket.create_connection((host, int(port)))
s.sendall(b\"CONNECT api.anthropic.com:443 HTTP/1.1\\r\\nHost: x\\r\\nProxy-Authorization: Basic b3RoZXI6eA==\\r\\n\\r\\n\")
print(s.recv(1000).split(b\"\\r\\n\")[0].decode())'",
    )?;
    for round in 0..12 {
        let launch = launch(&house, round % 2 == 1)?.agents(fakes.folder());
        let ran = launch.run(SOON)?.expect_code(0)?;
        // The agent's own proxy credential is replaced, else this were a 407.
        ensure!(ran.text().starts_with("HTTP/1.1 200"), "round {round}: {}", ran.text());
    }
    Ok(())
}

/// Neither in the environment, nor in an argument of any process of the box; nor does any of them hold a run token.
pub(super) fn no_host_path() -> Result<()> {
    let house = house()?;
    let launch = launch(&house, true)?;
    let seen = probe(
        &launch,
        "import re
out['texts'] = [k + '=' + v for k, v in os.environ.items()]
for pid in filter(str.isdigit, os.listdir('/proc')):
    try: out['texts'] += open('/proc/' + pid + '/cmdline').read().split(chr(0))
    except OSError: pass
out['tokens'] = [t for t in out['texts'] if re.search('[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-', t)]
out['cwd'] = os.getcwd()",
    )?;
    let texts: Vec<&str> = seen["texts"].as_array().context("no texts")?.iter().filter_map(Value::as_str).collect();
    ensure!(texts.len() > 30, "saw only {texts:?}");
    for folder in [house.folder(), launch.session_folder(), launch.workspace_folder(), &launch.home()] {
        let path = folder.display().to_string();
        let told: Vec<_> = texts.iter().filter(|text| text.contains(&path)).collect();
        ensure!(told.is_empty(), "the box is told of {path}: {told:?}");
    }
    ensure!(seen["tokens"].as_array().is_some_and(Vec::is_empty), "{}", seen["tokens"]);
    ensure!(seen["cwd"] == "/workspace", "{}", seen["cwd"]);
    Ok(())
}

pub(super) fn another_agent() -> Result<()> {
    let house = builder().add_box("two", "agent = \"codex\"\nunsafe_open_network = true").start()?;
    let fakes = FakeAgents::shell("echo started")?;
    let ran = BoxRun::new(&house, "two")?.prompt("hi").agents(fakes.folder()).run(SOON)?.expect_code(64)?;
    ensure!(ran.stdout.is_empty() && ran.stderr.contains("codex") && ran.stderr.contains("claude"), "{}", ran.stderr);
    let line = house.wait_line("the refusal", |line| line["kind"] == "refused" && line["box"] == "two")?;
    ensure!(line["inside"].to_string().contains("agent-differs"), "{line}");
    Ok(())
}

pub(super) fn busy_port() -> Result<()> {
    let house = builder().start()?;
    // Whether this test or a neighbour holds it: it is busy.
    let _held = TcpListener::bind("127.0.0.1:3128");
    let seen = probe(
        &launch(&house, false)?,
        "proxy = os.environ['HTTPS_PROXY']
out['port'] = int(proxy.rsplit(':', 1)[1])
out['same'] = all(os.environ[n] == proxy for n in ('https_proxy', 'HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy'))
s = socket.create_connection(('127.0.0.1', out['port']))
s.sendall(b'CONNECT api.anthropic.com:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
out['told'] = s.recv(1000).split(b'\\r\\n')[0].decode()
taken = []
for line in open('/proc/net/tcp').read().splitlines()[1:]:
    a = line.split()
    if a[3] == '0A': taken.append((a[1].split(':')[0], int(a[1].split(':')[1], 16)))
out['elsewhere'] = [a for a, p in taken if p == out['port'] and a != '0100007F']",
    )?;
    ensure!(seen["port"] != 3128 && seen["same"] == true, "{seen}");
    ensure!(seen["told"].as_str().is_some_and(|told| told.starts_with("HTTP/1.1 200")), "{seen}");
    ensure!(seen["elsewhere"].as_array().is_some_and(Vec::is_empty), "it listens elsewhere too: {seen}");
    Ok(())
}
