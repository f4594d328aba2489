//! Renews one grant's lease while its guard lives, and says when it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::scripts::{self, Claim};
use super::{Lease, Lock};
use crate::store::Redis;

/// One grant's watchdog: bound to the grant, not to the name, so that it cannot keep
/// alive what somebody else took.
#[derive(Debug)]
pub(super) struct Watchdog {
    lost: CancellationToken,
    deadline: Deadline,
    task: AbortHandle,
}

impl Watchdog {
    /// `sent_at`: just before the acquire was sent; the lease surely began no earlier.
    pub(super) fn start(lock: &Lock, claim: Claim, sent_at: Instant) -> Self {
        let lost = CancellationToken::new();
        let deadline = Deadline::new(sent_at, claim.lease);
        let (announce, kept) = (lost.clone(), deadline.clone());
        let redis = lock.inner.redis.clone();
        let renewed = matches!(lock.lease, Lease::Renewed(_));
        let until = lock.inner.options.max_hold.and_then(|most| sent_at.checked_add(most));
        let task = tokio::spawn(async move {
            if renewed {
                renew_until_lost(&redis, &claim, &kept, until).await;
            } else {
                sleep_until(kept.get()).await;
            }
            tracing::warn!(name = claim.name, "the lease of a lock was lost");
            metrics::counter!("seckill_lock_lost_total").increment(1);
            announce.cancel();
        });
        Self { lost, deadline, task: task.abort_handle() }
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Until when the lease surely lasts.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline.get()
    }

    /// No renewal is sent after this returns, save one that is on its way already; that
    /// one is checked against the owner like any other.
    pub(super) fn stop(&self) {
        self.task.abort();
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
