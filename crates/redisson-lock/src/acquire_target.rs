//! What is to be taken, and what a try to take it comes to.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::claim::{Admission, Claim};
use super::error::LockError;
use super::guard::Guard;
use super::options::{Acknowledged, Lease};
use super::owner::Owner;
use super::redisson_names;
use super::shared::LockShared;

const MAX_NAME_BYTES: usize = 512;
const MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// The lock that is to be taken, and how.
#[derive(Debug, Clone)]
pub(super) struct AcquireTarget {
    pub(super) shared: Arc<LockShared>,
    pub(super) name: String,
    /// `None`: each entry has an owner of its own.
    pub(super) owner: Option<Owner>,
    pub(super) lease: Lease,
    pub(super) fair: bool,
    pub(super) fenced: bool,
    pub(super) acknowledged: Option<Acknowledged>,
}

/// The result of one try.
pub(super) enum TryResult {
    Granted(Guard),
    /// Another owner holds the lock, or is before this one in the queue, for so long yet. `None`: without
    /// an end.
    Held {
        remaining: Option<Duration>,
    },
}

impl AcquireTarget {
    /// The owner that enters.
    pub(super) fn entering(&self) -> Owner {
        self.owner.clone().unwrap_or_else(|| self.shared.owners.next())
    }

    pub(super) fn check(&self) -> Result<(), LockError> {
        if self.name.is_empty() || self.name.len() > MAX_NAME_BYTES {
            return Err(LockError::InvalidName(self.name.len()));
        }
        let lease = self.lease.duration();
        // The answer of replicas that are waited for as long as the lease comes when it is over.
        let wait = self.acknowledged.map_or(Duration::ZERO, |wanted| wanted.within);
        if lease < Duration::from_millis(1) || lease > MAX_LEASE || wait >= lease {
            return Err(LockError::InvalidLease);
        }
        Ok(())
    }

    /// When a try may be granted that is not part of a wait.
    pub(super) fn admission(&self) -> Admission {
        if self.fair { Admission::FairTry } else { Admission::Plain }
    }

    pub(super) fn claim(&self, owner: Owner, admission: Admission) -> Claim {
        Claim::new(&self.name, owner, self.lease.duration(), self.fenced, admission)
    }

    /// Where `owner` hears that it may try.
    pub(super) fn channel(&self, owner: &Owner) -> String {
        redisson_names::channel(&self.name, self.fair.then_some(owner))
    }

    /// Others of the same owner may be waiting: they can enter now.
    pub(super) fn wake_co_owners(&self) {
        if let Some(owner) = &self.owner {
            self.shared.waiters.retry_all(&self.channel(owner));
        }
    }

    /// The guard, if somebody renews its lease and tells of its loss, and the answer came while it lasted.
    /// Otherwise it is given back at once.
    pub(super) async fn watched(&self, guard: Guard) -> Result<Guard, LockError> {
        let error = if self.shared.watchdogs.have_ended() {
            LockError::RuntimeEnded
        } else if guard.is_lost() {
            LockError::TooLate
        } else {
            return Ok(guard);
        };
        // Boxed: hardly ever. What fails here the lease ends.
        let _ = Box::pin(guard.release()).await;
        Err(error)
    }

    pub(super) fn guard(&self, claim: Arc<Claim>, token: Option<u64>, sent_at: Instant) -> Guard {
        Guard::new(&self.shared, claim, self.lease, token, sent_at)
    }
}
