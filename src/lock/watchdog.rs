//! Renews one grant's lease while its guard lives, and says when it is lost.
//!
//! Most locks are given back long before their first renewal is due. Until then a grant is
//! an entry in its client's [`Kennel`]; only then its watchdog is woken, a task of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::scripts::{self, Claim};
use super::{Lease, Lock};
use crate::store::Redis;

/// The watchdogs of one client.
#[derive(Debug)]
pub(super) struct Kennel {
    shared: Arc<Shared>,
    closed: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    redis: Redis,
    dogs: Mutex<Dogs>,
    /// One is to be woken before the keeper would wake.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Dogs {
    /// By the instant at which each is to be woken.
    asleep: BTreeMap<(Instant, u64), Dog>,
    awake: HashMap<u64, AbortHandle>,
    born: u64,
    /// When the keeper wakes by itself.
    keeper_wakes: Option<Instant>,
    /// There is no keeper any more.
    closed: bool,
}

/// What a watchdog has to know.
#[derive(Debug)]
struct Dog {
    claim: Arc<Claim>,
    tenure: Tenure,
    renews: bool,
    /// When it stops to renew.
    until: Option<Instant>,
}

impl Kennel {
    pub(super) fn open(redis: Redis) -> Self {
        let (dogs, sooner) = (Mutex::default(), Notify::new());
        let (shared, closed) = (Arc::new(Shared { redis, dogs, sooner }), CancellationToken::new());
        let (keeper, end) = (Arc::clone(&shared), closed.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = keeper.wake_them() => {}
                () = end.cancelled() => {}
            }
        });
        Self { shared, closed }
    }

    /// Wakes them all, to be on their own: the keeper ends.
    pub(super) fn close(&self) {
        self.closed.cancel();
        let mut dogs = self.shared.dogs();
        dogs.closed = true;
        while let Some(((_, number), dog)) = dogs.asleep.pop_first() {
            dogs.awake.insert(number, dog.wake(self.shared.redis.clone()));
        }
    }

    /// A watchdog for a new grant. `sent_at`: just before the acquire was sent; the lease
    /// surely began no earlier.
    pub(super) fn watch(&self, lock: &Lock, claim: Arc<Claim>, sent_at: Instant) -> Watchdog {
        let tenure = Tenure::new(sent_at, claim.lease);
        let renews = matches!(lock.lease, Lease::Renewed(_));
        let until = lock.inner.options.max_hold.and_then(|most| sent_at.checked_add(most));
        let wakes = sent_at + if renews { claim.lease / 3 } else { claim.lease };
        let dog = Dog { claim, tenure: tenure.clone(), renews, until };
        let mut dogs = self.shared.dogs();
        dogs.born += 1;
        let number = dogs.born;
        if dogs.closed {
            dogs.awake.insert(number, dog.wake(self.shared.redis.clone()));
        } else {
            dogs.asleep.insert((wakes, number), dog);
            if dogs.keeper_wakes.is_none_or(|instant| wakes < instant) {
                self.shared.sooner.notify_one();
            }
        }
        drop(dogs);
        Watchdog { tenure, shared: Arc::clone(&self.shared), place: (wakes, number) }
    }
}

impl Drop for Kennel {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

impl Shared {
    fn dogs(&self) -> MutexGuard<'_, Dogs> {
        self.dogs.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// The keeper. Without an end.
    async fn wake_them(&self) {
        loop {
            let next = self.wake_due(Instant::now());
            let sleeps = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleeps => {}
                () = self.sooner.notified() => {}
            }
        }
    }

    /// Wakes whose time has come, and says when the next one's does.
    fn wake_due(&self, now: Instant) -> Option<Instant> {
        let mut dogs = self.dogs();
        while let Some(entry) = dogs.asleep.first_entry()
            && entry.key().0 <= now
        {
            let ((_, number), dog) = entry.remove_entry();
            dogs.awake.insert(number, dog.wake(self.redis.clone()));
        }
        dogs.keeper_wakes = dogs.asleep.first_key_value().map(|((instant, _), _)| *instant);
        dogs.keeper_wakes
    }
}

impl Dog {
    fn wake(self, redis: Redis) -> AbortHandle {
        let task = tokio::spawn(async move {
            let Self { claim, tenure, renews, until } = self;
            if renews {
                renew_until_lost(&redis, &claim, &tenure.deadline, until).await;
            } else {
                sleep_until(tenure.deadline.get()).await;
            }
            tracing::warn!(name = claim.name, "the lease of a lock was lost");
            metrics::counter!("seckill_lock_lost_total").increment(1);
            tenure.lost.cancel();
        });
        task.abort_handle()
    }
}

/// One grant's watchdog: bound to the grant, not to the name, so that it cannot keep
/// alive what somebody else took.
#[derive(Debug)]
pub(super) struct Watchdog {
    tenure: Tenure,
    shared: Arc<Shared>,
    place: (Instant, u64),
}

/// What is known of a grant: whether it is lost, and until when it surely is not. A clone
/// lets somebody else than the guard look.
#[derive(Debug, Clone)]
pub(super) struct Tenure {
    lost: CancellationToken,
    deadline: Deadline,
}

impl Tenure {
    fn new(sent_at: Instant, lease: Duration) -> Self {
        Self { lost: CancellationToken::new(), deadline: Deadline::new(sent_at, lease) }
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// How long the lease surely lasts yet; zero when it may be lost.
    pub(super) fn validity(&self) -> Duration {
        if self.lost.is_cancelled() {
            return Duration::ZERO;
        }
        self.deadline.get().saturating_duration_since(Instant::now())
    }
}

impl Watchdog {
    pub(super) fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// No renewal is sent after this returns, save one that is on its way already; that
    /// one is checked against the owner like any other.
    pub(super) fn stop(&self) {
        let mut dogs = self.shared.dogs();
        if dogs.asleep.remove(&self.place).is_none()
            && let Some(task) = dogs.awake.remove(&self.place.1)
        {
            task.abort();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns when the lease is lost: a renewal was refused, none succeeded before the
/// deadline counted from the last that did, or the hold was renewed `until` it may not be.
async fn renew_until_lost(
    redis: &Redis,
    claim: &Claim,
    deadline: &Deadline,
    until: Option<Instant>,
) {
    let third = claim.lease / 3;
    let retry_pause = (claim.lease / 20).max(Duration::from_millis(1));
    let mut next = deadline.get() - claim.lease + third;
    loop {
        sleep_until(next.min(deadline.get())).await;
        let sent_at = Instant::now();
        if sent_at >= deadline.get() {
            return;
        }
        if until.is_some_and(|until| sent_at >= until) {
            return sleep_until(deadline.get()).await;
        }
        match timeout_at(deadline.get(), scripts::renew(redis, claim)).await {
            Ok(Ok(true)) => {
                deadline.set(sent_at + claim.lease);
                next = sent_at + third;
                metrics::counter!("seckill_lock_renewed_total").increment(1);
            }
            Ok(Ok(false)) => return,
            Ok(Err(error)) if error.retry_may_help() => {
                tracing::debug!(name = claim.name, %error, "a renewal failed, trying again");
                next = Instant::now() + retry_pause;
            }
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

/// An instant that the watchdog moves and the guard reads.
#[derive(Debug, Clone)]
struct Deadline {
    begun: Instant,
    /// After `begun`.
    micros: Arc<AtomicU64>,
}

impl Deadline {
    fn new(begun: Instant, lease: Duration) -> Self {
        let deadline = Self { begun, micros: Arc::default() };
        deadline.set(begun + lease);
        deadline
    }

    /// Rounded down: rather too early than too late.
    fn set(&self, instant: Instant) {
        let after = instant.duration_since(self.begun).as_micros();
        self.micros.store(u64::try_from(after).unwrap_or(u64::MAX), Ordering::Release);
    }

    fn get(&self) -> Instant {
        self.begun + Duration::from_micros(self.micros.load(Ordering::Acquire))
    }
}
