//! Hardening in every kind of box: what a hostile agent tries with the kernel, what the house hears of the box, and
//! what it takes to go without.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::fakes::FakeAgents;
use harness::{BoxRun, Case, House, Need, case, process};
use nix::libc;
use serde_json::{Value, json};

use crate::attack::open_house;

pub(crate) const CASES: &[Case] = &[
    case("hardened::whatever_made_the_box_the_kernel_refuses_the_attacks", attacks).needs(ALL),
    case("hardened::the_house_writes_down_what_the_box_is", attested).needs(ALL),
    case("hardened::what_the_kernel_does_not_give_ends_the_launch", ungiven).needs(ROOT),
    case("hardened::a_layer_left_out_needs_a_reason_and_the_houses_word", left_out).needs(ALL),
];

/// The table: each attempt as a line of the agent's program, and what must come of it.
const ATTACKS: &[(&str, &str, &[&str])] = &[
    ("boxd is traced", "call(101, 16, boxd, 0, 0)", REFUSED),
    ("boxd is traced, the newer way", "call(101, 0x4206, boxd, 0, 0)", REFUSED),
    ("boxd's memory is read", "call(310, boxd, 0, 0, 0, 0, 0)", REFUSED),
    ("boxd's memory is written", "call(311, boxd, 0, 0, 0, 0, 0)", REFUSED),
    ("boxd's memory is opened", "reads('/proc/%d/mem' % boxd)", REFUSED),
    ("boxd's environment is read", "reads('/proc/%d/environ' % boxd)", REFUSED),
    ("boxd's descriptors are looked at", "looks('/proc/%d/fd/0' % boxd)", REFUSED),
    ("a descriptor of boxd is taken", "call(438, 0, 0, 0)", REFUSED),
    ("boxd's limits are set", "call(302, boxd, 7, 0, 0)", REFUSED),
    ("boxd is signalled", "signals(boxd)", REFUSED),
    ("io_uring", "call(425, 1, 0)", ABSENT),
    ("keyrings", "call(250, 0, 0, 0, 0, 0)", REFUSED),
    ("bpf", "call(321, 0, 0, 0)", REFUSED),
    ("performance events", "call(298, 0, 0, 0, 0, 0)", REFUSED),
    ("page faults of its own", "call(323, 0)", ABSENT),
    ("a file by its number", "call(304, 0, 0, 0)", REFUSED),
    ("mount", "call(165, 0, 0, 0, 0, 0)", REFUSED),
    ("mount, the newer way", "call(430, 0, 0)", REFUSED),
    ("another root", "call(155, 0, 0)", REFUSED),
    ("a user namespace", "call(272, 0x10000000)", REFUSED),
    ("a network namespace", "call(272, 0x40000000)", REFUSED),
    ("a user namespace by clone", "call(56, 0x10000011, 0, 0, 0, 0)", REFUSED),
    ("a user namespace by clone3", "call(435, 0, 0)", ABSENT),
    ("another's namespace", "call(308, 0, 0)", REFUSED),
    ("a module for the kernel", "call(175, 0, 0, 0)", REFUSED),
    ("the kernel's log", "call(103, 10, 0, 0)", REFUSED),
    ("a raw socket", "opens(socket.AF_INET, socket.SOCK_RAW, 1)", REFUSED),
    ("a raw IPv6 socket", "opens(socket.AF_INET6, socket.SOCK_RAW, 58)", REFUSED),
    ("a packet socket", "opens(17, socket.SOCK_RAW, 0)", &["EAFNOSUPPORT"]),
    ("a socket to the hypervisor", "opens(40, socket.SOCK_STREAM, 0)", &["EAFNOSUPPORT"]),
    ("a set-uid program", "marks(0o4755)", REFUSED),
    ("a set-gid program", "marks(0o2755)", REFUSED),
    ("a 32-bit call", "call(0x40000000 + 39)", ABSENT),
];
const REFUSED: &[&str] = &["EPERM", "EACCES"];
const ABSENT: &[&str] = &["ENOSYS"];

/// What the attacks are made of. A null pointer where the kernel asks for memory: a call that was let in is EFAULT.
const TOOLS: &str = "
import ctypes, errno, json, os, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
boxd, out = os.getppid(), {}
def name(number): return errno.errorcode.get(number, str(number))
def call(number, *arguments):
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return 'DONE' if done >= 0 else name(ctypes.get_errno())
def attempt(what):
    try: what(); return 'DONE'
    except OSError as e: return name(e.errno)
def reads(path): return attempt(lambda: open(path, 'rb').read(1))
def looks(path): return attempt(lambda: os.readlink(path))
def signals(pid): return attempt(lambda: os.kill(pid, 0))
def opens(*what): return attempt(lambda: socket.socket(*what))
def marks(mode): open('marked', 'w').close(); return attempt(lambda: os.chmod('marked', mode))
";

fn attacks() -> Result<()> {
    let house = open_house().start()?;
    refused("isolated", &house, &BoxRun::new(&house, "one")?.isolated())?;
    refused("not isolated", &house, &BoxRun::new(&house, "one")?)?;
    if nix::unistd::Uid::effective().is_root() {
        let house = open_house().as_user(USER).start()?;
        refused("not isolated, no root", &house, &BoxRun::new(&house, "one")?.as_user(USER)?)?;
    }
    Ok(())
}

fn refused(kind: &str, house: &House, launch: &BoxRun) -> Result<()> {
    let attempts: String = ATTACKS.iter().map(|(what, how, _)| format!("out[{what:?}] = {how}\n")).collect();
    let seen = probe(launch, &attempts)?;
    let scoped = last_attested(house)?["layers"]["scope"] == "on";
    let mut open = Vec::new();
    for (what, _, expected) in ATTACKS {
        let how = seen[what].as_str().unwrap_or("nothing");
        // A kernel without scopes lets signals to a process of the same user through.
        let excused = *what == "boxd is signalled" && how == "DONE" && !scoped;
        if !expected.contains(&how) && !excused {
            open.push(format!("{what}: {how}, not one of {expected:?}"));
        }
    }
    ensure!(open.is_empty(), "{kind}: {open:#?}");
    Ok(())
}

fn attested() -> Result<()> {
    let house = open_house().start()?;
    for isolated in [true, false] {
        let launch = BoxRun::new(&house, "one")?;
        let launch = if isolated { launch.isolated() } else { launch };
        let seen = probe(
            &launch,
            "status = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)
out.update({k: status[k] for k in ('CapEff', 'CapBnd', 'Seccomp', 'Seccomp_filters', 'NoNewPrivs')})
out['uname'] = os.uname().release
out['core'] = __import__('resource').getrlimit(4)
out['oom'] = int(open('/proc/self/oom_score_adj').read())",
        )?;
        let told = last_attested(&house)?;
        for (layer, state) in told["layers"].as_object().context("no layers")? {
            ensure!(state == "on" || layer == "scope" && state == "absent", "{layer}: {state}");
        }
        for proof in ["non_dumpable", "no_new_privileges", "trusts_house"] {
            ensure!(told[proof] == true, "{proof}: {told}");
        }
        // What the agent has is what was told of it.
        let facts = &told["facts"];
        ensure!(facts["capabilities"] == seen["CapEff"] && facts["bounding"] == seen["CapBnd"], "{facts} {seen}");
        ensure!(facts["filters"].as_u64() == count(&seen["Seccomp_filters"]), "{facts} {seen}");
        ensure!(facts["kernel"] == seen["uname"] && facts["image"].is_string(), "{facts}");
        ensure!(facts["read_only_root"] == isolated, "{facts}");
        ensure!(seen["Seccomp"] == "2" && seen["NoNewPrivs"] == "1", "{seen}");
        ensure!(seen["core"] == json!([0, 0]) && seen["oom"].as_i64() >= Some(500), "{seen}");
        if isolated {
            for nothing in ["interfaces", "routes", "name_servers"] {
                ensure!(facts[nothing] == json!([]), "{nothing}: {facts}");
            }
        }
    }
    Ok(())
}

/// A machine that refuses one of the calls by which boxd closes and hardens itself.
fn ungiven() -> Result<()> {
    let house = open_house().start()?;
    let fakes = FakeAgents::shell("echo started")?;
    for (what, call, argument, code, said) in [
        ("dumpable", libc::SYS_prctl, Some((0, 4)), 70, "prepare this process"),
        ("no_new_privs", libc::SYS_prctl, Some((0, 38)), 70, "prepare this process"),
        ("core files", libc::SYS_prlimit64, Some((1, 4)), 77, "forbid core files"),
        ("capabilities", libc::SYS_capset, None, 77, "give up capabilities"),
        ("a filter", libc::SYS_seccomp, None, 77, "install the system call filter"),
    ] {
        let launch = BoxRun::new(&house, "one")?.agents(fakes.folder()).prompt("hi");
        let ran = process::run(without(&launch.command()?, call, argument), None, SOON)?;
        let ran = ran.expect_code(code).context(what)?;
        ensure!(ran.stderr.contains(said) && ran.stdout.is_empty(), "{what}: {} {}", ran.text(), ran.stderr);
    }
    ensure!(house.ledger()?.iter().all(|line| line["kind"] != "claim"), "a run was claimed");
    // It is the call that was missing, and nothing else.
    let launch = BoxRun::new(&house, "one")?.agents(fakes.folder()).prompt("hi");
    process::run(without(&launch.command()?, libc::SYS_swapon, None), None, SOON)?.expect_code(0).map(drop)
}

/// The command where this system call, with this argument at this place if one is named, is refused (EPERM).
fn without(command: &Command, call: i64, argument: Option<(u32, u32)>) -> Command {
    let mut python = Command::new("python3");
    let argument = argument.map_or_else(String::new, |(place, value)| format!("{} {value}", 16 + 8 * place));
    python.args(["-c", WITHOUT]).args([call.to_string(), argument]);
    python.arg(command.get_program()).args(command.get_args()).env_clear();
    python.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        python.current_dir(folder);
    }
    python
}

/// As root it needs no no_new_privs. A filter: the number is at 0, the arguments at 16, 24 … (`struct seccomp_data`).
const WITHOUT: &str = "
import ctypes, os, struct, sys
call, argument, program = int(sys.argv[1]), [int(word) for word in sys.argv[2].split()], sys.argv[3:]
step = lambda code, yes, no, k: struct.pack('HBBI', code, yes, no, k)
looks = [step(0x20, 0, 0, argument[0]), step(0x15, 0, 1, argument[1])] if argument else []
steps = [step(0x20, 0, 0, 0), step(0x15, 0, len(looks) + 1, call)] + looks + [step(6, 0, 0, 0x50001), step(6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(steps))
filter = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(steps), ctypes.addressof(code)))
assert ctypes.CDLL(None, use_errno=True).prctl(22, 2, ctypes.byref(filter), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(program[0], program)
";

fn left_out() -> Result<()> {
    let house = open_house().add_box("soft", "unsafe_open_network = true\nunsafe_unhardened = true").start()?;
    let show = FakeAgents::shell("grep -E '^(Seccomp|CapEff):' /proc/self/status")?;
    let launch = |id: &str, left_out: &str| -> Result<BoxRun> {
        let launch = BoxRun::new(&house, id)?.agents(show.folder()).prompt("hi");
        Ok(launch.option("--unsafe-without").option(left_out))
    };
    for bad in ["filter", "filter=", "everything=why not"] {
        let ran = launch("soft", bad)?.run(SOON)?.expect_code(64)?;
        ensure!(ran.stderr.contains("--unsafe-without"), "{}", ran.stderr);
    }
    for layer in ["filter", "capabilities", "scope", "limits"] {
        let ran = launch("one", &format!("{layer}=a debugger"))?.run(SOON)?.expect_code(77)?;
        ensure!(ran.stderr.contains(layer) && ran.stderr.contains("unsafe_unhardened"), "{}", ran.stderr);
        ensure!(ran.stdout.is_empty(), "the agent ran: {}", ran.text());
        launch("soft", &format!("{layer}=a debugger"))?.run(SOON)?.expect_code(0)?;
        let told = last_attested(&house)?;
        ensure!(told["layers"][layer] == json!({"left_out": "a debugger"}), "{told}");
    }
    for isolated in [true, false] {
        let launch = launch("soft", "filter=a debugger")?;
        let ran = if isolated { launch.isolated() } else { launch }.run(SOON)?.expect_code(0)?;
        ensure!(ran.text().contains("Seccomp:\t0"), "{}", ran.text());
        ensure!(ran.stderr.contains("without the layer filter: a debugger"), "{}", ran.stderr);
    }
    Ok(())
}

fn count(text: &Value) -> Option<u64> {
    text.as_str()?.parse().ok()
}

fn last_attested(house: &House) -> Result<Value> {
    let lines = house.ledger()?;
    let line = lines.iter().rev().find(|line| line["kind"] == "attested").context("nothing was attested")?;
    Ok(line["facts"]["attestation"].clone())
}

fn probe(launch: &BoxRun, body: &str) -> Result<Value> {
    let fakes = FakeAgents::python(&format!("{TOOLS}{body}\nprint(json.dumps(out))"))?;
    let ran = launch.clone().agents(fakes.folder()).prompt("hi").run(SOON)?.expect_code(0)?;
    serde_json::from_slice(&ran.stdout).with_context(|| format!("parse {}", ran.text()))
}

const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces, Need::Python];
const ROOT: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python, Need::Root];
/// The usual user of an image.
const USER: u32 = 1000;
const SOON: Duration = Duration::from_secs(30);
