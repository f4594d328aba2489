//! A lock by name: the ways to take it, and what to ask about it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::acquire::{self, AcquireTarget, TryResult};
use super::error::LockError;
use super::guard::Guard;
use super::options::{Acknowledged, Lease, LockState};
use super::owner::Owner;
use super::scripts;
use super::shared::LockShared;

/// A guard, or `None` when another owner holds the lock.
type Entered = Result<Option<Guard>, LockError>;

/// A lock by name, on one client. A description: making or dropping it takes and frees
/// nothing. The futures of its three ways in borrow nothing, so that they can be spawned,
/// joined and kept.
#[derive(Debug, Clone)]
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

    /// The name.
    pub fn name(&self) -> &str {
        &self.target.name
    }

    /// Whether both are one lock of one client.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.target.shared, &other.target.shared) && self.name() == other.name()
    }

    /// For `owner`, who may enter again while holding the lock.
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.target.owner = Some(owner.clone());
        self
    }

    /// With a lease of one's own.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.target.lease = lease;
        self
    }

    /// First come, first served, among all who take it so, Redisson's `RFairLock` included. It costs
    /// each entry more, and waiting for it more yet; `docs/locks.md` says how much, and what becomes
    /// of waiters that die.
    pub fn fair(mut self) -> Self {
        self.target.fair = true;
        self
    }

    pub(super) fn is_fair(&self) -> bool {
        self.target.fair
    }

    /// With a fencing token ([`Guard::fence`]), which costs Redis two more keys.
    pub fn fenced(mut self) -> Self {
        self.target.fenced = true;
        self
    }

    /// Granted only when so many replicas have the grant too (`WAIT`). What a failover
    /// forgets is then a grant that at least one of them never had.
    pub fn acknowledged_by(mut self, replicas: usize, within: Duration) -> Self {
        self.target.acknowledged = Some(Acknowledged { replicas, within });
        self
    }

    /// Takes the lock if it is free, or held by the same owner. `None`: it is not.
    ///
    /// Cancellation-safe: dropped at any point, it leaves neither a hold nor a place in a queue.
    ///
    /// # Errors
    /// See [`LockError`]. After an error with `outcome_unknown()` the lock may have been
    /// granted; it is given back in the background.
    pub fn try_acquire(&self) -> impl Future<Output = Entered> + Send + use<> {
        let target = self.target.clone();
        async move {
            target.check()?;
            match acquire::once(&target, target.entering(), target.turn()).await? {
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
    /// As [`Lock::try_acquire`], when Redis could not be reached for
    /// `LockOptions::outage_patience`, and `ShutDown` when the client is shut down.
    pub fn acquire(&self) -> impl Future<Output = Result<Guard, LockError>> + Send + use<> {
        let target = self.target.clone();
        async move {
            target.check()?;
            // Without a deadline it comes back with a guard or an error.
            acquire::wait(&target, None).await?.ok_or(LockError::ShutDown)
        }
    }

    /// Waits for the lock for `limit`. `None`: somebody else held it all the while. A limit
    /// of zero tries once.
    ///
    /// Cancellation-safe: dropped at any point, it leaves neither a hold nor a place in a queue.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn acquire_within(&self, limit: Duration) -> impl Future<Output = Entered> + Send + use<> {
        let target = self.target.clone();
        async move {
            target.check()?;
            // A limit beyond what a clock can count is none.
            acquire::wait(&target, Instant::now().checked_add(limit)).await
        }
    }

    /// The owner, its holds and the remaining time; `None`: the lock is free. Cancellation-safe: it only
    /// looks.
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

    /// Until the lease ends, unless it is renewed. `None`: the lock is free, or has no end.
    /// Cancellation-safe: it only looks.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn remaining(&self) -> Result<Option<Duration>, LockError> {
        Ok(self.state().await?.and_then(|state| state.remaining))
    }

    /// Frees the lock, whoever holds it, and wakes the waiters. The holder is told when it
    /// next renews; until then it works on beside the next one. Whether somebody held it. Cancellation-safe:
    /// dropped, it is done or not.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn force_release(&self) -> Result<bool, LockError> {
        self.free(None).await
    }

    /// The same, if the holder is still the one seen: [`LockState::owner`]. Whether it was.
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
