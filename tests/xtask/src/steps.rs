//! Steps that take long: told before they begin, run with a deadline, their output shown as it comes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Says what begins now, and how long after the start of the task.
#[expect(clippy::print_stderr, reason = "progress is for the terminal")]
pub(crate) fn say(text: &str) {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    eprintln!("[{:6.1} s] {text}", START.get_or_init(Instant::now).elapsed().as_secs_f64());
}

/// What a step printed, and whether it went well.
pub(crate) struct Done {
    pub(crate) good: bool,
    pub(crate) output: String,
}

/// Runs a command and shows its output as it comes.
#[expect(clippy::print_stdout, reason = "the output of the step is shown")]
pub(crate) fn show(what: &str, command: &mut Command, time: Duration) -> Result<Done> {
    say(what);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("start {what}"))?;
    let lines = child.stdout.take().context("read a step's output")?;
    let reader = std::thread::spawn(move || {
        let mut output = String::new();
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            println!("{line}");
            output.push_str(&line);
            output.push('\n');
        }
        output
    });
    let end = Instant::now() + time;
    let status = loop {
        if let Some(status) = child.try_wait().with_context(|| format!("wait for {what}"))? {
            break status;
        }
        if Instant::now() > end {
            let _gone = child.kill();
            let _reaped = child.wait();
            bail!("{what} took more than {} minutes", time.as_secs() / 60);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Ok(Done { good: status.success(), output: reader.join().unwrap_or_default() })
}

/// The same for a step that must go well.
pub(crate) fn must(what: &str, command: &mut Command, time: Duration) -> Result<String> {
    let done = show(what, command, time)?;
    if !done.good {
        bail!("{what} failed");
    }
    Ok(done.output)
}

/// Whether a program is in one of the folders of `PATH`.
pub(crate) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
