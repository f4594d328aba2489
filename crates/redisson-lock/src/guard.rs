//! A held lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::claim::Claim;
use super::cleanup::CleanupItem;
use super::error::LockError;
use super::metric::count;
use super::options::Lease;
use super::owner::Owner;
use super::scripts;
use super::shared::LockShared;
use super::validity::Validity;
use super::watchdog::Watchdog;

/// One hold of a lock. [`Guard::release`] gives it back; dropping the guard (in a panic,
/// too) gives it back in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    shared: Arc<LockShared>,
    /// `None` once it was given back or handed to the clean-up worker.
    claim: Option<Arc<Claim>>,
    owner: Owner,
    token: Option<u64>,
    watchdog: Watchdog,
}

impl Guard {
    pub(super) fn new(
        shared: &Arc<LockShared>,
        claim: Arc<Claim>,
        lease: Lease,
        token: Option<u64>,
        sent_at: Instant,
    ) -> Self {
        tracing::trace!(name = claim.name, "lock acquired");
        count!(ACQUIRED, 1);
        let owner = claim.owner.clone();
        let max_hold = shared.options.max_hold;
        let watchdog = shared.watchdogs.watch(Arc::clone(&claim), lease, max_hold, sent_at);
        Self { shared: Arc::clone(shared), claim: Some(claim), owner, token, watchdog }
    }

    /// The owner, with which [`Lock::owned_by`](super::Lock::owned_by) enters again.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.owner.share();
        &self.owner
    }

    /// The fencing token of a [`fenced`](super::Lock::fenced) lock: larger than that of every earlier holder
    /// of this name. (An owner that enters again has the token it entered with.) Send it with each write, and
    /// have the store refuse a token that is not larger than the largest it has seen:
    /// `update … set …, fence = $1 where id = $2 and fence < $1`. A holder that slept past its lease
    /// then does no harm. A second write of the same row needs a grant of its own. (Martin Kleppmann, "How
    /// to do distributed locking", 2016.)
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.token
    }

    /// How long the lock is surely held yet without another renewal, on this machine's clock: counted from
    /// the instant *before* the last successful renewal was sent. Zero when the lock may be lost.
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.lease_validity().left()
    }

    /// Whether the lease is lost. Unlike [`Guard::lost`] this looks at the clock, and so
    /// knows it even before any task of this process ran after a pause. (Linux's clock stands still while the machine
    /// is suspended: then it may say `false` until the next renewal.)
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.validity().is_zero()
    }

    /// A future that ends when the lease is lost while the guard lives: expired, deleted, taken by somebody else, or
    /// not renewable until the deadline. It borrows nothing, and no caller can make it end. Cancellation-safe: it only
    /// waits.
    ///
    /// ```no_run
    /// # async fn work() {}
    /// # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
    /// let guard = locks.lock("invoice:7").acquire().await?;
    /// tokio::select! {
    ///     () = work() => guard.release().await?,
    ///     () = guard.lost() => eprintln!("lost after all: the work was stopped"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.lease_validity().lost()
    }

    pub(super) fn lease_validity(&self) -> &Validity {
        self.watchdog.validity()
    }

    /// From now on the lock stays held for at least so long, however early this guard gives it back, and in
    /// whatever way: then it is held by nobody, its own owner included, until the time is over. For a job that
    /// ends in a moment and must not run again on a machine whose clock is a second behind. (ShedLock calls it
    /// `lockAtLeastFor`.) A second call changes nothing. Where the owner holds the lock more than once, only the
    /// guard that gives back the last hold counts.
    ///
    /// ```no_run
    /// # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
    /// use std::time::Duration;
    ///
    /// if let Some(guard) = locks.lock("report:2026-11-11").try_acquire().await? {
    ///     guard.keep_at_least(Duration::from_secs(10))?;
    ///     guard.release().await?; // nobody enters before the ten seconds are over
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TooLongToKeep` when it is longer than the lease: a program that dies would leave the lock for less.
    pub fn keep_at_least(&self, time: Duration) -> Result<(), LockError> {
        let Some(claim) = &self.claim else {
            unreachable!("a guard has its claim until it is released or dropped");
        };
        if time > claim.lease {
            return Err(LockError::TooLongToKeep { time, lease: claim.lease });
        }
        claim.kept_until.get_or_init(|| Instant::now() + time);
        Ok(())
    }

    /// Gives back this hold and waits for Redis to say so. Cancellation-safe: dropped at any point, it
    /// goes on in the background.
    ///
    /// # Errors
    /// `NotHeld` when the lock had been lost: another owner may have been inside. Where Redis does not answer, the
    /// clean-up worker goes on trying until the lease has surely ended, so the caller need not.
    pub async fn release(mut self) -> Result<(), LockError> {
        let Some(claim) = self.claim.take() else {
            unreachable!("a guard has its claim until it is released or dropped");
        };
        let _under_way = self.shared.under_way.token();
        // Before the release, so that no renewal can follow it.
        self.watchdog.stop();
        // Armed: this future, too, may be dropped half-way.
        let job = Some(CleanupItem::release(Arc::clone(&claim)));
        let mut armed = ArmedRelease { shared: &self.shared, job };
        let answer = match self.shared.pipeline() {
            Some(calls) => calls.release(&claim, self.shared.under_way.token()).await,
            // Boxed: every release would be as large.
            None => Box::pin(scripts::release(&self.shared.redis, &claim, false)).await,
        };
        // What may succeed a little later stays armed.
        if !matches!(&answer, Err(error) if error.retry_may_help()) {
            armed.job = None;
        }
        answer?.map(drop).ok_or_else(|| LockError::NotHeld(claim.name.clone()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.watchdog.stop();
            self.shared.cleanup.submit(CleanupItem::release(claim));
        }
    }
}

/// A release that the clean-up worker sends again if this is dropped with its job.
struct ArmedRelease<'a> {
    shared: &'a LockShared,
    job: Option<CleanupItem>,
}

impl Drop for ArmedRelease<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.shared.cleanup.submit(job);
        }
    }
}
