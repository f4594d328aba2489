//! The way in.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::cleanup::{Cleanup, Job};
use super::owner::Owners;
use super::scripts::{self, Claim};
use super::{Guard, LockError, Owner};
use crate::store::Redis;

const MAX_NAME_BYTES: usize = 512;
const MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a lock stays held when nobody says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// So long at a time, renewed every third of it until the guard is gone.
    Renewed(Duration),
    /// So long and no longer.
    Fixed(Duration),
}

impl Lease {
    fn duration(self) -> Duration {
        match self {
            Self::Renewed(duration) | Self::Fixed(duration) => duration,
        }
    }
}

/// Settings of a [`LockClient`].
#[derive(Debug, Clone, Copy)]
pub struct LockOptions {
    /// The lease of [`LockClient::try_lock`]. 30 s, renewed, by default.
    pub lease: Lease,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self { lease: Lease::Renewed(Duration::from_secs(30)) }
    }
}

/// Takes locks on one Redis. Cheap to clone; clones are one client.
#[derive(Debug, Clone)]
pub struct LockClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) redis: Redis,
    pub(super) cleanup: Cleanup,
    owners: Owners,
    options: LockOptions,
}

impl LockClient {
    /// A client, with a worker that gives back what is dropped.
    ///
    /// # Panics
    /// Outside a tokio runtime, on which the worker runs.
    pub fn new(redis: Redis, options: LockOptions) -> Self {
        let cleanup = Cleanup::start(redis.clone());
        Self { inner: Arc::new(Inner { redis, cleanup, owners: Owners::new(), options }) }
    }

    /// A new owner, for whoever wants to enter a lock more than once.
    pub fn owner(&self) -> Owner {
        let owner = self.inner.owners.next();
        owner.share();
        owner
    }

    /// Takes the lock if it is free, for an owner of its own. `None`: it is not.
    ///
    /// # Errors
    /// See [`LockError`]. After an error with `outcome_unknown()` the lock may have been
    /// granted; it is given back in the background.
    pub async fn try_lock(&self, name: &str) -> Result<Option<Guard>, LockError> {
        self.try_lock_with(name, self.inner.owners.next(), self.inner.options.lease).await
    }

    /// Takes the lock if it is free or held by `owner`, who may thus enter again.
    ///
    /// # Errors
    /// As [`LockClient::try_lock`].
    pub async fn try_lock_as(&self, name: &str, owner: &Owner) -> Result<Option<Guard>, LockError> {
        self.try_lock_with(name, owner.clone(), self.inner.options.lease).await
    }

    /// As [`LockClient::try_lock_as`], with a lease of one's own.
    ///
    /// # Errors
    /// As [`LockClient::try_lock`].
    pub async fn try_lock_with(
        &self,
        name: &str,
        owner: Owner,
        lease: Lease,
    ) -> Result<Option<Guard>, LockError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(LockError::InvalidName(name.len()));
        }
        if lease.duration() < Duration::from_millis(1) || lease.duration() > MAX_LEASE {
            return Err(LockError::InvalidLease);
        }
        if self.inner.cleanup.is_closed() {
            return Err(LockError::ShutDown);
        }
        let claim = Claim::new(name, owner, lease.duration());
        // Armed just before it is sent: from there on, whoever drops this future leaves
        // the hold to the clean-up worker, whether it was granted or not.
        let armed = Armed { inner: &self.inner, claim: Some(claim), sent_on: OnceLock::new() };
        armed.send(lease).await
    }

    /// Waits until everything that was dropped is given back, and ends the worker. Guards
    /// that still live stay held; dropped later, they are left to their lease.
    pub async fn shutdown(&self) {
        self.inner.cleanup.shutdown().await;
    }
}

/// A hold that may exist on the server and that nobody has collected yet.
struct Armed<'a> {
    inner: &'a Arc<Inner>,
    claim: Option<Claim>,
    /// The connection; unset until the acquire is sent.
    sent_on: OnceLock<u64>,
}

impl Armed<'_> {
    async fn send(mut self, lease: Lease) -> Result<Option<Guard>, LockError> {
        let Some(claim) = &self.claim else { return Ok(None) };
        let sent_at = Instant::now();
        let sent_on = &self.sent_on;
        let sending = |generation| _ = sent_on.set(generation);
        let answer = scripts::acquire(&self.inner.redis, claim, sending).await;
        match answer {
            // Unknown: stays armed; dropping it cleans up.
            Err(error) if error.outcome_unknown() => Err(error),
            Err(error) => {
                self.claim = None;
                Err(error)
            }
            Ok((false, _)) => {
                self.claim = None;
                Ok(None)
            }
            Ok((true, holds)) => {
                let claim = self.claim.take();
                Ok(claim.map(|claim| {
                    tracing::trace!(name = claim.name, holds, "lock acquired");
                    Guard::new(Arc::clone(self.inner), claim, lease, sent_at)
                }))
            }
        }
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        if let (Some(claim), Some(sent_on)) = (self.claim.take(), self.sent_on.get()) {
            self.inner.cleanup.submit(Job::uncollected(claim, *sent_on));
        }
    }
}
