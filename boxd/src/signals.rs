//! The signals that boxd listens to: those it passes on, and the one that says a child has ended.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::sys;

/// Signals meant for the agent.
pub(crate) struct Asked(Vec<(Signal, unix::Signal)>);

/// Word that some child has ended; how many have, only `waitpid` knows.
pub(crate) struct ChildEnded(unix::Signal);

/// Listens, and only then lets through what has been held back since the start.
pub(crate) fn listen() -> io::Result<(Asked, ChildEnded)> {
    let passed_on = PASSED_ON.iter().map(|signal| {
        let stream = unix::signal(SignalKind::from_raw(*signal as i32))?;
        Ok((*signal, stream))
    });
    let asked = Asked(passed_on.collect::<io::Result<_>>()?);
    let ended = ChildEnded(unix::signal(SignalKind::child())?);
    // Beyond a limit of the size of files a write fails: without this boxd would be killed, and its run lost.
    drop(unix::signal(SignalKind::from_raw(Signal::SIGXFSZ as i32))?);
    sys::let_signals_through()?;
    Ok((asked, ended))
}

impl Asked {
    /// The next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| self.poll(context)).await
    }

    /// The next signal that asks boxd to end; others are of no use before there is an agent.
    pub(crate) async fn end_asked(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if ends(signal) {
                return signal;
            }
        }
    }

    /// A signal to end that has come already.
    pub(crate) fn end_already_asked(&mut self) -> Option<Signal> {
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(signal) = self.poll(&mut context) {
            if ends(signal) {
                return Some(signal);
            }
        }
        None
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Signal> {
        for (signal, stream) in &mut self.0 {
            if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                return Poll::Ready(*signal);
            }
        }
        Poll::Pending
    }
}

impl ChildEnded {
    pub(crate) async fn wait(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether the signal asks for the end of the run.
pub(crate) const fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTERM | Signal::SIGINT)
}

/// What boxd passes on, inside the box and outside of it.
pub(crate) const PASSED_ON: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];
