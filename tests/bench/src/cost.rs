//! What processes cost: CPU time of a whole tree to the nanosecond, and memory.

use std::time::Instant;

use anyhow::{Context, Result};
use harness::process::descendants;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// CPU time, user and system, of these processes and all below them: seconds.
pub(crate) fn cpu(roots: &[i32]) -> f64 {
    let seconds = |pid: i32| {
        let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
        let time = clock_gettime(clock).ok()?;
        Some(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
    };
    tree(roots).into_iter().filter_map(seconds).sum()
}

/// Memory of these processes and all below them, shared pages by share: KiB.
pub(crate) fn memory(roots: &[i32]) -> Result<f64> {
    tree(roots).into_iter().map(proportional).sum()
}

/// What others do on the machine meanwhile.
pub(crate) struct Noise {
    began: Instant,
    machine: f64,
    ours: f64,
}

impl Noise {
    pub(crate) fn begin() -> Result<Self> {
        Ok(Self { began: Instant::now(), machine: machine()?, ours: ours() })
    }

    /// How many cores others kept busy since then.
    pub(crate) fn cores(&self) -> Result<f64> {
        let foreign = (machine()? - self.machine) - (ours() - self.ours);
        Ok((foreign / self.began.elapsed().as_secs_f64()).max(0.0))
    }
}

/// CPU time of this program and all that it started.
fn ours() -> f64 {
    cpu(&[nix::unistd::getpid().as_raw()])
}

/// CPU time that the whole machine spent: seconds.
fn machine() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/stat").context("read /proc/stat")?;
    let line = text.lines().next().context("read /proc/stat")?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, interrupts; not idle, waiting and stolen.
    Ok([0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum::<f64>() / 100.0)
}

fn tree(roots: &[i32]) -> Vec<i32> {
    roots.iter().flat_map(|root| [*root].into_iter().chain(descendants(*root))).collect()
}

fn proportional(pid: i32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("read a subject's memory")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).context("find Pss")?;
    line.trim().trim_end_matches(" kB").parse().context("read Pss")
}
