//! What the supervisor hears: lines from its owner, the end of its owner, signals.
//!
//! Two threads do nothing but wait and pass on; the main thread alone acts.

use std::{
    cell::Cell,
    io::BufRead,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::{SigSet, Signal};

use crate::StoresError;

/// Something happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The owner wrote a line.
    Line(String),
    /// The owner closed the pipe or died, or somebody sent SIGTERM: stop.
    Stop,
    /// A child ended and wants to be reaped.
    ChildEnded,
}

/// The one queue of [`Event`]s.
pub(super) struct Events {
    events: Receiver<Event>,
    /// A stop was heard in [`pause`](Self::pause); it must not be forgotten.
    stopped: Cell<bool>,
}

impl Events {
    /// Blocks the signals for this thread, hence for those it starts, and begins to listen.
    ///
    /// SIGINT and SIGHUP are taken and ignored: a Ctrl-C or a closed terminal is
    /// the owner's to answer, and the owner's end comes through the pipe.
    pub(super) fn open() -> nix::Result<Self> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD] {
            signals.add(signal);
        }
        signals.thread_block()?;
        let (sender, events) = channel();
        let from_signals = sender.clone();
        thread::spawn(move || pass_on_signals(&signals, &from_signals));
        thread::spawn(move || pass_on_lines(&sender));
        Ok(Self { events, stopped: Cell::new(false) })
    }

    /// Waits for the next event, for ever.
    pub(super) fn next(&self) -> Event {
        if self.stopped.get() {
            return Event::Stop;
        }
        // Both senders gone means that nobody can ever tell us to stop: stop.
        self.events.recv().unwrap_or(Event::Stop)
    }

    /// Sleeps, but wakes at once with an error when the owner went away meanwhile.
    /// For use while an answer is owed, when the owner has nothing else to say.
    pub(super) fn pause(&self, span: Duration) -> Result<(), StoresError> {
        let until = Instant::now() + span;
        loop {
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.stopped.set(true);
                    return Err(StoresError::Supervisor(
                        "the servers were told to stop while they started".to_owned(),
                    ));
                }
                Ok(Event::ChildEnded | Event::Line(_)) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(()),
            }
        }
    }
}

fn pass_on_signals(signals: &SigSet, events: &Sender<Event>) {
    loop {
        let event = match signals.wait() {
            Ok(Signal::SIGTERM) => Event::Stop,
            Ok(Signal::SIGCHLD) => Event::ChildEnded,
            _ => continue,
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

fn pass_on_lines(events: &Sender<Event>) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if events.send(Event::Line(line)).is_err() {
            return;
        }
    }
    // A failed send means that the supervisor is ending already.
    let _ = events.send(Event::Stop);
}
