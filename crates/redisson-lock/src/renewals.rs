//! The grants that one client watches, and when each is renewed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::claim::Claim;
use super::metric::count;
use super::scripts;
use super::validity::{Deadline, Validity};
use redis_link::Redis;

/// The grants, and the server on which they are renewed.
#[derive(Debug)]
pub(super) struct RenewalState {
    pub(super) redis: Redis,
    pub(super) schedule: Mutex<RenewalSchedule>,
    /// A renewal is due before the one for which the scheduler sleeps.
    pub(super) sooner: Notify,
}

#[derive(Debug, Default)]
pub(super) struct RenewalSchedule {
    /// Grants whose first renewal is not due yet, by the instant at which it is.
    pub(super) due: BTreeMap<(Instant, u64), Arc<Renewal>>,
    /// The tasks of the others, by number.
    pub(super) running: HashMap<u64, (AbortHandle, Arc<Renewal>)>,
    pub(super) last_number: u64,
    /// When the scheduler wakes by itself.
    pub(super) wakes_at: Option<Instant>,
    /// There is no scheduler any more: the client was shut down.
    pub(super) stopped: bool,
    /// There is none, because its runtime has ended.
    pub(super) ended: bool,
}

/// One grant to watch.
#[derive(Debug)]
pub(super) struct Renewal {
    pub(super) claim: Arc<Claim>,
    pub(super) validity: Validity,
    pub(super) renews: bool,
    /// When renewing ends.
    pub(super) until: Option<Instant>,
    pub(super) entry: (Instant, u64),
}

impl RenewalState {
    pub(super) fn schedule(&self) -> MutexGuard<'_, RenewalSchedule> {
        self.schedule.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// The scheduler. Without an end.
    pub(super) async fn run(self: &Arc<Self>) {
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
    fn start_due(self: &Arc<Self>, now: Instant) -> Option<Instant> {
        let mut schedule = self.schedule();
        while let Some(entry) = schedule.due.first_entry()
            && entry.key().0 <= now
        {
            let ((_, number), renewal) = entry.remove_entry();
            schedule.running.insert(number, renewal.start(self));
        }
        schedule.wakes_at = schedule.due.first_key_value().map(|((instant, _), _)| *instant);
        schedule.wakes_at
    }

    /// All grants that are watched.
    pub(super) fn all(&self) -> Vec<Arc<Renewal>> {
        let schedule = self.schedule();
        let running = schedule.running.values().map(|(_, renewal)| renewal);
        schedule.due.values().chain(running).cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        let schedule = self.schedule();
        schedule.due.is_empty() && schedule.running.is_empty()
    }

    /// Tells that this grant is lost, unless its guard is gone, or it was told already.
    pub(super) fn lose(&self, renewal: &Renewal) {
        let mut schedule = self.schedule();
        let is_due = schedule.due.remove(&renewal.entry).is_some();
        let task = schedule.running.remove(&renewal.entry.1);
        drop(schedule);
        if is_due || task.is_some() {
            tracing::warn!(name = renewal.claim.name, "the lease of a lock was lost");
            count!(LOST, 1);
            renewal.validity.lost.cancel();
        }
        if let Some((task, _)) = task {
            task.abort();
        }
    }
}

impl Renewal {
    /// A task for this grant, whose entry is its own from now on.
    pub(super) fn start(self: Arc<Self>, state: &Arc<RenewalState>) -> (AbortHandle, Arc<Self>) {
        let (renewal, state) = (Arc::clone(&self), Arc::clone(state));
        let task = tokio::spawn(async move {
            if renewal.renews {
                let (claim, deadline) = (&renewal.claim, &renewal.validity.deadline);
                renew_until_lost(&state.redis, claim, deadline, renewal.until).await;
            } else {
                sleep_until(renewal.validity.deadline.get()).await;
            }
            state.lose(&renewal);
        });
        (task.abort_handle(), self)
    }

    /// Whether its lease may be lengthened now.
    pub(super) fn renews(&self) -> bool {
        self.renews && self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// Returns when the lease is lost: a renewal was refused, none succeeded before the
/// deadline counted from the last that did, or `until` came, after which it is not renewed, and the lease ended.
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
                count!(RENEWED, 1);
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
