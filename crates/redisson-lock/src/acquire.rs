//! One try to take a lock. `wait.rs` makes many of them; `acquire_alone.rs` is the way of a try that cannot
//! travel in a pipeline.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

use super::acquire_alone::acquire_alone;
use super::acquire_target::{AcquireTarget, TryResult};
use super::claim::{Admission, Claim};
use super::error::LockError;
use super::owner::Owner;
use super::scripts::{self, AcquireAnswer};

/// Tries once. Dropping the future is safe at any point: what it may have been granted is given back in the
/// background.
pub(super) fn try_once(
    lock: &AcquireTarget,
    owner: Owner,
    admission: Admission,
) -> impl Future<Output = Result<TryResult, LockError>> + Send {
    let span = tracing::debug_span!("try_lock", name = lock.name);
    tried_once(lock, owner, admission).instrument(span)
}

async fn tried_once(
    lock: &AcquireTarget,
    owner: Owner,
    admission: Admission,
) -> Result<TryResult, LockError> {
    // In this order: a shutdown waits for the token, or is seen here.
    let under_way = lock.shared.under_way.token();
    if lock.shared.stop.is_cancelled() {
        return Err(LockError::ShutDown);
    }
    if lock.shared.watchdogs.have_ended() {
        return Err(LockError::RuntimeEnded);
    }
    let claim = Arc::new(lock.claim(owner, admission));
    match send(lock, claim, under_way).await {
        Ok(tried) => {
            lock.shared.outage_clock.try_answered();
            Ok(tried)
        }
        // Boxed: hardly ever.
        Err(error) => Err(Box::pin(scripts::explained(error, &lock.shared.redis)).await),
    }
}

async fn send(
    lock: &AcquireTarget,
    claim: Arc<Claim>,
    under_way: TaskTrackerToken,
) -> Result<TryResult, LockError> {
    // Many go together in a pipeline. In a cluster there is none, an acquire that waits for replicas has a
    // connection of its own, and one that nobody would go with is sooner there by itself.
    let calls = lock.shared.pipeline().filter(|_| lock.acknowledged.is_none());
    let Some(calls) = calls else {
        // Boxed: every future would be as large.
        return Box::pin(acquire_alone(lock, claim, under_way)).await;
    };
    let sent_at = Instant::now();
    match calls.acquire(&claim, under_way).await? {
        AcquireAnswer::Held { remaining } => Ok(TryResult::Held { remaining }),
        AcquireAnswer::Granted { token } => {
            let guard = lock.watched(lock.guard(claim, token, sent_at)).await?;
            lock.wake_co_owners();
            Ok(TryResult::Granted(guard))
        }
    }
}
