//! A waiter's place in the queue of a fair lock, which stands in Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::task::task_tracker::TaskTrackerToken;

use super::claim::{Admission, Claim};
use super::cleanup::{CleanupItem, give_back};
use super::error::LockError;
use super::shared::LockShared;

/// A place in the queue, from before the first try that joins it. Dropping it leaves the queue in the
/// background.
#[derive(Debug)]
pub(super) struct FairPlace {
    shared: Arc<LockShared>,
    /// `None` once its owner has left or entered.
    claim: Option<Arc<Claim>>,
    /// Whether the wait is over. Until then a clean-up after one of its tries keeps the place.
    over: Arc<AtomicBool>,
    /// Last: it ends after the clean-up was told.
    _under_way: TaskTrackerToken,
}

impl FairPlace {
    /// # Errors
    /// `ShutDown`: nobody would leave the queue any more.
    pub(super) fn new(
        shared: &Arc<LockShared>,
        claim: impl FnOnce(Admission) -> Claim,
    ) -> Result<Self, LockError> {
        // In this order: a shutdown waits for the token, or is seen here.
        let under_way = shared.under_way.token();
        if shared.stop.is_cancelled() {
            return Err(LockError::ShutDown);
        }
        let over = Arc::default();
        let claim = claim(Admission::FairWait(Arc::clone(&over)));
        let (shared, claim) = (Arc::clone(shared), Some(Arc::new(claim)));
        Ok(Self { shared, claim, over, _under_way: under_way })
    }

    /// When a try of this wait may be granted.
    pub(super) fn admission(&self) -> Admission {
        Admission::FairWait(Arc::clone(&self.over))
    }

    /// The acquire that was granted has left the queue.
    pub(super) fn entered(mut self) {
        self.claim = None;
    }

    /// Leaves the queue, and waits for Redis to say so.
    pub(super) async fn leave(mut self) {
        self.over.store(true, Ordering::Release);
        let Some(claim) = &self.claim else {
            unreachable!("a place has its claim until it is left or its owner has entered");
        };
        // What fails stays armed.
        if give_back(&self.shared.redis, &self.shared.waiters, claim).await.is_ok() {
            self.claim = None;
        }
    }
}

impl Drop for FairPlace {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(claim) = self.claim.take() {
            self.shared.cleanup.submit(CleanupItem::release(claim));
        }
    }
}
