//! A lock by name: how to take it, and what to ask about it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::acquire::{self, Tried};
use super::client::Inner;
use super::{Guard, Lease, LockError, Owner, scripts};

const MAX_NAME_BYTES: usize = 512;
const MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// How many replicas must have a grant before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// So many replicas,
    pub replicas: usize,
    /// and how long to wait for them.
    pub within: Duration,
}

/// What stands in Redis about a held lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockState {
    /// `<client uuid>:<number>`, of this program or another one.
    pub owner: String,
    /// How often the owner has entered.
    pub holds: u64,
    /// Until the lease ends, unless it is renewed. `None`: it has no end.
    pub remaining: Option<Duration>,
}

/// A guard, or `None` when somebody else holds the lock.
type Entered = Result<Option<Guard>, LockError>;

/// A lock by name, on one client. A description: making or dropping it takes and frees
/// nothing. The futures of its three ways in borrow nothing, so that they can be spawned,
/// joined and kept.
#[derive(Debug, Clone)]
pub struct Lock {
    pub(super) inner: Arc<Inner>,
    pub(super) name: String,
    /// `None`: an owner of its own at each entry.
    pub(super) owner: Option<Owner>,
    pub(super) lease: Lease,
    pub(super) fenced: bool,
    pub(super) acknowledged: Option<Acknowledged>,
}

impl Lock {
    pub(super) fn new(inner: Arc<Inner>, name: String) -> Self {
        let lease = inner.options.lease;
        Self { inner, name, owner: None, lease, fenced: false, acknowledged: None }
    }

    /// For `owner`, who may enter again while holding the lock.
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// With a lease of one's own.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// With a fencing token ([`Guard::fence`]), which costs Redis two more keys.
    pub fn fenced(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// Granted only when so many replicas have the grant too (`WAIT`). What a failover
    /// forgets is then a grant that at least one of them never had.
    pub fn acknowledged_by(mut self, replicas: usize, within: Duration) -> Self {
        self.acknowledged = Some(Acknowledged { replicas, within });
        self
    }

    /// Takes the lock if it is free, or held by the same owner. `None`: it is not.
    ///
    /// # Errors
    /// See [`LockError`]. After an error with `outcome_unknown()` the lock may have been
    /// granted; it is given back in the background.
    pub fn try_acquire(&self) -> impl Future<Output = Entered> + Send + use<> {
        let lock = self.clone();
        async move {
            lock.check()?;
            match acquire::once(&lock, lock.entering()).await? {
                Tried::Granted(guard) => Ok(Some(guard)),
                Tried::Held { .. } => Ok(None),
            }
        }
    }

    /// Waits for the lock, without a limit.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`], when Redis could not be reached for
    /// `LockOptions::outage_patience`, and `ShutDown` when the client is shut down.
    pub fn acquire(&self) -> impl Future<Output = Result<Guard, LockError>> + Send + use<> {
        let lock = self.clone();
        async move {
            lock.check()?;
            // Without a deadline it comes back with a guard or an error.
            acquire::wait(&lock, None).await?.ok_or(LockError::ShutDown)
        }
    }

    /// Waits for the lock for `limit`. `None`: somebody else held it all the while. A limit
    /// of zero tries once.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn acquire_within(&self, limit: Duration) -> impl Future<Output = Entered> + Send + use<> {
        let lock = self.clone();
        async move {
            lock.check()?;
            // A limit beyond what a clock can count is none.
            acquire::wait(&lock, Instant::now().checked_add(limit)).await
        }
    }

    /// Who holds the lock, how often and for how long yet; `None`: it is free.
    ///
    /// # Errors
    /// Those of Redis; `NotALock` when the key holds something else.
    pub async fn state(&self) -> Result<Option<LockState>, LockError> {
        self.check()?;
        scripts::inspect(&self.inner.redis, &self.name).await
    }

    /// Whether anybody holds the lock.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn is_locked(&self) -> Result<bool, LockError> {
        Ok(self.state().await?.is_some())
    }

    /// How often `owner` has entered and not yet left: 0 when somebody else or nobody holds
    /// the lock.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn holds(&self, owner: &Owner) -> Result<u64, LockError> {
        let state = self.state().await?;
        Ok(state.filter(|state| state.owner == owner.field()).map_or(0, |state| state.holds))
    }

    /// Until the lease ends, unless it is renewed. `None`: the lock is free, or has no end.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn remaining(&self) -> Result<Option<Duration>, LockError> {
        Ok(self.state().await?.and_then(|state| state.remaining))
    }

    /// Frees the lock, whoever holds it, and wakes the waiters. The holder is told when it
    /// next renews; until then it works on beside the next one. Whether somebody held it.
    ///
    /// # Errors
    /// As [`Lock::state`].
    pub async fn force_release(&self) -> Result<bool, LockError> {
        self.check()?;
        scripts::force_release(&self.inner.redis, &self.name).await
    }

    /// Whoever enters.
    pub(super) fn entering(&self) -> Owner {
        self.owner.clone().unwrap_or_else(|| self.inner.owners.next())
    }

    fn check(&self) -> Result<(), LockError> {
        if self.name.is_empty() || self.name.len() > MAX_NAME_BYTES {
            return Err(LockError::InvalidName(self.name.len()));
        }
        let lease = self.lease.duration();
        if lease < Duration::from_millis(1) || lease > MAX_LEASE {
            return Err(LockError::InvalidLease);
        }
        if self.acknowledged.is_some_and(|wanted| wanted.within > MAX_LEASE) {
            return Err(LockError::InvalidLease);
        }
        Ok(())
    }
}
