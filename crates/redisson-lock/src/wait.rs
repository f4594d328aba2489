//! The wait for a lock: one try after the other, and asleep in between.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::Instrument;

use super::acquire::try_once;
use super::acquire_target::{AcquireTarget, TryResult};
use super::claim::Admission;
use super::error::LockError;
use super::fair_place::FairPlace;
use super::guard::Guard;
use super::metric::{self, count};
use super::owner::Owner;
use super::waiters::{First, Woken};

/// Between two tries while Redis cannot be reached.
const OUTAGE_PAUSE: Duration = Duration::from_millis(100);

/// Waits for the lock without a limit.
pub(super) async fn wait(lock: &AcquireTarget) -> Result<Guard, LockError> {
    match wait_until(lock, None).await? {
        Some(guard) => Ok(guard),
        None => unreachable!("a wait without a deadline ends with a guard or an error"),
    }
}

/// Waits until `deadline`, or without a limit. `None`: the deadline came first.
///
/// No try is cut short by the deadline: one that was sent is answered, or cleaned up after as unknown.
/// Dropping the future is safe at any point.
pub(super) async fn wait_until(
    lock: &AcquireTarget,
    deadline: Option<Instant>,
) -> Result<Option<Guard>, LockError> {
    let span = tracing::debug_span!("wait_for_lock", name = lock.name);
    waited_for(lock, deadline).instrument(span).await
}

async fn waited_for(
    lock: &AcquireTarget,
    deadline: Option<Instant>,
) -> Result<Option<Guard>, LockError> {
    let begun = Instant::now();
    let mut wait = Wait { lock, owner: lock.entering(), deadline, place: None };
    if let Step::Done(done) = wait.step(None).await? {
        return Ok(done);
    }
    count!(CONTENDED, 1);
    let waited = tokio::select! {
        biased;
        waited = wait.in_queue() => waited,
        () = lock.shared.stop.cancelled() => Err(LockError::ShutDown),
    };
    metric::waited(begun.elapsed());
    if let (Ok(None), Some(place)) = (&waited, wait.place.take()) {
        // Before the caller hears of it: its next try must not find its own place in the way.
        place.leave().await;
    }
    waited
}

/// A waiter.
struct Wait<'a> {
    lock: &'a AcquireTarget,
    owner: Owner,
    deadline: Option<Instant>,
    /// In the queue of a fair lock.
    place: Option<FairPlace>,
}

enum Step {
    Done(Option<Guard>),
    /// Try again when woken, at this instant at the latest; `None`: the lock has no end.
    Later(Option<Instant>),
}

impl Wait<'_> {
    /// Waits to be the first of this process, then for the releases of other processes.
    async fn in_queue(&mut self) -> Result<Option<Guard>, LockError> {
        let shared = &self.lock.shared;
        let channel = self.lock.channel(&self.owner);
        // Owners that nobody else has share one queue. An owner that may enter again has its own:
        // behind a waiter that waits for it, it would wait for ever. (For a fair lock each owner has a
        // channel, and the queue of all of them is in Redis.)
        let queued = shared.waiters.enqueue(&channel, self.lock.owner.as_ref());
        let queued = queued.ok_or(LockError::TooManyWaiters(shared.options.max_waiters))?;
        let mut first: First = match self.deadline {
            Some(deadline) => match timeout_at(deadline, queued.first()).await {
                Ok(first) => first,
                Err(_) => return Ok(None),
            },
            None => queued.first().await,
        };
        let mut woken = None;
        loop {
            // Looked up before the try: a subscription that is confirmed after it makes for
            // another try.
            let listening = first.is_listening();
            let until = match self.step(woken.take()).await? {
                Step::Done(done) => return Ok(done),
                Step::Later(until) => until,
            };
            woken = first.sleep(listening, until).await;
        }
    }

    /// When a try of the wait may be granted. The first one in a fair lock takes a place in its queue.
    fn admission(&mut self) -> Result<Admission, LockError> {
        if !self.lock.fair {
            return Ok(Admission::Plain);
        }
        let (lock, owner) = (self.lock, &self.owner);
        let place = match self.place.take() {
            Some(place) => place,
            None => FairPlace::new(&lock.shared, |admission| lock.claim(owner.clone(), admission))?,
        };
        Ok(self.place.insert(place).admission())
    }

    /// One try. A waiter that was `woken` for it wakes another one if it cannot be made.
    async fn step(&mut self, woken: Option<Woken>) -> Result<Step, LockError> {
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let admission = if late { self.lock.admission() } else { self.admission()? };
        let until = match try_once(self.lock, self.owner.clone(), admission).await {
            Ok(tried) => {
                if let Some(woken) = woken {
                    woken.used();
                }
                match tried {
                    TryResult::Granted(guard) => {
                        self.place.take().into_iter().for_each(FairPlace::entered);
                        return Ok(Step::Done(Some(guard)));
                    }
                    TryResult::Held { remaining } => remaining.map(|left| Instant::now() + left),
                }
            }
            Err(error) if error.retry_may_help() => {
                drop(woken);
                Some(self.sit_out(error, late).await?)
            }
            Err(error) => return Err(error),
        };
        if late {
            return Ok(Step::Done(None));
        }
        Ok(Step::Later(match (until, self.deadline) {
            (Some(until), Some(deadline)) => Some(until.min(deadline)),
            (until, deadline) => until.or(deadline),
        }))
    }

    /// A try failed with `error`: pauses, and says when to try again; or fails with it, where the wait has
    /// no more time or no more patience.
    async fn sit_out(&mut self, error: LockError, late: bool) -> Result<Instant, LockError> {
        let shared = &self.lock.shared;
        if late || shared.outage_clock.try_failed() >= shared.options.outage_patience {
            return Err(error);
        }
        // The clean-up gives back a hold of the owner that the failed try was sent for. The next grant
        // must not be the hold that it finds. (The owner of a fair lock whose try failed keeps its place in the
        // queue, and its grants are recorded. If a grant came too late, it queues again, as the last.)
        if !self.lock.fair && self.lock.owner.is_none() {
            self.owner = self.lock.entering();
        }
        let pause = Instant::now() + OUTAGE_PAUSE;
        sleep_until(self.deadline.map_or(pause, |deadline| pause.min(deadline))).await;
        Ok(Instant::now())
    }
}
