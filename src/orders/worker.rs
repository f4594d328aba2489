//! Work that nobody asks for, taken in steps by a task that lives as long as its handle.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use rand::RngExt;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::store::StoreError;

/// How long a worker rests at most where there is nothing to do, and at least half of it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Work in steps.
pub(super) trait Work: Send + 'static {
    /// Takes one step. Returns whether there may be more to do at once.
    fn step(&mut self) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// A task that ends with this.
#[derive(Debug)]
pub struct Worker(AbortHandle);

impl Worker {
    /// Takes steps until this is dropped.
    pub(super) fn start(mut work: impl Work) -> Self {
        let task = tokio::spawn(async move {
            loop {
                let step = AssertUnwindSafe(work.step()).catch_unwind().await;
                // The panic's own message is on standard error. The next step may go well.
                let Ok(step) = step else {
                    tracing::error!("a step of a worker panicked");
                    sleep(next_look()).await;
                    continue;
                };
                match step {
                    Ok(true) => {}
                    Ok(false) => sleep(next_look()).await,
                    Err(error) => {
                        // The store's handle has logged that it is away, once and not for each step.
                        if !error.retry_may_help() {
                            tracing::error!(%error, "a worker met a defect");
                        }
                        sleep(next_look()).await;
                    }
                }
            }
        });
        Self(task.abort_handle())
    }

    /// Takes no further step. One that is under way is broken off: what it did not finish, another server or
    /// the next start does.
    pub fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Not all servers at one moment.
fn next_look() -> Duration {
    LOOK_EVERY.mul_f64(rand::rng().random_range(0.5..1.0))
}
