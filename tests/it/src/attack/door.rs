//! The agent with boxd's own uid at the door: open to it where the box is not isolated, out of reach where it is.

use anyhow::{Result, ensure};
use harness::{BoxRun, Case, Claimed, Need, case};

use super::{attack, no_success, open_house};

pub(crate) const CASES: &[Case] = &[
    case("attack::an_agent_that_opens_the_door_itself_gets_nothing_and_its_run_fails", opens_it).needs(ALL),
    case("attack::a_clean_run_beside_them_is_a_success", clean).needs(ALL),
    case("attack::boxds_descriptors_and_memory_are_closed_to_the_agent", closed).needs(ALL),
    case("attack::an_isolated_agent_has_no_path_to_the_door", isolated).needs(ISOLATED),
    case("attack::of_many_boxd_at_one_door_one_runs", one_of_many).needs(ALL),
];

fn opens_it() -> Result<()> {
    let mut house = open_house().start()?;
    let stolen = {
        let claimed = Claimed::take(&house.door("one"))?;
        let token = claimed.token().to_owned();
        claimed.report()?;
        token
    };
    let guess = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab";
    let table = [
        ("a second claim", "claim()".to_owned(), "409", "door-taken", "claim-refused"),
        ("a reattach by guess", format!("claim('{guess}')"), "403", "nothing-to-reattach", "reattach-refused"),
        ("the token of an ended run", format!("connect('{stolen}')"), "407", "", ""),
        ("a reattach with it", format!("claim('{stolen}')"), "403", "nothing-to-reattach", "reattach-refused"),
        ("a guess", format!("connect('{guess}')"), "407", "", ""),
        (
            "no token",
            "talk(b'CONNECT api.anthropic.com:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')".to_owned(),
            "407",
            "",
            "",
        ),
        (
            "a forged report",
            format!(
                "talk(b'POST /claim HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\nUpgrade: boxgate-claim\\r\\nContent-Length: {}\\r\\n\\r\\n' + {REPORT:?}.encode())",
                REPORT.len()
            ),
            "400",
            "bad-claim",
            "",
        ),
        ("a bare report", format!("talk({REPORT:?}.encode() + b'\\n\\r\\n\\r\\n')"), "400", "", ""),
    ];
    for (what, expression, status, reason, alarm) in table {
        let (found, record) = attack(&house, BoxRun::new(&house, "one")?, &format!("out['answer'] = {expression}"))?;
        let answer = found["answer"].as_str().unwrap_or_default();
        ensure!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(reason), "{what}: {answer}");
        // What is no HTTP at all says nothing of who sent it: the shim would pass it on as well.
        if what != "a bare report" {
            no_success(what, &record)?;
        }
        let run = record["run"].as_str().unwrap_or_default();
        let lines = house.ledger()?;
        let after = lines.iter().skip_while(|line| line["run"] != run);
        let told = after.filter(|line| line["box"] == "one" && line["run"].is_null());
        let told: Vec<_> = told.filter(|line| line["reason"].is_string()).collect();
        ensure!(!told.is_empty(), "{what} has no line");
        ensure!(alarm.is_empty() || told.iter().any(|line| line["alarm"] == alarm), "{what}: {told:?}");
        // Those alike are told at most once in ten seconds: the next attempt is to have a line of its own.
        house.term()?;
        house.start()?;
    }
    Ok(())
}

fn clean() -> Result<()> {
    let house = open_house().start()?;
    let (found, record) = attack(
        &house,
        BoxRun::new(&house, "one")?,
        "out['identity'] = talk(b'GET /healthz HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')",
    )?;
    ensure!(found["identity"].as_str().is_some_and(|text| text.starts_with("HTTP/1.1 200")), "{found}");
    ensure!(record["verdict"] == "completed", "{record}");
    Ok(())
}

fn closed() -> Result<()> {
    let house = open_house().start()?;
    let (found, record) = attack(
        &house,
        BoxRun::new(&house, "one")?,
        "boxd = os.getppid()
def attempt(what):
    try: return repr(what())
    except OSError as e: return errno.errorcode.get(e.errno)
out['is_boxd'] = open('/proc/%d/comm' % boxd).read().strip()
out['fds'] = attempt(lambda: os.readlink('/proc/%d/fd/0' % boxd))
out['memory'] = attempt(lambda: open('/proc/%d/mem' % boxd, 'rb').read(1))
out['environ'] = attempt(lambda: open('/proc/%d/environ' % boxd, 'rb').read())
out['own'] = sorted(os.readlink('/proc/self/fd/' + f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f))
out['token'] = [k for k, v in os.environ.items() if len(v) == 36 and v.count('-') == 4]",
    )?;
    ensure!(found["is_boxd"] == "boxd", "{found}");
    ensure!(found["token"].as_array().is_some_and(Vec::is_empty), "{found}");
    let sockets = found["own"].to_string().matches("socket:").count();
    ensure!(sockets == 0, "the agent holds a socket of boxd: {found}");
    // Not even root, who has lost the power to look into others.
    for what in ["fds", "memory", "environ"] {
        ensure!(found[what] == "EACCES" || found[what] == "EPERM", "{what}: {found}");
    }
    ensure!(record["verdict"] == "completed", "{record}");
    Ok(())
}

fn isolated() -> Result<()> {
    let house = open_house().start()?;
    let launch = BoxRun::new(&house, "one")?.isolated();
    let (found, record) = attack(
        &house,
        launch,
        "def attempt(what):
    try: return repr(what())
    except OSError as e: return errno.errorcode.get(e.errno)
out['door'] = attempt(dial)
out['by_root'] = attempt(lambda: os.listdir('/proc/1/root'))
out['by_fd'] = attempt(lambda: os.listdir('/proc/1/fd'))
out['by_cwd'] = attempt(lambda: os.readlink('/proc/1/cwd'))
out['own'] = [os.readlink('/proc/self/fd/' + f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)]
out['sockets'] = [os.path.join(d, f) for top in ('/run', '/tmp', '/var', '/session', '/workspace', '/dev') for d, _, fs in os.walk(top) for f in fs if f.endswith('.sock')]
out['abstract'] = [l for l in open('/proc/net/unix').read().splitlines()[1:] if 'door' in l or '@' in l]
proxy = os.environ['HTTPS_PROXY'].rsplit(':', 1)[1].strip('/')
def shim(data):
    s = socket.create_connection(('127.0.0.1', int(proxy))); s.settimeout(10); return talk(data, s)
UP = b'Connection: Upgrade\\r\\nUpgrade: boxgate-claim\\r\\nContent-Length: 2\\r\\n\\r\\n{}'
out['claim'] = shim(b'POST /claim HTTP/1.1\\r\\nHost: x\\r\\n' + UP)
out['absolute'] = shim(b'POST http://door/claim HTTP/1.1\\r\\nHost: door\\r\\n' + UP)
out['pipelined'] = shim(b'CONNECT /claim HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nPOST /claim HTTP/1.1\\r\\nHost: x\\r\\n' + UP)",
    )?;
    ensure!(found["door"] == "ENOENT", "{found}");
    for way in ["by_root", "by_fd", "by_cwd"] {
        ensure!(found[way] == "EACCES" || found[way] == "EPERM", "{way}: {found}");
    }
    for empty in ["sockets", "abstract"] {
        ensure!(found[empty].as_array().is_some_and(Vec::is_empty), "{empty}: {found}");
    }
    ensure!(!found["own"].to_string().contains("socket:"), "{found}");
    for way in ["claim", "absolute", "pipelined"] {
        let answer = found[way].as_str().unwrap_or_default();
        ensure!(answer.starts_with("HTTP/1.1 4"), "{way}: {answer}");
    }
    let claims = house.ledger()?.iter().filter(|line| line["kind"] == "claim").count();
    ensure!(claims == 1, "{claims} claims");
    ensure!(record["verdict"] != "completed", "{record}");
    Ok(())
}

fn one_of_many() -> Result<()> {
    let house = open_house().start()?;
    let fakes = harness::fakes::FakeAgents::shell("sleep 2; echo ran")?;
    let start = || BoxRun::new(&house, "one")?.agents(fakes.folder()).prompt("hi").start();
    let running = (0..4).map(|_| start()).collect::<Result<Vec<_>>>()?;
    let ended =
        running.into_iter().map(|one| one.wait(std::time::Duration::from_secs(30))).collect::<Result<Vec<_>>>()?;
    let mut codes: Vec<_> = ended.iter().map(|ran| ran.code).collect();
    codes.sort_unstable();
    ensure!(codes == [Some(0), Some(75), Some(75), Some(75)], "{codes:?}");
    ensure!(ended.iter().filter(|ran| ran.text() == "ran\n").count() == 1, "more than one agent ran");
    Ok(())
}

const REPORT: &str = r#"{"report":{"ended_by":"exit","exit_code":0}}"#;
const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python];
const ISOLATED: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python, Need::Namespaces];
