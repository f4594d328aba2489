//! The acquire that is sent by itself: in a cluster, or where replicas are to acknowledge it.

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::acquire_target::{AcquireTarget, TryResult};
use super::claim::Claim;
use super::cleanup::CleanupItem;
use super::error::LockError;
use super::scripts::{self, AcquireAnswer};
use super::shared::LockShared;

/// No shared connection has this number: for an acquire on a connection of its own.
const OWN_CONNECTION: u64 = u64::MAX;

/// Sends the acquire of `claim` and makes a guard of its grant.
pub(super) async fn acquire_alone(
    lock: &AcquireTarget,
    claim: Arc<Claim>,
    under_way: TaskTrackerToken,
) -> Result<TryResult, LockError> {
    let mut pending = PendingAcquire {
        shared: &lock.shared,
        claim: Some(Arc::clone(&claim)),
        sent_on: OnceLock::new(),
        _under_way: under_way,
    };
    let redis = &lock.shared.redis;
    let sent_at = Instant::now();
    let sent_on = &pending.sent_on;
    let sending = |generation| _ = sent_on.set(generation);
    let answer = match lock.acknowledged {
        None => scripts::acquire(redis, &claim, sending).await.map(|answer| (answer, 0)),
        Some(wanted) => {
            let sending = || sending(OWN_CONNECTION);
            scripts::acquire_acknowledged(redis, &claim, wanted, sending).await
        }
    };
    match answer {
        // It may have been granted: dropping `pending` cleans up.
        Err(error) if error.outcome_unknown() => Err(error),
        Err(error) => {
            pending.settle();
            Err(error)
        }
        Ok((AcquireAnswer::Held { remaining }, _)) => {
            pending.settle();
            Ok(TryResult::Held { remaining })
        }
        Ok((AcquireAnswer::Granted { token }, acknowledged)) => {
            // A guard before anything else: whatever comes now, it gives the hold back.
            let guard = lock.guard(claim, token, sent_at);
            pending.settle();
            let wanted = lock.acknowledged.map_or(0, |wanted| wanted.replicas);
            if acknowledged < wanted {
                return Err(LockError::NotReplicated { wanted, acknowledged });
            }
            let guard = lock.watched(guard).await?;
            lock.wake_co_owners();
            Ok(TryResult::Granted(guard))
        }
    }
}

/// An acquire whose outcome nobody knows yet. Dropped after it was sent, it leaves the hold to the clean-up
/// worker, whether there is one or not.
struct PendingAcquire<'a> {
    shared: &'a LockShared,
    /// `None` once the outcome is known.
    claim: Option<Arc<Claim>>,
    /// The connection; unset until the acquire is sent.
    sent_on: OnceLock<u64>,
    /// Last: it ends after the clean-up was told.
    _under_way: TaskTrackerToken,
}

impl PendingAcquire<'_> {
    /// Nothing was granted, or a guard has it.
    fn settle(&mut self) {
        self.claim = None;
    }
}

impl Drop for PendingAcquire<'_> {
    fn drop(&mut self) {
        if let (Some(claim), Some(sent_on)) = (self.claim.take(), self.sent_on.get()) {
            self.shared.cleanup.submit(CleanupItem::perhaps_granted(claim, *sent_on));
        }
    }
}
