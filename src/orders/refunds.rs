//! Money on its way back is work in the database: any server claims a refund, asks the gateway, and writes
//! what became of it. A claim ends by itself, so that a server that dies delays it and loses nothing. The
//! gateway hears the same name each time, and gives back once.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{self, StreamExt};
use rand::RngExt;
use tokio::time::Instant;

use super::worker::{Work, Worker};
use super::{PaymentGateway, RefundRequest};
use crate::purchase::Purchases;
use crate::store::payments::PaymentId;
use crate::store::{Database, StoreError, order_steps, refunds};
use crate::telemetry;

/// Refunds looked for at once.
const LOOK_FOR: i64 = 100;
/// Refunds that the gateway is asked for at once.
const AT_ONCE: usize = 8;
/// How long a server has a refund to itself: longer than the gateway takes to answer.
const CLAIM: Duration = Duration::from_secs(30);
/// The pause after the first failure. It doubles with each, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Of what the gateway said, so much is kept, in characters.
const MAX_ERROR: usize = 500;

/// Gives money back.
#[derive(Debug, Clone)]
pub struct Refunds {
    database: Database,
    purchases: Arc<Purchases>,
    gateway: Arc<dyn PaymentGateway>,
}

impl Refunds {
    /// Of payments in `database`, by `gateway`; `purchases` is told of what comes back on sale.
    pub fn new(
        database: Database,
        purchases: Arc<Purchases>,
        gateway: Arc<dyn PaymentGateway>,
    ) -> Self {
        Self { database, purchases, gateway }
    }

    /// Takes steps, in a task of its own.
    pub fn start(self) -> Worker {
        Worker::start(self)
    }

    /// Tries what is due now, up to a hundred refunds. Returns how many it found, and how many are done.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn step(&self) -> Result<(usize, usize), StoreError> {
        let pool = self.database.pool();
        let now = order_steps::time(pool).await?;
        let due = refunds::list_due(pool, now, LOOK_FOR).await?;
        let found = due.len();
        let begun = Instant::now();
        let tries = stream::iter(due).map(async |payment| self.try_one(payment, now, begun).await);
        let tried: Vec<_> = tries.buffer_unordered(AT_ONCE).collect().await;
        let mut done = 0;
        for is_done in tried {
            done += usize::from(is_done?);
        }
        Ok((found, done))
    }

    /// Whether this call finished the refund.
    ///
    /// The database's clock showed `then` when this machine's showed `begun`.
    async fn try_one(
        &self,
        payment: PaymentId,
        then: DateTime<Utc>,
        begun: Instant,
    ) -> Result<bool, StoreError> {
        let pool = self.database.pool();
        let now = || then + TimeDelta::from_std(begun.elapsed()).unwrap_or(TimeDelta::MAX);
        let Some(refund) = refunds::claim(pool, payment, now(), CLAIM).await? else {
            return Ok(false);
        };
        let request =
            RefundRequest { payment, transaction_id: refund.transaction_id, amount: refund.amount };
        if let Err(error) = self.gateway.refund(&request).await {
            let pause = pause_after(refund.attempts);
            tracing::warn!(%payment, attempts = refund.attempts, %error, ?pause, "a refund waits");
            let error: String = error.to_string().chars().take(MAX_ERROR).collect();
            let next = now() + TimeDelta::from_std(pause).unwrap_or(TimeDelta::MAX);
            refunds::postpone(pool, payment, &error, next).await?;
            telemetry::refund_tried("failed");
            return Ok(false);
        }
        let is_done = refunds::finish(self.database.steps(), payment).await?;
        if is_done {
            self.purchases.voucher_changed(payment.voucher);
            telemetry::refund_tried("done");
        }
        Ok(is_done)
    }
}

impl Work for Refunds {
    async fn step(&mut self) -> Result<bool, StoreError> {
        let (found, _) = Self::step(self).await?;
        Ok(found == LOOK_FOR as usize)
    }
}

/// How long a refund rests after so many attempts: not all of them at one moment.
fn pause_after(attempts: i32) -> Duration {
    let doublings = attempts.clamp(1, 20).unsigned_abs() - 1;
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    pause.mul_f64(rand::rng().random_range(0.75..1.25))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_five_minutes() {
        for (attempts, expected_s) in [(1, 1), (2, 2), (9, 256), (10, 300), (i32::MAX, 300)] {
            let pause = pause_after(attempts).as_secs_f64() / f64::from(expected_s);
            assert!((0.75..1.25).contains(&pause), "{attempts}: {pause}");
        }
    }
}
