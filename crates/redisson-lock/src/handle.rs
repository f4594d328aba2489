//! A lock by name: the ways to take it, and what can be asked about it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::acquire::try_once;
use super::acquire_target::{AcquireTarget, TryResult};
use super::error::LockError;
use super::guard::Guard;
use super::options::{Acknowledged, Lease, LockState};
use super::owner::Owner;
use super::scripts;
use super::shared::LockShared;
use super::wait::{wait, wait_until};

/// A guard, or `None` when another owner holds the lock.
type Entered = Result<Option<Guard>, LockError>;

/// A lock by name, on one client. A description: making or dropping it takes and frees
/// nothing. The futures of its three ways in borrow nothing, so that they can be spawned,
/// joined and kept.
#[derive(Debug, Clone)]
#[must_use = "a `Lock` only describes a lock: acquire it"]
pub struct Lock {
    target: AcquireTarget,
}

impl Lock {
    pub(super) fn new(shared: Arc<LockShared>, name: String) -> Self {
        let (lease, fair) = (shared.options.lease, shared.options.fair);
        let (owner, fenced, acknowledged) = (None, false, None);
        let target = AcquireTarget { shared, name, owner, lease, fair, fenced, acknowledged };
        Self { target }
    }

    /// The name of the key in Redis: with the prefix, where the client is [prefixed](super::LockClient::prefixed).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.target.name
    }

    /// Whether both are one lock of one client.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.target.shared, &other.target.shared) && self.name() == other.name()
    }

    /// For `owner`, who may enter again while holding the lock. Tasks change threads and share them, so an
    /// owner is a value: code that has it may enter again, code that has not may not.
    ///
    /// ```no_run
    /// # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
    /// let owner = locks.owner();
    /// let lock = locks.lock("invoice:7").owned_by(&owner);
    /// let outer = lock.acquire().await?;
    /// let inner = lock.acquire().await?; // the second hold, not a deadlock
    /// inner.release().await?;
    /// outer.release().await?; // now it is free
    /// # Ok(())
    /// # }
    /// ```
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.target.owner = Some(owner.clone());
        self
    }

    /// With a lease of its own instead of the client's: 1 ms to 24 h, else each use of the lock is an
    /// [`InvalidLease`](LockError::InvalidLease).
    ///
    /// ```no_run
    /// # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
    /// use std::time::Duration;
    ///
    /// use redisson_lock::Lease;
    ///
    /// // Never renewed: for work that must be over by then.
    /// let lock = locks.lock("invoice:7").lease(Lease::Fixed(Duration::from_secs(10)));
    /// let guard = lock.acquire().await?;
    /// assert!(guard.validity() <= Duration::from_secs(10));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(mut self, lease: Lease) -> Self {
        self.target.lease = lease;
        self
    }

    /// First come, first served, among all that take the lock so, in other processes and with Redisson's
    /// `RFairLock`, too. Take one name always as fair, or never: a plain entry passes over the queue. It costs
    /// each entry about twice the time in Redis. A waiter that dies is skipped five seconds after its turn came.
    /// A fair lock cannot be part of a [`MultiLock`](super::MultiLock) or a [`RedLock`](super::RedLock).
    ///
    /// ```no_run
    /// # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
    /// let guard = locks.lock("invoice:7").fair().acquire().await?; // behind all that came before
    /// guard.release().await?; // the next in the queue is told
    /// # Ok(())
    /// # }
    /// ```
    pub fn fair(mut self) -> Self {
        self.target.fair = true;
        self
    }

    pub(super) fn is_fair(&self) -> bool {
        self.target.fair
    }

    /// With a fencing token ([`Guard::fence`]), for a store that refuses a holder who slept past its lease.
    /// It costs Redis two more keys.
    ///
    /// ```no_run
    /// # async fn execute(sql: &str, token: u64) -> Result<u64, std::io::Error> { Ok(1) }
    /// # async fn example(
    /// #     locks: redisson_lock::LockClient,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = locks.lock("invoice:7").fenced().acquire().await?;
    /// let token = guard.fence().ok_or("asked for above")?;
    /// let sql = "update invoices set state = 'sent', fence = $1 where id = 7 and fence < $1";
    /// let rows = execute(sql, token).await?; // by any database client
    /// assert_eq!(rows, 1, "somebody else has had the lock since");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fenced(mut self) -> Self {
        self.target.fenced = true;
        self
    }

    /// Granted only when so many replicas have the grant too (`WAIT`) within this time: less than the lease, else
    /// each use of the lock is an [`InvalidLease`](LockError::InvalidLease). A failover forgets such a grant only
    /// where it promotes a replica that never had it. Where too few have it in time, the entry fails with
    /// `NotReplicated` at once, also in a wait: the caller decides whether to try again. Such an entry goes over a
    /// connection of its own.
    ///
    /// ```no_run
    /// # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
    /// use std::time::Duration;
    ///
    /// let lock = locks.lock("invoice:7").acknowledged_by(1, Duration::from_millis(100));
    /// let guard = lock.acquire().await?; // NotReplicated when no replica has it in time
    /// # Ok(())
    /// # }
    /// ```
    pub fn acknowledged_by(mut self, replicas: usize, within: Duration) -> Self {
        self.target.acknowledged = Some(Acknowledged { replicas, within });
        self
    }

    /// Takes the lock if it is free, or held by the same owner. `None`: another owner holds it. One try: it
    /// waits for the answer of Redis, never for the holder.
    ///
    /// Cancellation-safe: dropped at any point, it leaves neither a hold nor a place in a queue.
    ///
    /// # Errors
    /// See [`LockError`]. After an error with `outcome_unknown()` the lock may have been
    /// granted; it is given back in the background. `TooLate` when the answer came after the end of the lease.
    pub fn try_acquire(&self) -> impl Future<Output = Entered> + Send + use<> {
        let target = self.target.clone();
        async move {
            target.check()?;
            match try_once(&target, target.entering(), target.admission()).await? {
                TryResult::Granted(guard) => Ok(Some(guard)),
                TryResult::Held { .. } => Ok(None),
            }
        }
    }

    /// Waits for the lock, without a limit.
    ///
    /// Cancellation-safe: dropped at any point, it leaves neither a hold nor a place in a queue.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`], but an error that a retry may mend only after
    /// [`LockOptions::outage_patience`](super::LockOptions::outage_patience). `TooManyWaiters` when
    /// [`LockOptions::max_waiters`](super::LockOptions::max_waiters) wait already; `ShutDown` when the client is
    /// shut down.
    pub fn acquire(&self) -> impl Future<Output = Result<Guard, LockError>> + Send + use<> {
        let target = self.target.clone();
        async move {
            target.check()?;
            wait(&target).await
        }
    }

    /// Waits for the lock for `limit`. `None`: somebody else held it all the while. A limit
    /// of zero tries once.
    ///
    /// Cancellation-safe: dropped at any point, it leaves neither a hold nor a place in a queue.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; at the limit an outage is told, too, however short it was.
    pub fn acquire_within(&self, limit: Duration) -> impl Future<Output = Entered> + Send + use<> {
        let target = self.target.clone();
        async move {
            target.check()?;
            // A limit beyond what a clock can count is none.
            wait_until(&target, Instant::now().checked_add(limit)).await
        }
    }

    /// The owner, its holds and the remaining time; `None`: the lock is free. Cancellation-safe: it only
    /// looks.
    ///
    /// ```no_run
    /// # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
    /// if let Some(state) = locks.lock("invoice:7").state().await? {
    ///     println!("{} holds it {} times, for {:?} yet", state.owner, state.holds, state.remaining);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of Redis; `NotALock` when the key holds something else.
    pub async fn state(&self) -> Result<Option<LockState>, LockError> {
        self.target.check()?;
        let redis = &self.target.shared.redis;
        match scripts::inspect(redis, &self.target.name).await {
            Err(error) => Err(scripts::explained(error, redis).await),
            state => state,
        }
    }

    /// Whether anybody holds the lock. Cancellation-safe: it only looks.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn is_locked(&self) -> Result<bool, LockError> {
        Ok(self.state().await?.is_some())
    }

    /// How often `owner` has entered and not yet left: 0 when somebody else or nobody holds
    /// the lock. Cancellation-safe: it only looks.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn holds(&self, owner: &Owner) -> Result<u64, LockError> {
        let state = self.state().await?;
        Ok(state.filter(|state| state.owner == owner.field()).map_or(0, |state| state.holds))
    }

    /// How long until the lease ends, unless it is renewed. `None`: the lock is free, or has no end.
    /// Cancellation-safe: it only looks.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn remaining(&self) -> Result<Option<Duration>, LockError> {
        Ok(self.state().await?.and_then(|state| state.remaining))
    }

    /// Frees the lock, whoever holds it, and wakes the waiters; returns whether somebody held it. The holder
    /// is told when it next renews its lease; until then it works on beside the next holder. Cancellation-safe:
    /// dropped, it is done or not.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn force_release(&self) -> Result<bool, LockError> {
        self.free(None).await
    }

    /// Frees the lock only if `holder`, a [`LockState::owner`], still holds it; returns whether it did.
    /// Cancellation-safe: dropped, it is done or not.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn force_release_of(&self, holder: &str) -> Result<bool, LockError> {
        self.free(Some(holder)).await
    }

    async fn free(&self, holder: Option<&str>) -> Result<bool, LockError> {
        self.target.check()?;
        let redis = &self.target.shared.redis;
        match scripts::force_release(redis, &self.target.name, holder).await {
            Err(error) => Err(scripts::explained(error, redis).await),
            freed => freed,
        }
    }
}
