//! A held lock.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cleanup::Job;
use super::client::Inner;
use super::scripts::{self, Claim};
use super::watchdog::Watchdog;
use super::{Lease, LockError, Owner};

/// One hold of a lock. [`Guard::release`] gives it back; dropping the guard (in a panic,
/// too) gives it back in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    inner: Arc<Inner>,
    /// `None` once it was given back or handed to the clean-up worker.
    claim: Option<Claim>,
    owner: Owner,
    watchdog: Watchdog,
}

impl Guard {
    pub(super) fn new(inner: Arc<Inner>, claim: Claim, lease: Lease, sent_at: Instant) -> Self {
        let owner = claim.owner.clone();
        let watchdog = Watchdog::start(inner.redis.clone(), claim.clone(), lease, sent_at);
        Self { inner, claim: Some(claim), owner, watchdog }
    }

    /// Who holds it. With this, [`super::LockClient::try_lock_as`] enters again.
    pub fn owner(&self) -> &Owner {
        self.owner.share();
        &self.owner
    }

    /// Is cancelled when the lease is lost while the guard lives: expired, deleted,
    /// taken by somebody else, or not renewable until the deadline.
    pub fn lost(&self) -> &CancellationToken {
        self.watchdog.lost()
    }

    /// Gives back this hold and waits for Redis to say so.
    ///
    /// # Errors
    /// `NotHeld` when the lock had been lost. When Redis does not answer, the clean-up
    /// worker goes on trying until the lease has surely ended.
    pub async fn release(mut self) -> Result<(), LockError> {
        let Some(claim) = self.claim.take() else { return Ok(()) };
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
        let answer = scripts::release(&self.inner.redis, &job.claim).await;
        match answer {
            Ok(holds) => {
                let job = self.job.take();
                match (holds, job) {
                    (None, Some(job)) => Err(LockError::NotHeld(job.claim.name)),
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
