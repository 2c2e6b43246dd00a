//! A person at a terminal: waits for what is shown, types, and changes the window's size.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::process::{self, Ran};

/// One deed at the terminal.
#[derive(Clone, Copy, Debug)]
pub enum Deed<'a> {
    /// Waits for a text, counted from what was last waited for.
    See(&'a str),
    /// Types, control characters too.
    Type(&'a str),
    /// Makes the window so many rows and columns.
    Resize(u16, u16),
    /// Ends the command that the terminal was opened for with this signal.
    Signal(i32),
}

/// Runs a command with a terminal of its own as its controlling one. What was shown is the standard output that is given; a
/// deed that does not come true within 30 s ends it with 99.
///
/// # Errors
///
/// When it does not end in time.
pub fn at_terminal(command: &Command, deeds: &[Deed<'_>], time: Duration) -> Result<Ran> {
    let deeds: Vec<serde_json::Value> = deeds
        .iter()
        .map(|deed| match deed {
            Deed::See(text) => serde_json::json!(["see", text]),
            Deed::Type(text) => serde_json::json!(["type", text]),
            Deed::Resize(rows, columns) => serde_json::json!(["resize", rows, columns]),
            Deed::Signal(number) => serde_json::json!(["signal", number]),
        })
        .collect();
    let mut person = Command::new("python3");
    person.args(["-c", PERSON]).arg(serde_json::Value::from(deeds).to_string());
    person.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => person.env(name, value),
            None => person.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        person.current_dir(folder);
    }
    process::run(person, None, time)
}

const PERSON: &str = r#"
import fcntl, json, os, pty, select, signal, struct, sys, termios, time
deeds, argv = json.loads(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(argv[0], argv)
shown, at = b'', 0
def resize(rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
def read(wait):
    global shown
    ready, _, _ = select.select([terminal], [], [], wait)
    if not ready:
        return True
    try:
        more = os.read(terminal, 65536)
    except OSError:
        more = b''
    shown += more
    return bool(more)
def give_up(what):
    sys.stdout.buffer.write(shown)
    sys.stderr.write('%s did not come true\n' % what)
    os.kill(pid, signal.SIGKILL)
    sys.exit(99)
resize(24, 80)
for deed, *what in deeds:
    if deed == 'see':
        until, text = time.monotonic() + 30, what[0].encode()
        while shown.find(text, at) < 0:
            if time.monotonic() > until or not read(0.1):
                give_up('%r' % what[0])
        at = shown.find(text, at) + len(text)
    elif deed == 'type':
        os.write(terminal, what[0].encode())
    elif deed == 'resize':
        resize(*what)
    elif deed == 'signal':
        os.kill(pid, what[0])
while read(60):
    pass
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(shown)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"#;
