//! A clock that stands still unless the test moves it, however long a server takes to
//! answer: what sleeps is not woken by time.

use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime of one thread with such a clock: what is awaited decides what happens.
pub struct StillClock {
    /// A paused clock leaps ahead when all tasks are idle, but not while something blocks.
    _blocking: mpsc::Sender<()>,
    runtime: Runtime,
    /// With a clock that runs.
    running: Runtime,
}

impl Default for StillClock {
    fn default() -> Self {
        Self::new()
    }
}

impl StillClock {
    pub fn new() -> Self {
        let running = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let runtime =
            Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (blocking, until_over) = mpsc::channel();
        runtime.spawn_blocking(move || until_over.recv());
        Self { _blocking: blocking, runtime, running }
    }

    /// A runtime beside this one, for what is no part of the test.
    pub fn running(&self) -> &Handle {
        self.running.handle()
    }

    /// `None`: it took longer than `patience` by the clock that runs.
    pub fn block_on<T>(&self, patience: Duration, test: impl Future<Output = T>) -> Option<T> {
        let vain = self.running.spawn(async move { tokio::time::sleep(patience).await });
        self.runtime.block_on(async {
            tokio::select! {
                answer = test => Some(answer),
                _ = vain => None,
            }
        })
    }
}
