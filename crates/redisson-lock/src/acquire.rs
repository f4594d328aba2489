//! Acquiring: one try, and the wait.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::cleanup::CleanupItem;
use super::error::LockError;
use super::fair_place::FairPlace;
use super::guard::Guard;
use super::options::{Acknowledged, Lease};
use super::owner::Owner;
use super::scripts::{self, AcquireAnswer, Claim, Turn};
use super::shared::LockShared;
use super::waiters::{First, Woken};
use crate::metric;

const MAX_NAME_BYTES: usize = 512;
const MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// Between two tries while Redis cannot be reached.
const OUTAGE_PAUSE: Duration = Duration::from_millis(100);

/// No connection has this number: for an acquire on a connection of its own.
const OWN_CONNECTION: u64 = u64::MAX;

/// The lock that is to be taken, and how.
#[derive(Debug, Clone)]
pub(super) struct AcquireTarget {
    pub(super) shared: Arc<LockShared>,
    pub(super) name: String,
    /// `None`: an owner of its own at each entry.
    pub(super) owner: Option<Owner>,
    pub(super) lease: Lease,
    pub(super) fair: bool,
    pub(super) fenced: bool,
    pub(super) acknowledged: Option<Acknowledged>,
}

impl AcquireTarget {
    /// The owner that enters.
    pub(super) fn entering(&self) -> Owner {
        self.owner.clone().unwrap_or_else(|| self.shared.owners.next())
    }

    pub(super) fn check(&self) -> Result<(), LockError> {
        if self.name.is_empty() || self.name.len() > MAX_NAME_BYTES {
            return Err(LockError::InvalidName(self.name.len()));
        }
        let lease = self.lease.duration();
        let wait = self.acknowledged.map_or(Duration::ZERO, |wanted| wanted.within);
        if lease < Duration::from_millis(1) || lease > MAX_LEASE || wait > MAX_LEASE {
            return Err(LockError::InvalidLease);
        }
        Ok(())
    }

    /// When a try may be granted that is not part of a wait.
    pub(super) fn turn(&self) -> Turn {
        if self.fair { Turn::IfNobodyWaits } else { Turn::Anybodys }
    }

    fn claim(&self, owner: Owner, turn: Turn) -> Claim {
        Claim::new(&self.name, owner, self.lease.duration(), self.fenced, turn)
    }

    /// Where `owner` hears that it is its turn.
    fn channel(&self, owner: &Owner) -> String {
        scripts::channel(&self.name, self.fair.then_some(owner))
    }

    /// Others of the same owner may be waiting: they can enter now.
    fn wake_co_owners(&self) {
        if let Some(owner) = &self.owner {
            self.shared.waiters.retry_all(&self.channel(owner));
        }
    }

    fn guard(&self, claim: Arc<Claim>, token: Option<u64>, sent_at: Instant) -> Guard {
        Guard::new(&self.shared, claim, self.lease, token, sent_at)
    }
}

/// The result of one try.
pub(super) enum TryResult {
    Granted(Guard),
    /// Another owner holds it, or is before this one, for so long yet; `None`: without an end.
    Held {
        remaining: Option<Duration>,
    },
}

/// Tries once.
#[tracing::instrument(level = "debug", name = "try_lock", skip_all, fields(name = lock.name))]
pub(super) async fn once(
    lock: &AcquireTarget,
    owner: Owner,
    turn: Turn,
) -> Result<TryResult, LockError> {
    // In this order: a shutdown waits for the token, or is seen here.
    let under_way = lock.shared.under_way.token();
    if lock.shared.stop.is_cancelled() {
        return Err(LockError::ShutDown);
    }
    match send(lock, lock.claim(owner, turn), under_way).await {
        Ok(tried) => {
            lock.shared.outage.is_over();
            Ok(tried)
        }
        // Boxed: hardly ever.
        Err(error) => Err(Box::pin(scripts::explained(error, &lock.shared.redis)).await),
    }
}

async fn send(
    lock: &AcquireTarget,
    claim: Claim,
    under_way: TaskTrackerToken,
) -> Result<TryResult, LockError> {
    let claim = Arc::new(claim);
    // The usual way is the pipeline. In a cluster there is none (`calls` is `None`), and an acquire that
    // waits for replicas has a connection of its own.
    let (None, Some(calls)) = (lock.acknowledged, &lock.shared.calls) else {
        let (claim, sent_on) = (Some(claim), OnceLock::new());
        let alone = Alone { lock, claim, sent_on, _under_way: under_way };
        // Boxed: it is the rarer way, and all who enter by the other one would carry it.
        return Box::pin(alone.send()).await;
    };
    let sent_at = Instant::now();
    match calls.acquire(&claim, under_way).await? {
        AcquireAnswer::Held { remaining } => Ok(TryResult::Held { remaining }),
        AcquireAnswer::Granted { token } => {
            let guard = lock.guard(claim, token, sent_at);
            lock.wake_co_owners();
            Ok(TryResult::Granted(guard))
        }
    }
}

/// Waits until `deadline`, or for ever. `None`: the deadline came first.
///
/// No try is cut short by the deadline: one that was sent is answered, or cleaned up after
/// as unknown. Dropping the future is safe at any point.
#[tracing::instrument(level = "debug", name = "wait_for_lock", skip_all, fields(name = lock.name))]
pub(super) async fn wait(
    lock: &AcquireTarget,
    deadline: Option<Instant>,
) -> Result<Option<Guard>, LockError> {
    let begun = Instant::now();
    let mut wait = Wait { lock, owner: lock.entering(), deadline, place: None };
    if let Step::Done(done) = wait.step(None).await? {
        return Ok(done);
    }
    metrics::counter!(metric::CONTENDED).increment(1);
    let waited = tokio::select! {
        biased;
        waited = wait.in_queue() => waited,
        () = lock.shared.stop.cancelled() => Err(LockError::ShutDown),
    };
    metrics::histogram!(metric::WAIT_SECONDS).record(begun.elapsed().as_secs_f64());
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

    /// When a try of the wait may be granted.
    fn turn(&mut self) -> Result<Turn, LockError> {
        if !self.lock.fair {
            return Ok(Turn::Anybodys);
        }
        let (lock, owner) = (self.lock, &self.owner);
        let place = match self.place.take() {
            Some(place) => place,
            None => FairPlace::new(&lock.shared, |turn| lock.claim(owner.clone(), turn))?,
        };
        Ok(self.place.insert(place).turn())
    }

    /// One try. A waiter that was `woken` for it wakes another one if it cannot be made.
    async fn step(&mut self, woken: Option<Woken>) -> Result<Step, LockError> {
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let turn = if late { self.lock.turn() } else { self.turn()? };
        let until = match once(self.lock, self.owner.clone(), turn).await {
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
                let shared = &self.lock.shared;
                if late || shared.outage.failed() >= shared.options.outage_patience {
                    return Err(error);
                }
                // The clean-up gives back a hold of the owner it was sent for; the next grant must
                // not be the one it finds.
                // (In the queue of a fair lock the owner keeps its place, and its grants are recorded.)
                if !self.lock.fair && self.lock.owner.is_none() {
                    self.owner = self.lock.entering();
                }
                let pause = Instant::now() + OUTAGE_PAUSE;
                sleep_until(self.deadline.map_or(pause, |deadline| pause.min(deadline))).await;
                Some(Instant::now())
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
}

/// An acquire that is sent by itself: in a cluster, or where replicas are to acknowledge it. Dropped
/// after it was sent, it leaves the hold to the clean-up worker, whether it was granted or not.
struct Alone<'a> {
    lock: &'a AcquireTarget,
    claim: Option<Arc<Claim>>,
    /// The connection; unset until the acquire is sent.
    sent_on: OnceLock<u64>,
    /// Last: it ends after the clean-up was told.
    _under_way: TaskTrackerToken,
}

impl Alone<'_> {
    async fn send(mut self) -> Result<TryResult, LockError> {
        let redis = &self.lock.shared.redis;
        let Some(claim) = &self.claim else { return Ok(TryResult::Held { remaining: None }) };
        let sent_at = Instant::now();
        let sent_on = &self.sent_on;
        let sending = |generation| _ = sent_on.set(generation);
        let answer = match self.lock.acknowledged {
            None => scripts::acquire(redis, claim, sending).await.map(|answer| (answer, 0)),
            Some(wanted) => {
                let sending = || sending(OWN_CONNECTION);
                scripts::acquire_acknowledged(redis, claim, wanted, sending).await
            }
        };
        let (answer, acknowledged) = match answer {
            Ok(answer) => answer,
            // Unknown: stays armed; dropping it cleans up.
            Err(error) if error.outcome_unknown() => return Err(error),
            Err(error) => {
                self.claim = None;
                return Err(error);
            }
        };
        let Some(claim) = self.claim.take() else { return Ok(TryResult::Held { remaining: None }) };
        match answer {
            AcquireAnswer::Held { remaining } => Ok(TryResult::Held { remaining }),
            AcquireAnswer::Granted { token } => {
                // A guard before anything else: whatever comes now, it gives the hold back.
                let guard = self.lock.guard(claim, token, sent_at);
                self.admit(guard, acknowledged)
            }
        }
    }

    fn admit(&self, guard: Guard, acknowledged: usize) -> Result<TryResult, LockError> {
        let wanted = self.lock.acknowledged.map_or(0, |wanted| wanted.replicas);
        if acknowledged < wanted {
            return Err(LockError::NotReplicated { wanted, acknowledged });
        }
        self.lock.wake_co_owners();
        Ok(TryResult::Granted(guard))
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if let (Some(claim), Some(sent_on)) = (self.claim.take(), self.sent_on.get()) {
            self.lock.shared.cleanup.submit(CleanupItem::uncollected(claim, *sent_on));
        }
    }
}
