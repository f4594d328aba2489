//! Work that nobody asks for, taken in steps by a task that lives as long as its handle.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use rand::RngExt;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::store::StoreError;

/// How long a worker rests at most if there is nothing to do, and at least half of it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Work in steps.
pub(crate) trait Chore: Send + 'static {
    /// Takes one step. Returns whether there may be more to do at once.
    fn step(&mut self) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// How long to rest before the first step, and after one that left nothing to do at once. Not all servers look at one
    /// moment.
    fn rest(&self) -> Duration {
        LOOK_EVERY.mul_f64(rand::rng().random_range(0.5..1.0))
    }

    /// A step panicked: what it was about is not known. The next one may go well.
    fn panicked(&mut self) {}
}

/// A task that ends with this.
#[derive(Debug)]
pub struct Worker(AbortHandle);

impl Worker {
    /// Takes steps until this is dropped.
    pub(crate) fn start(mut chore: impl Chore) -> Self {
        let task = tokio::spawn(async move {
            let mut has_more = false;
            loop {
                if !has_more {
                    sleep(chore.rest()).await;
                }
                has_more = run_step(&mut chore).await;
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

/// Runs one step. Returns whether there may be more to do at once; a panic or a defect is logged.
pub(crate) async fn run_step(chore: &mut impl Chore) -> bool {
    let Ok(step) = AssertUnwindSafe(chore.step()).catch_unwind().await else {
        // The panic's own message is on standard error.
        tracing::error!("a step of a worker panicked");
        chore.panicked();
        return false;
    };
    step.unwrap_or_else(|error| {
        // The store's handle has logged that it is away, once and not for each step.
        if !error.retry_may_help() {
            tracing::error!(%error, "a worker met a defect");
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    struct Flawed {
        steps: mpsc::UnboundedSender<&'static str>,
        next: Vec<&'static str>,
    }

    impl Chore for Flawed {
        async fn step(&mut self) -> Result<bool, StoreError> {
            let next = self.next.pop();
            assert_ne!(next, Some("a defect"));
            let Some(step) = next else { return std::future::pending().await };
            let _ = self.steps.send(step);
            Ok(true)
        }

        fn panicked(&mut self) {
            let _ = self.steps.send("panicked");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_goes_on_after_a_panic_until_it_is_dropped() {
        let (steps, mut taken) = mpsc::unbounded_channel();
        let worker = Worker::start(Flawed { steps, next: vec!["last", "a defect", "first"] });
        for expected in ["first", "panicked", "last"] {
            assert_eq!(taken.recv().await, Some(expected));
        }
        drop(worker);
        assert_eq!(taken.recv().await, None);
    }
}
