//! The watchdog renews one grant's lease while its guard lives, and says when it is lost.
//!
//! Most locks are released long before their first renewal is due. Until then a grant is an entry in
//! its client's schedule ([`Watchdogs`]); only then a task of its own is started for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::claim::Claim;
use super::options::Lease;
use super::scripts;
use crate::connection::Redis;
use crate::metric;

/// The watchdogs of one client.
#[derive(Debug)]
pub(super) struct Watchdogs {
    state: Arc<RenewalState>,
    stopped: CancellationToken,
}

#[derive(Debug)]
struct RenewalState {
    redis: Redis,
    schedule: Mutex<RenewalSchedule>,
    /// A renewal is due before the one for which the scheduler sleeps.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct RenewalSchedule {
    /// Grants whose first renewal is not due yet, by the instant at which it is.
    due: BTreeMap<(Instant, u64), Renewal>,
    /// The tasks of the others, by number.
    running: HashMap<u64, AbortHandle>,
    last_number: u64,
    /// When the scheduler wakes by itself.
    wakes_at: Option<Instant>,
    /// There is no scheduler any more.
    stopped: bool,
}

/// One grant to watch.
#[derive(Debug)]
struct Renewal {
    claim: Arc<Claim>,
    validity: Validity,
    renews: bool,
    /// When renewing ends.
    until: Option<Instant>,
}

impl Watchdogs {
    pub(super) fn start(redis: Redis) -> Self {
        let (schedule, sooner) = (Mutex::default(), Notify::new());
        let state = Arc::new(RenewalState { redis, schedule, sooner });
        let stopped = CancellationToken::new();
        let (scheduler, end) = (Arc::clone(&state), stopped.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = scheduler.run() => {}
                () = end.cancelled() => {}
            }
        });
        Self { state, stopped }
    }

    /// Stops the scheduler. Guards that live on have tasks of their own from now on.
    pub(super) fn stop(&self) {
        self.stopped.cancel();
        let mut schedule = self.state.schedule();
        schedule.stopped = true;
        while let Some(((_, number), renewal)) = schedule.due.pop_first() {
            schedule.running.insert(number, renewal.start(self.state.redis.clone()));
        }
    }

    /// A watchdog for a new grant. `sent_at`: just before the acquire was sent; the lease
    /// surely began no earlier.
    pub(super) fn watch(
        &self,
        claim: Arc<Claim>,
        lease: Lease,
        max_hold: Option<Duration>,
        sent_at: Instant,
    ) -> Watchdog {
        let validity = Validity::new(sent_at, claim.lease);
        let renews = matches!(lease, Lease::Renewed(_));
        let until = max_hold.and_then(|most| sent_at.checked_add(most));
        let due_at = sent_at + if renews { claim.lease / 3 } else { claim.lease };
        let renewal = Renewal { claim, validity: validity.clone(), renews, until };
        let mut schedule = self.state.schedule();
        schedule.last_number += 1;
        let number = schedule.last_number;
        if schedule.stopped {
            schedule.running.insert(number, renewal.start(self.state.redis.clone()));
        } else {
            schedule.due.insert((due_at, number), renewal);
            if schedule.wakes_at.is_none_or(|instant| due_at < instant) {
                self.state.sooner.notify_one();
            }
        }
        drop(schedule);
        Watchdog { validity, state: Arc::clone(&self.state), entry: (due_at, number) }
    }
}

impl Drop for Watchdogs {
    fn drop(&mut self) {
        self.stopped.cancel();
    }
}

impl RenewalState {
    fn schedule(&self) -> MutexGuard<'_, RenewalSchedule> {
        self.schedule.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// The scheduler. Without an end.
    async fn run(&self) {
        loop {
            let next = self.start_due(Instant::now());
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

    /// Starts the renewals that are due, and says when the next one is.
    fn start_due(&self, now: Instant) -> Option<Instant> {
        let mut schedule = self.schedule();
        while let Some(entry) = schedule.due.first_entry()
            && entry.key().0 <= now
        {
            let ((_, number), renewal) = entry.remove_entry();
            schedule.running.insert(number, renewal.start(self.redis.clone()));
        }
        schedule.wakes_at = schedule.due.first_key_value().map(|((instant, _), _)| *instant);
        schedule.wakes_at
    }
}

impl Renewal {
    fn start(self, redis: Redis) -> AbortHandle {
        let task = tokio::spawn(async move {
            let Self { claim, validity, renews, until } = self;
            if renews {
                renew_until_lost(&redis, &claim, &validity.deadline, until).await;
            } else {
                sleep_until(validity.deadline.get()).await;
            }
            tracing::warn!(name = claim.name, "the lease of a lock was lost");
            metrics::counter!(metric::LOST).increment(1);
            validity.lost.cancel();
        });
        task.abort_handle()
    }
}

/// One grant's watchdog: bound to the grant, not to the name, so that it never renews the lock of
/// another owner.
#[derive(Debug)]
pub(super) struct Watchdog {
    validity: Validity,
    state: Arc<RenewalState>,
    entry: (Instant, u64),
}

/// Whether a grant is lost, and until when it surely is not.
#[derive(Debug, Clone)]
pub(super) struct Validity {
    lost: CancellationToken,
    deadline: Deadline,
}

impl Validity {
    fn new(sent_at: Instant, lease: Duration) -> Self {
        Self { lost: CancellationToken::new(), deadline: Deadline::new(sent_at, lease) }
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// How long the lease surely lasts yet; zero when it may be lost.
    pub(super) fn left(&self) -> Duration {
        if self.lost.is_cancelled() {
            return Duration::ZERO;
        }
        self.deadline.get().saturating_duration_since(Instant::now())
    }
}

impl Watchdog {
    pub(super) fn validity(&self) -> &Validity {
        &self.validity
    }

    /// No renewal is sent after this returns, save one that is on its way already; that
    /// one is checked against the owner like any other.
    pub(super) fn stop(&self) {
        let mut schedule = self.state.schedule();
        if schedule.due.remove(&self.entry).is_none()
            && let Some(task) = schedule.running.remove(&self.entry.1)
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
                metrics::counter!(metric::RENEWED).increment(1);
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
