//! `gateway serve`: builds the house, opens its doors, and serves until it is told to end.

use std::path::Path;
use std::sync::Arc;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::config::{self, Config};
use crate::flow;
use crate::flow::accept::door::DoorListener;
use crate::flow::claim;
use crate::house::{House, HouseFault};
use crate::ledger::{Entry, Kind};
use crate::operator::{self, OperatorFault, OperatorListener};
use crate::reload;

use super::Exit;

/// Why the gateway does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeFault {
    #[error("{0}")]
    Config(config::ConfigFaults),
    #[error(transparent)]
    House(#[from] HouseFault),
    #[error(transparent)]
    Operator(#[from] OperatorFault),
    #[error("start the runtime")]
    Runtime(#[source] std::io::Error),
    #[error("listen for signals")]
    Signals(#[source] std::io::Error),
    #[error("record the start in the ledger")]
    Ledger(#[source] crate::ledger::LedgerError),
}

impl ServeFault {
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::House(HouseFault::Vault(_)) => Exit::Usage,
            Self::House(HouseFault::State(_) | HouseFault::HouseFile(_) | HouseFault::Door(_))
            | Self::Operator(
                OperatorFault::Bind { .. } | OperatorFault::NoSocket { .. } | OperatorFault::Mode { .. },
            ) => Exit::CannotCreate,
            Self::House(
                HouseFault::Taken { .. }
                | HouseFault::Ca(_)
                | HouseFault::Ledger(_)
                | HouseFault::Count(_)
                | HouseFault::Runs(_),
            )
            | Self::Operator(OperatorFault::Answered { .. })
            | Self::Ledger(_) => Exit::Unavailable,
            Self::Runtime(_) | Self::Signals(_) => Exit::Internal,
        }
    }
}

/// Serves until SIGTERM or SIGINT, then drains.
///
/// # Errors
/// The configuration is bad, or something that the house needs cannot be had.
pub fn run(path: &Path) -> Result<(), ServeFault> {
    close_to_others();
    gather_chance();
    let config = config::load(path).map_err(ServeFault::Config)?;
    descriptors();
    // The ledger's task may be held up by a disk: another thread must be there for all others.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).enable_all().build().map_err(ServeFault::Runtime)?;
    runtime.block_on(serve(config))
}

/// Whatever else runs as the same user reads neither this process's memory nor the environment that a secret came in, no
/// core file is written, and what is created is private from its first moment.
fn close_to_others() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "close the memory of this process to others of the same user");
    }
}

/// The cryptographic library measures the processor's jitter before it gives its first random bytes, which takes longer than
/// all else at a start. So it begins at once, beside what reads files.
fn gather_chance() {
    let gather = || {
        // Whoever needs random bytes asks again, and tells what went wrong.
        let _ = aws_lc_rs::rand::fill(&mut [0]);
    };
    // Without the thread, the first who asks waits.
    let _ = std::thread::Builder::new().name("chance".to_owned()).spawn(gather);
}

async fn serve(config: Config) -> Result<(), ServeFault> {
    let operator = config.operator_socket.clone();
    super::outlive_file_limits().map_err(ServeFault::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeFault::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeFault::Signals)?;
    // Without this a terminal that goes away, or whoever means to reload, would end the house.
    let hang_up = signal(SignalKind::hangup()).map_err(ServeFault::Signals)?;
    let (house, doors) = House::build(config)?;
    for outage in house.rules().vault.status().into_iter().filter_map(|secret| secret.outage) {
        tracing::warn!("{outage}: its grants answer credential-outage");
    }
    let operator = OperatorListener::bind(&operator)?;
    record_start(&house).await?;
    let serving = open(&house, doors, operator);
    tracing::info!(house = %house.fingerprint, boxes = house.boxes.len(), "the gateway serves");
    let over = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::select! {
        () = over => {}
        () = reload::keep_up(&house, hang_up) => {}
    }
    tracing::info!("the gateway goes down");
    house.drain.start();
    if !house.drain.wait(house.limits.drain).await {
        tracing::warn!("connections were still open when the time to drain was over");
    }
    for task in serving {
        task.abort();
    }
    if let Err(error) = house.ledger.note(Entry::new(Kind::Stop)).await {
        tracing::error!(%error, "record the stop in the ledger");
    }
    if let Err(error) = house.ledger.clone().close().await {
        tracing::error!(%error, "close the ledger");
    }
    Ok(())
}

fn open(house: &Arc<House>, doors: Vec<DoorListener>, operator: OperatorListener) -> Vec<JoinHandle<()>> {
    let mut tasks: Vec<_> = house
        .boxes
        .iter()
        .zip(doors)
        .map(|(here, door)| tokio::spawn(flow::door(Arc::clone(house), Arc::clone(here), door)))
        .collect();
    tasks.push(tokio::spawn(operator::serve(Arc::clone(house), operator)));
    // Runs of an earlier gateway have this long, counted from listening, to take up their claims again.
    let why = "the house restarted and the box did not come back in time";
    for run in house.runs.waiting() {
        let (house, grip, limit) = (Arc::clone(house), run.grip(), house.limits.reattach);
        // Without the word to go there was no agent, and its boxd does not come back.
        tasks.push(match run.attested() {
            None => tokio::spawn(async move { claim::never_began(&house, &run).await }),
            Some(_) => tokio::spawn(claim::until_taken_up(house, run, grip, limit, why)),
        });
    }
    tasks
}

/// Each connection of a box takes up to three descriptors. The usual soft limit of 1024 is for programs that use
/// `select`; with it one box could take what another needs.
fn descriptors() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        let wanted = soft.max(DESCRIPTORS.min(hard));
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).map(|()| wanted)
    });
    match raised {
        Ok(limit) if limit < DESCRIPTORS => {
            tracing::warn!(
                limit,
                wanted = DESCRIPTORS,
                "the hard limit of open files is low: boxes may take them from each other"
            );
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "raise the limit of open files"),
    }
}

async fn record_start(house: &House) -> Result<(), ServeFault> {
    let entry = Entry::new(Kind::Start)
        .fact("version", env!("CARGO_PKG_VERSION"))
        .fact("house", house.fingerprint.as_str())
        .fact("config", house.rules().digest.as_str())
        .fact("boxes", house.boxes.len());
    house.ledger.note(entry).await.map(drop).map_err(ServeFault::Ledger)
}

/// Three for each of `connections_total`, and some.
const DESCRIPTORS: u64 = 3 * 8192 + 1024;
