//! What becomes of the grants when the connection to Redis has ended: the server may have been restarted, and have
//! forgotten them, and another client may be about to take its chance. So all of them are renewed at once, and whose
//! lock is gone is told, where the next renewal would be due in a third of the lease.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout_at};

use super::renewals::{Renewal, RenewalState};
use super::scripts;

/// Renewals at once.
const AT_ONCE: usize = 64;
/// Between two questions whether the server is there again.
const PAUSE: Duration = Duration::from_millis(100);

/// Without an end.
pub(super) async fn watch(state: &Arc<RenewalState>) {
    let mut losses = state.redis.losses();
    while losses.changed().await.is_ok() {
        while !state.is_empty()
            && state.redis.ping().await.is_err_and(|error| error.retry_may_help())
        {
            sleep(PAUSE).await;
        }
        // What ends from here on is another loss, of this connection too.
        losses.mark_unchanged();
        stream::iter(state.all())
            .for_each_concurrent(AT_ONCE, |renewal| async move {
                if is_lost(state, &renewal).await {
                    state.lose(&renewal);
                }
            })
            .await;
    }
}

/// Whether the server says that the grant is lost. Where it says nothing, the usual renewal will.
async fn is_lost(state: &RenewalState, renewal: &Renewal) -> bool {
    let Renewal { claim, validity, .. } = renewal;
    let sent_at = Instant::now();
    if !renewal.renews() {
        let held = scripts::inspect(&state.redis, &claim.name).await;
        let is_ours = |lock: super::options::LockState| lock.owner == claim.owner.field();
        return held.is_ok_and(|lock| !lock.is_some_and(is_ours));
    }
    let renewed = timeout_at(validity.deadline.get(), scripts::renew(&state.redis, claim)).await;
    let Ok(Ok(is_held)) = renewed else { return false };
    if is_held {
        validity.deadline.set(sent_at + claim.lease);
    }
    !is_held
}
