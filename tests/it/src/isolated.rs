//! The isolated box from inside: what a hostile agent can reach, which is next to nothing.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::files::put_deep;
use harness::{BoxRun, Case, House, Need, case};
use serde_json::Value;
use standin::Real;

pub(crate) const CASES: &[Case] = &[
    case("isolated::nothing_of_the_host_can_be_reached", nothing_of_the_host).needs(ALL),
    case("isolated::there_is_no_way_out_but_the_shim", no_way_out).needs(ALL),
    case("isolated::the_agent_has_no_power_and_cannot_look_into_boxd", no_power).needs(ALL),
    case("isolated::only_workspace_session_and_tmp_can_be_written", writable).needs(ALL),
    case("isolated::exit_codes_come_through", exit_codes).needs(ALL),
];

fn nothing_of_the_host() -> Result<()> {
    let house = house()?;
    let launch = BoxRun::new(&house, "one")?.isolated();
    let planted = launch.home().join(".config/secret");
    put_deep(&planted, b"planted-secret", 0o644)?;
    let sockets = tempfile::Builder::new().prefix("sockets-").tempdir()?;
    let socket = sockets.path().join("docker.sock");
    let _listener = UnixListener::bind(&socket).context("listen like docker")?;
    let paths = [
        planted,
        socket,
        house.secret(),
        house.config(),
        house.state(),
        house.door("one"),
        launch.session_folder().to_path_buf(),
    ];
    for path in &paths {
        ensure!(path.exists(), "the test planted nothing at {}", path.display());
    }
    let named: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let seen = probe(
        &launch,
        &format!(
            "paths = {named:?}
out['there'] = [p for p in paths if os.path.lexists(p)]
out['homes'] = [p for p in ('/home', '/root', '/mnt', '/srv', '/boot') if os.path.isdir(p) and os.listdir(p)]
out['homes'] += ['/var/' + p for p in os.listdir('/var') if p not in ('run', 'tmp')]
out['sockets'] = [os.path.join(d, f) for d, _, fs in os.walk('/run') for f in fs]
out['mounts'] = open('/proc/self/mounts').read()
out['pids'] = sorted(int(p) for p in os.listdir('/proc') if p.isdigit())"
        ),
    )?;
    for empty in ["there", "homes", "sockets"] {
        ensure!(seen[empty].as_array().is_some_and(Vec::is_empty), "{empty}: {}", seen[empty]);
    }
    let pids = seen["pids"].as_array().context("no pids")?;
    ensure!(pids.first().and_then(Value::as_u64) == Some(1) && pids.len() <= 4, "{pids:?}");
    for name in named {
        ensure!(!seen["mounts"].as_str().unwrap_or_default().contains(&format!(" {name} ")), "{name} is mounted");
    }
    Ok(())
}

fn no_way_out() -> Result<()> {
    let house = house()?;
    let seen = probe(
        &BoxRun::new(&house, "one")?.isolated(),
        "def attempt(family, address):
    began = time.time()
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(5)
    try: s.connect(address); how = 'connected'
    except OSError as e: how = errno.errorcode.get(e.errno, repr(e))
    return [how, time.time() - began]
out['ipv4'] = attempt(socket.AF_INET, ('93.184.216.34', 443))
out['metadata'] = attempt(socket.AF_INET, ('169.254.169.254', 80))
out['ipv6'] = attempt(socket.AF_INET6, ('2606:2800:220:1::1', 443))
began = time.time()
try: socket.getaddrinfo('api.anthropic.com', 443); out['dns'] = ['found', 0]
except OSError as e: out['dns'] = ['none', time.time() - began]
out['interfaces'] = [l.split(':')[0].strip() for l in open('/proc/net/dev').read().splitlines()[2:]]
proxy = os.environ['HTTPS_PROXY'].rsplit(':', 1)
out['shim'] = attempt(socket.AF_INET, ('127.0.0.1', int(proxy[1])))",
    )?;
    for (what, how) in [("ipv4", "ENETUNREACH"), ("metadata", "ENETUNREACH"), ("ipv6", "ENETUNREACH"), ("dns", "none")]
    {
        let took = seen[what][1].as_f64().unwrap_or(99.0);
        ensure!(seen[what][0] == how || what == "ipv6" && seen[what][0] == "EADDRNOTAVAIL", "{what}: {}", seen[what]);
        ensure!(took < 1.0, "{what} took {took} s to fail");
    }
    ensure!(seen["interfaces"] == serde_json::json!(["lo"]), "{}", seen["interfaces"]);
    ensure!(seen["shim"][0] == "connected", "{}", seen["shim"]);
    Ok(())
}

fn no_power() -> Result<()> {
    let house = house()?;
    let seen = probe(
        &BoxRun::new(&house, "one")?.isolated(),
        "def reads(path):
    try: return open(path, 'rb').read(1) is not None
    except OSError as e: return errno.errorcode.get(e.errno)
out['uid'] = [os.getuid(), os.geteuid(), os.getgid()]
out['status'] = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)
out['boxd'] = [reads('/proc/1/' + n) for n in ('environ', 'mem', 'maps', 'auxv')]
try: out['fds'] = os.listdir('/proc/1/fd')
except OSError as e: out['fds'] = errno.errorcode.get(e.errno)
try: os.kill(1, 0); out['kill'] = 'may'
except OSError as e: out['kill'] = errno.errorcode.get(e.errno)
out['token'] = [n for n, v in os.environ.items() if 'TOKEN' in n.upper()]
out['mine'] = sorted(int(f) for f in os.listdir('/proc/self/fd'))",
    )?;
    ensure!(seen["uid"].as_array().is_some_and(|ids| ids.iter().all(|id| id != 0)), "{}", seen["uid"]);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        ensure!(seen["status"][set] == "0000000000000000", "{set}: {}", seen["status"][set]);
    }
    ensure!(seen["status"]["NoNewPrivs"] == "1", "{}", seen["status"]["NoNewPrivs"]);
    let denied = |value: &Value| value == "EACCES" || value == "EPERM";
    ensure!(seen["boxd"].as_array().is_some_and(|all| all.iter().all(denied)), "boxd can be read: {}", seen["boxd"]);
    ensure!(denied(&seen["fds"]), "boxd's descriptors can be listed: {}", seen["fds"]);
    ensure!(seen["mine"].as_array().is_some_and(|fds| fds.len() <= 4), "inherited descriptors: {}", seen["mine"]);
    Ok(())
}

fn writable() -> Result<()> {
    let house = house()?;
    let launch = BoxRun::new(&house, "one")?.isolated();
    let workspace = launch.workspace_folder().to_path_buf();
    put_deep(&workspace.join("given.txt"), b"given", 0o644)?;
    let owner = std::fs::metadata(&workspace)?.uid();
    let kept = launch.session_folder().to_path_buf();
    let seen = probe(
        &launch,
        "def writes(folder):
    path = os.path.join(folder, 'made-by-the-box')
    try:
        open(path, 'w').write('made'); return 'yes'
    except OSError as e: return errno.errorcode.get(e.errno)
out['yes'] = {d: writes(d) for d in ('/workspace', '/session', '/tmp')}
out['no'] = {d: writes(d) for d in ('/', '/usr', '/usr/bin', '/etc', '/opt/boxgate/agents', '/proc', '/dev')}
out['cwd'] = os.getcwd()
open('given.txt', 'a').write(' and changed')",
    )?;
    ensure!(seen["yes"].as_object().is_some_and(|all| all.values().all(|how| how == "yes")), "{}", seen["yes"]);
    ensure!(seen["no"].as_object().is_some_and(|all| all.values().all(|how| how != "yes")), "{}", seen["no"]);
    ensure!(seen["cwd"] == "/workspace", "{}", seen["cwd"]);
    ensure!(std::fs::read_to_string(workspace.join("given.txt"))? == "given and changed");
    ensure!(std::fs::metadata(workspace.join("made-by-the-box"))?.uid() == owner, "the file is another's on the host");
    ensure!(kept.join("made-by-the-box").exists(), "the session was not kept");
    Ok(())
}

fn exit_codes() -> Result<()> {
    let house = house()?;
    for (script, code) in [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137)] {
        let fakes = FakeAgents::shell(script)?;
        let launch = BoxRun::new(&house, "one")?.isolated().agents(fakes.folder()).prompt("hi");
        launch.run(SOON)?.expect_code(code).with_context(|| script.to_owned())?;
    }
    Ok(())
}

/// Runs a Python agent in the box that fills `out`, and gives back what it found.
fn probe(launch: &BoxRun, body: &str) -> Result<Value> {
    let program = format!("import errno, json, os, socket, time\nout = {{}}\n{body}\nprint(json.dumps(out))");
    let fakes = FakeAgents::python(&program)?;
    let ran = launch.clone().agents(fakes.folder()).prompt("hi").run(SOON)?.expect_code(0)?;
    serde_json::from_slice(&ran.stdout).with_context(|| format!("parse {}", ran.text()))
}

fn house() -> Result<House> {
    House::builder().secret(Real::Bearer("sk-ant-oat01-REAL-of-the-isolated".into())).start()
}

const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces, Need::Python];
const SOON: Duration = Duration::from_secs(30);
