//! The way in.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::batch::Batches;
use super::cleanup::Cleanup;
use super::outage::Outage;
use super::owner::Owners;
use super::wakeups::Wakeups;
use super::watchdog::Kennel;
use super::{Lock, Owner};
use crate::store::Redis;

/// How long a shutdown waits for a Redis that does not answer.
pub(super) const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// How long a lock stays held when nobody says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// So long at a time, renewed every third of it until the guard is gone.
    Renewed(Duration),
    /// So long and no longer.
    Fixed(Duration),
}

impl Lease {
    pub(super) fn duration(self) -> Duration {
        match self {
            Self::Renewed(duration) | Self::Fixed(duration) => duration,
        }
    }
}

/// Settings of a [`LockClient`].
#[derive(Debug, Clone, Copy)]
pub struct LockOptions {
    /// The lease of a lock that names none. 30 s, renewed, by default.
    pub lease: Lease,
    /// How long a renewed lock may be held at all. After it the lease is renewed no more
    /// and ends, and the holder is told: a lock must not outlive the work that hangs while
    /// its watchdog barks on. Without a limit by default.
    pub max_hold: Option<Duration>,
    /// How long Redis may be out of reach before those who wait are told, counted for all of
    /// them together. 30 s by default: a restart or a failover fits in.
    pub outage_patience: Duration,
    /// How many may wait at once, on all locks of this client together. 65,536 by default;
    /// one more is refused.
    pub max_waiters: usize,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            lease: Lease::Renewed(Duration::from_secs(30)),
            max_hold: None,
            outage_patience: Duration::from_secs(30),
            max_waiters: 65_536,
        }
    }
}

/// Takes locks on one Redis (or Sentinel's master, or Cluster). Cheap to clone; clones are
/// one client, with two connections to a server however many hold or wait (and a few more
/// where replicas are to acknowledge).
#[derive(Debug, Clone)]
pub struct LockClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) redis: Redis,
    pub(super) cleanup: Cleanup,
    pub(super) wakeups: Wakeups,
    pub(super) kennel: Kennel,
    /// `None` in a cluster.
    pub(super) batches: Option<Batches>,
    pub(super) owners: Owners,
    pub(super) options: LockOptions,
    /// Ends what waits.
    pub(super) stop: CancellationToken,
    pub(super) outage: Outage,
    /// Tries and releases that were begun: a shutdown waits until each is answered, or
    /// dropped and with it handed to the clean-up.
    pub(super) under_way: TaskTracker,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl LockClient {
    /// A client, with a worker that gives back what is dropped and one that listens for
    /// releases.
    ///
    /// # Panics
    /// Outside a tokio runtime, on which the workers run.
    pub fn new(redis: Redis, options: LockOptions) -> Self {
        let stop = CancellationToken::new();
        let cleanup = Cleanup::start(redis.clone());
        let batches = redis.is_one_server().then(|| Batches::start(redis.clone(), cleanup.desk()));
        let inner = Inner {
            cleanup,
            batches,
            wakeups: Wakeups::start(redis.clone(), options.max_waiters, stop.clone()),
            kennel: Kennel::open(redis.clone()),
            redis,
            owners: Owners::new(),
            options,
            stop,
            outage: Outage::default(),
            under_way: TaskTracker::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The lock of this name, for an owner of its own at each entry and with the client's
    /// lease; [`Lock`] has the ways to ask for more. Nothing is sent yet.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(Arc::clone(&self.inner), name.into())
    }

    /// Whether locks that are tried at once are asked for in few calls. In a cluster they are not:
    /// each goes to its own node.
    pub fn sends_together(&self) -> bool {
        self.inner.batches.is_some()
    }

    /// Whether they are clones of one client.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A new owner, for whoever wants to enter a lock more than once.
    pub fn owner(&self) -> Owner {
        let owner = self.inner.owners.next();
        owner.share();
        owner
    }

    /// Ends all waits with [`super::LockError::ShutDown`], refuses new entries, and waits
    /// until everything that was dropped is given back. A barrier: afterwards nothing of
    /// this client is under way, unless Redis did not answer for five seconds; then the
    /// leases end by themselves. Guards that still live stay held and renewed; dropped
    /// later, they are left to their lease.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.wakeups.shutdown().await;
        self.inner.under_way.close();
        if timeout(SHUTDOWN_LIMIT, self.inner.under_way.wait()).await.is_err() {
            tracing::warn!("a future of a lock is neither polled nor dropped, going on without it");
        }
        self.inner.cleanup.shutdown().await;
        self.inner.kennel.close();
    }
}
