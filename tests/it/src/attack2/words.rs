//! What a box says and an operator reads: nothing of it is a command to a terminal.

use anyhow::{Result, ensure};
use box_spec::FromBox;
use harness::fakes::{FakeAgents, result_event};
use harness::{BoxRun, Case, Claimed, House, Need, case, claim, process};
use standin::Real;
use std::process::Command;
use std::time::Duration;

use super::wire;

pub(crate) const CASES: &[Case] = &[
    case("attack2::no_word_of_a_box_in_the_ledger_is_a_command_to_a_terminal", ledger).needs(&[Need::Gateway]),
    case("attack2::an_agents_errors_are_no_commands_to_the_callers_terminal", terminal).needs(ISOLATED),
    case("attack2::an_agent_gets_no_terminal_and_no_file_of_its_caller", no_terminal).needs(BOXED),
];

fn ledger() -> Result<()> {
    let (_standin, house) = wire::house()?;
    let mut claimed = Claimed::take(&house.door("one"))?;
    let mut inside = wire::tunnel(&house, &claimed)?;
    inside
        .ask(format!("GET /{TRICKS} HTTP/1.1\r\nHost: api.anthropic.com\r\nUser-Agent: {TRICKS}\r\n\r\n").as_bytes())?;
    let report = box_spec::Report { error: Some(TRICKS.into()), ended_by: box_spec::EndedBy::Error, ..claim::report() };
    claimed.say(&FromBox::Report(report))?;
    house.wait_line("the report", |line| line["kind"] == "report")?;
    let written = std::fs::read(house.ledger_file())?;
    let told = house.gateway(&["ledger", "tail", "--json", "-n", "100"])?.expect_code(0)?.stdout;
    let short = house.gateway(&["ledger", "tail", "-n", "100"])?.expect_code(0)?.stdout;
    ensure!(
        house.ledger()?.iter().any(|line| line["facts"]["report"]["error"] == TRICKS),
        "the report's words are lost"
    );
    for (whose, bytes) in [("the ledger", written), ("--json", told), ("the short form", short)] {
        let text = String::from_utf8(bytes)?;
        let found = text.chars().find(|c| *c != '\n' && (c.is_control() || "\u{202e}\u{2066}".contains(*c)));
        ensure!(found.is_none(), "{whose} holds {found:?}");
    }
    Ok(())
}

fn terminal() -> Result<()> {
    let house = house()?;
    let script = format!("printf 'one\\033]0;owned\\007\\302\\2332Jtwo\\n' >&2; echo '{}'", result_event(TRICKS));
    let fakes = FakeAgents::shell(&script)?;
    let failing = FakeAgents::shell(&script.replace("\"is_error\":false", "\"is_error\":true"))?;
    let plain = BoxRun::new(&house, "one")?.prompt("hi").agents(fakes.folder());
    let fails = plain.clone().agents(failing.folder());
    for launch in [plain.clone().output("text"), plain.clone(), plain.isolated().output("text"), fails] {
        let told = String::from_utf8_lossy(&on_a_terminal(launch.command()?)?).into_owned();
        ensure!(told.contains("one") && told.contains("two") && told.contains("tricks"), "{told:?}");
        let found = told.chars().find(|c| c.is_control() && !"\r\n".contains(*c));
        ensure!(found.is_none(), "{found:?} reached the terminal: {told:?}");
    }
    Ok(())
}

fn no_terminal() -> Result<()> {
    let house = house()?;
    let fakes =
        FakeAgents::shell("for fd in 0 1 2; do test -t $fd && echo terminal; readlink /proc/self/fd/$fd; done; :")?;
    let launch = BoxRun::new(&house, "one")?.prompt("hi").agents(fakes.folder());
    let told = String::from_utf8_lossy(&on_a_terminal(launch.command()?)?).into_owned();
    ensure!(!told.contains("terminal") && !told.contains("/dev/pts"), "{told}");
    ensure!(told.matches("pipe:").count() == 2, "{told}");
    Ok(())
}

/// All that the command writes, with a terminal for its three streams.
fn on_a_terminal(command: Command) -> Result<Vec<u8>> {
    let mut outer = Command::new("python3");
    outer.args(["-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]);
    outer.arg(command.get_program()).args(command.get_args()).env_clear();
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ok(process::run(outer, None, Duration::from_secs(30))?.expect_code(0)?.stdout)
}

fn house() -> Result<House> {
    House::builder().open_network().secret(Real::ApiKey("sk-ant-api03-REAL-KEY-of-words".into())).start()
}

/// CSI as one character and as two, a device control string, what turns the direction of text, and DEL.
const TRICKS: &str = "tricks\u{9b}2J\u{90}\u{202e}\u{2066}\u{7f}";
const ISOLATED: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python, Need::Namespaces];
const BOXED: &[Need] = &[Need::Gateway, Need::Boxd, Need::Python];
