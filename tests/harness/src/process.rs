//! Programs as children: started in a group of their own, read to the end, ended with all that they started.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A program that ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub took: Duration,
}

/// A program that runs. Dropped, it is killed with all its descendants.
pub struct Running {
    child: Child,
    name: String,
    began: Instant,
    stdout: Pipe,
    stderr: Pipe,
    ended: bool,
    /// Folders that the program needs as long as it runs.
    held: Vec<Arc<TempDir>>,
}

/// Starts a program with these bytes, and then nothing, on its standard input.
///
/// # Errors
///
/// When it cannot be started.
pub fn start(mut command: Command, input: Option<Vec<u8>>) -> Result<Running> {
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut running = spawn(command)?;
    if let (Some(mut pipe), Some(input)) = (running.child.stdin.take(), input) {
        // A program that does not read its input has ended or will be ended by the deadline.
        std::thread::spawn(move || drop(pipe.write_all(&input)));
    }
    Ok(running)
}

/// Starts a program whose standard input is written to later, as by a person.
///
/// # Errors
///
/// When it cannot be started.
pub fn start_talking(mut command: Command) -> Result<(Running, ChildStdin)> {
    command.stdin(Stdio::piped());
    let mut running = spawn(command)?;
    let input = running.child.stdin.take().context("take the program's input")?;
    Ok((running, input))
}

fn spawn(mut command: Command) -> Result<Running> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let began = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {name}"))?;
    let stdout = Pipe::read(child.stdout.take());
    let stderr = Pipe::read(child.stderr.take());
    Ok(Running { child, name, began, stdout, stderr, ended: false, held: Vec::new() })
}

/// Starts a program and waits for its end.
///
/// # Errors
///
/// When it cannot be started, or does not end in time.
pub fn run(command: Command, input: Option<Vec<u8>>, time: Duration) -> Result<Ran> {
    start(command, input)?.wait(time)
}

impl Ran {
    /// # Errors
    ///
    /// When the exit code is another; tells what the program said.
    pub fn expect_code(self, code: i32) -> Result<Self> {
        if self.code == Some(code) {
            return Ok(self);
        }
        bail!(
            "ended with {:?} (signal {:?}) after {:?}, not with {code}\nstderr: {}\nstdout: {}",
            self.code,
            self.signal,
            self.took,
            self.stderr,
            tail(&self.text())
        );
    }

    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The lines of standard output that are JSON.
    #[must_use]
    pub fn events(&self) -> Vec<serde_json::Value> {
        self.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// claude's last event, its result.
    ///
    /// # Errors
    ///
    /// When there is none; tells what the program said.
    pub fn result(&self) -> Result<serde_json::Value> {
        let found = self.events().into_iter().rev().find(|event| event["type"] == "result");
        found.with_context(|| {
            format!("no result among the events\nstderr: {}\nstdout: {}", self.stderr, tail(&self.text()))
        })
    }
}

impl Running {
    /// Keeps a folder as long as the program runs.
    #[must_use]
    pub fn holding(mut self, folder: &Arc<TempDir>) -> Self {
        self.held.push(folder.clone());
        self
    }

    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// # Errors
    ///
    /// When the program is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.pid()), signal).with_context(|| format!("send {signal} to {}", self.name))
    }

    /// What it wrote so far.
    #[must_use]
    pub fn stdout(&self) -> Vec<u8> {
        self.stdout.bytes()
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.bytes()).into_owned()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// # Errors
    ///
    /// When it does not end in time: then it is killed, and what it said is told.
    pub fn wait(mut self, time: Duration) -> Result<Ran> {
        let end = self.began + time;
        let status = loop {
            if let Some(status) = self.child.try_wait().context("wait for a program")? {
                break status;
            }
            if Instant::now() > end {
                self.kill_all();
                bail!(
                    "{} did not end within {time:?}\nstderr: {}\nstdout: {}",
                    self.name,
                    self.stderr(),
                    tail(&String::from_utf8_lossy(&self.stdout()))
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Ok(self.finish(status))
    }

    fn finish(&mut self, status: ExitStatus) -> Ran {
        let took = self.began.elapsed();
        self.ended = true;
        // Something that outlived the program may hold its pipes open.
        let late = Instant::now() + Duration::from_secs(2);
        while !(self.stdout.is_done() && self.stderr.is_done()) && Instant::now() < late {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ran { code: status.code(), signal: status.signal(), stdout: self.stdout(), stderr: self.stderr(), took }
    }

    fn kill_all(&mut self) {
        for pid in descendants(self.pid()) {
            let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
        self.ended = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.kill_all();
        }
    }
}

/// All processes below this one, as they are now.
#[must_use]
pub fn descendants(root: i32) -> Vec<i32> {
    let parents = parents();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.remove(0);
    found
}

/// Processes of this machine that have this argument.
#[must_use]
pub fn with_argument(argument: &str) -> Vec<i32> {
    let holds = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|one| one == argument.as_bytes())
    };
    parents().into_iter().map(|(pid, _)| pid).filter(holds).collect()
}

/// Every process with its parent.
fn parents() -> Vec<(i32, i32)> {
    let Ok(folder) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        Some((pid, rest.split_whitespace().nth(1)?.parse().ok()?))
    })
    .collect()
}

/// A pipe that a thread reads to its end.
struct Pipe {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Pipe {
    fn read(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = bytes.clone();
        let reader = pipe.map(|mut pipe| {
            std::thread::spawn(move || {
                let mut piece = vec![0; 64 * 1024];
                while let Ok(fresh @ 1..) = pipe.read(&mut piece) {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..fresh]);
                }
            })
        });
        Self { bytes, reader }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_done(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

fn tail(text: &str) -> String {
    let start = text.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
    text[start..].to_owned()
}
