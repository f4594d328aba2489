//! A held lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cleanup::Job;
use super::client::Inner;
use super::scripts::{self, Claim};
use super::watchdog::{Tenure, Watchdog};
use super::{Lock, LockError, Owner};

/// One hold of a lock. [`Guard::release`] gives it back; dropping the guard (in a panic,
/// too) gives it back in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    inner: Arc<Inner>,
    /// `None` once it was given back or handed to the clean-up worker.
    claim: Option<Arc<Claim>>,
    owner: Owner,
    token: Option<u64>,
    watchdog: Watchdog,
}

impl Guard {
    pub(super) fn new(
        lock: &Lock,
        claim: Arc<Claim>,
        token: Option<u64>,
        sent_at: Instant,
    ) -> Self {
        tracing::trace!(name = claim.name, "lock acquired");
        metrics::counter!("seckill_lock_acquired_total").increment(1);
        let owner = claim.owner.clone();
        let watchdog = lock.inner.kennel.watch(lock, Arc::clone(&claim), sent_at);
        Self { inner: Arc::clone(&lock.inner), claim: Some(claim), owner, token, watchdog }
    }

    /// Who holds it. With this, [`Lock::owned_by`] enters again.
    pub fn owner(&self) -> &Owner {
        self.owner.share();
        &self.owner
    }

    /// The fencing token, for a [`Lock::fenced`] lock: larger than that of every holder of
    /// this name before (one's own, where one enters again). Send it with each write, and
    /// have the store refuse what is smaller than the largest it has seen:
    /// `update … set …, fence = $1 where id = $2 and fence <= $1`. A holder that slept past
    /// its lease then does no harm. (Martin Kleppmann, "How to do distributed locking", 2016.)
    pub fn fence(&self) -> Option<u64> {
        self.token
    }

    /// How long the lock is surely held yet without another renewal: counted from *before*
    /// the last that succeeded was sent, on this machine's clock. Zero when it may be lost.
    pub fn validity(&self) -> Duration {
        self.tenure().validity()
    }

    /// Whether the lease is lost. Unlike [`Guard::lost`] this looks at the clock, and so
    /// knows it even before any task of this process ran after a pause.
    pub fn is_lost(&self) -> bool {
        self.validity().is_zero()
    }

    /// Is cancelled when the lease is lost while the guard lives: expired, deleted,
    /// taken by somebody else, or not renewable until the deadline.
    pub fn lost(&self) -> &CancellationToken {
        self.tenure().lost()
    }

    pub(super) fn tenure(&self) -> &Tenure {
        self.watchdog.tenure()
    }

    /// Gives back this hold and waits for Redis to say so.
    ///
    /// # Errors
    /// `NotHeld` when the lock had been lost. When Redis does not answer, the clean-up
    /// worker goes on trying until the lease has surely ended.
    pub async fn release(mut self) -> Result<(), LockError> {
        let Some(claim) = self.claim.take() else { return Ok(()) };
        let _under_way = self.inner.under_way.token();
        // Before the release, so that no renewal can follow it.
        self.watchdog.stop();
        // Armed: this future, too, may be dropped half-way.
        let mut armed = ArmedRelease { inner: &self.inner, job: Some(Job::release(claim)) };
        armed.send().await
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.watchdog.stop();
            self.inner.cleanup.submit(Job::release(claim));
        }
    }
}

struct ArmedRelease<'a> {
    inner: &'a Inner,
    job: Option<Job>,
}

impl ArmedRelease<'_> {
    async fn send(&mut self) -> Result<(), LockError> {
        let Some(job) = &self.job else { return Ok(()) };
        let answer = match &self.inner.batches {
            Some(batches) if job.claim.is_plain() => {
                batches.release(&job.claim, self.inner.under_way.token()).await
            }
            // Boxed: the rarer way, which every release would carry.
            _ => Box::pin(scripts::release(&self.inner.redis, &job.claim)).await,
        };
        match answer {
            Ok(holds) => {
                let job = self.job.take();
                match (holds, job) {
                    (None, Some(job)) => Err(LockError::NotHeld(job.claim.name.clone())),
                    _ => Ok(()),
                }
            }
            Err(error) if error.retry_may_help() => Err(error),
            Err(error) => {
                self.job = None;
                Err(error)
            }
        }
    }
}

impl Drop for ArmedRelease<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.inner.cleanup.submit(job);
        }
    }
}
