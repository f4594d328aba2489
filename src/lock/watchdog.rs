//! Renews one grant's lease while its guard lives.

use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Lease;
use super::scripts::{self, Claim};
use crate::store::Redis;

/// One grant's watchdog: bound to the grant, not to the name, so that it cannot keep
/// alive what somebody else took.
#[derive(Debug)]
pub(super) struct Watchdog {
    lost: CancellationToken,
    task: AbortHandle,
}

impl Watchdog {
    /// `sent_at`: just before the acquire was sent; the lease surely began no earlier.
    pub(super) fn start(redis: Redis, claim: Claim, lease: Lease, sent_at: Instant) -> Self {
        let lost = CancellationToken::new();
        let announce = lost.clone();
        let deadline = sent_at + claim.lease;
        let task = tokio::spawn(async move {
            match lease {
                Lease::Renewed(_) => renew_until_lost(&redis, &claim, deadline).await,
                Lease::Fixed(_) => sleep_until(deadline).await,
            }
            tracing::warn!(name = claim.name, "the lease of a lock was lost");
            metrics::counter!("seckill_lock_lost_total").increment(1);
            announce.cancel();
        });
        Self { lost, task: task.abort_handle() }
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// No renewal is sent after this returns, save one that is on its way already; that
    /// one is checked against the owner like any other.
    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns when the lease is lost: a renewal was refused, or none succeeded before the
/// deadline counted from the last that did.
async fn renew_until_lost(redis: &Redis, claim: &Claim, mut deadline: Instant) {
    let third = claim.lease / 3;
    let retry_pause = (claim.lease / 20).max(Duration::from_millis(1));
    let mut next = deadline - claim.lease + third;
    loop {
        sleep_until(next.min(deadline)).await;
        let sent_at = Instant::now();
        if sent_at >= deadline {
            return;
        }
        match timeout_at(deadline, scripts::renew(redis, claim)).await {
            Ok(Ok(true)) => {
                deadline = sent_at + claim.lease;
                next = sent_at + third;
                metrics::counter!("seckill_lock_renewed_total").increment(1);
            }
            Ok(Ok(false)) => return,
            Ok(Err(error)) if error.retry_may_help() => {
                tracing::debug!(name = claim.name, %error, "a renewal failed, trying again");
                next = Instant::now() + retry_pause;
            }
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
