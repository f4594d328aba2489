//! What the gateway has to be told is work in the database: money on its way back, and payments that are not wanted any
//! more. Any server claims a row, tells the gateway, and writes what became of it. A claim ends by itself, so
//! that a server that dies delays the work and loses nothing. The gateway gets the same name each time, and gives
//! back once.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{self, StreamExt};
use rand::RngExt;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{GatewayError, PaymentGateway, RefundRequest};
use crate::purchase::Purchases;
use crate::store::payments::PaymentId;
use crate::store::refunds::FinishedRefund;
use crate::store::{Database, StoreError, order_steps, payment_cancellations, refunds};
use crate::telemetry;
use crate::worker::{Chore, Worker};

/// Rows of a kind that are looked for at once.
const LOOK_FOR: i64 = 100;
/// Messages that are under way at once.
const AT_ONCE: usize = 8;
/// How long a server has a row to itself: longer than the gateway takes to answer.
const CLAIM: Duration = Duration::from_secs(30);
/// The pause after the first failure. It doubles with each, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Of what the gateway said, so much is kept, in characters.
const MAX_ERROR: usize = 500;
/// How often a gateway is told of a cancellation that it does not take: for about 24 minutes. No money depends on it.
const MAX_CANCELLATION_ATTEMPTS: i32 = 13;

/// Tells the gateway.
#[derive(Debug, Clone)]
pub struct GatewayWork {
    database: Database,
    purchases: Arc<Purchases>,
    gateway: Arc<dyn PaymentGateway>,
    /// Held while a row is claimed, or what became of it is written, on a connection of the readers. It may wait for a
    /// table that another session locks: the readers keep the other connections.
    writing: Arc<Mutex<()>>,
}

/// A payment of which the gateway has to be told something.
#[derive(Debug, Clone, Copy)]
enum Task {
    Refund(PaymentId),
    Cancellation(PaymentId),
}

/// The database's clock, read once, and then carried on by this machine's.
#[derive(Debug, Clone, Copy)]
struct Now {
    then: DateTime<Utc>,
    begun: Instant,
}

impl Now {
    fn plus(self, more: Duration) -> DateTime<Utc> {
        let later = TimeDelta::from_std(self.begun.elapsed() + more).unwrap_or(TimeDelta::MAX);
        self.then.checked_add_signed(later).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

impl GatewayWork {
    /// Of payments in `database`, by `gateway`; `purchases` is told of what comes back on sale.
    pub fn new(
        database: Database,
        purchases: Arc<Purchases>,
        gateway: Arc<dyn PaymentGateway>,
    ) -> Self {
        Self { database, purchases, gateway, writing: Arc::default() }
    }

    /// Takes steps, in a task of its own.
    pub fn start(self) -> Worker {
        Worker::start(self)
    }

    /// Tries what is due now, up to a hundred rows of each kind. Returns how many it found, and how many are done.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn step(&self) -> Result<(usize, usize), StoreError> {
        let pool = self.database.pool();
        let now = Now { then: order_steps::time(pool).await?, begun: Instant::now() };
        // No refund waits for a metric.
        if let Ok(oldest) = refunds::oldest_waiting(pool).await {
            let age_s = oldest.map_or(0.0, |since| (now.then - since).as_seconds_f64().max(0.0));
            metrics::gauge!(telemetry::name::REFUND_OLDEST_AGE).set(age_s);
        }
        let due = refunds::list_due(pool, now.then, LOOK_FOR).await?;
        let cancelled = payment_cancellations::list_due(pool, now.then, LOOK_FOR).await?;
        let due: Vec<Task> = due
            .into_iter()
            .map(Task::Refund)
            .chain(cancelled.into_iter().map(Task::Cancellation))
            .collect();
        let found = due.len();
        let tries = stream::iter(due).map(async |task| match task {
            Task::Refund(payment) => self.give_back(payment, now).await,
            Task::Cancellation(payment) => self.tell_of_cancellation(payment, now).await,
        });
        let tried: Vec<_> = tries.buffer_unordered(AT_ONCE).collect().await;
        let mut done = 0;
        for is_done in tried {
            done += usize::from(is_done?);
        }
        Ok((found, done))
    }

    /// Whether this call finished the refund.
    async fn give_back(&self, payment: PaymentId, now: Now) -> Result<bool, StoreError> {
        let pool = self.database.pool();
        let one = self.writing.lock().await;
        let until = now.plus(CLAIM);
        let claimed = refunds::claim(pool, payment, now.plus(Duration::ZERO), until).await?;
        drop(one);
        let Some(refund) = claimed else { return Ok(false) };
        let request = RefundRequest {
            refund: payment,
            payment: PaymentId { number: refund.announced.unwrap_or(payment.number), ..payment },
            transaction_id: refund.transaction_id,
            amount: refund.amount,
        };
        if let Err(error) = self.gateway.refund(&request).await {
            let pause = pause_after(refund.attempts);
            tracing::warn!(%payment, attempts = refund.attempts, %error, ?pause, "a refund waits");
            let _one = self.writing.lock().await;
            let next = now.plus(pause);
            refunds::postpone(pool, payment, refund.attempts, &said(&error), next).await?;
            telemetry::refund_tried("failed");
            return Ok(false);
        }
        let finished =
            refunds::finish(&*self.database.steps_of(payment.voucher).await?, payment).await?;
        match finished {
            FinishedRefund::Done => {
                self.purchases.voucher_changed(payment.voucher);
                telemetry::refund_tried("done");
                Ok(true)
            }
            FinishedRefund::Repeated => Ok(false),
            FinishedRefund::ReturnedTwice => {
                tracing::error!(%payment, "the gateway gave money back that had gone back another way meanwhile");
                telemetry::refund_tried("twice");
                Ok(false)
            }
        }
    }

    /// Whether the gateway knows now that the payment is not wanted any more.
    async fn tell_of_cancellation(&self, payment: PaymentId, now: Now) -> Result<bool, StoreError> {
        let pool = self.database.pool();
        let one = self.writing.lock().await;
        let until = now.plus(CLAIM);
        let claimed =
            payment_cancellations::claim(pool, payment, now.plus(Duration::ZERO), until).await?;
        drop(one);
        let Some(attempt) = claimed else { return Ok(false) };
        let (error, next) = match self.gateway.cancel_payment(payment).await {
            Ok(()) => (None, None),
            Err(error) => {
                let may_try = attempt < MAX_CANCELLATION_ATTEMPTS;
                tracing::info!(%payment, attempts = attempt, %error, may_try, "the gateway did not take a cancellation");
                (Some(said(&error)), may_try.then(|| now.plus(pause_after(attempt))))
            }
        };
        let _one = self.writing.lock().await;
        payment_cancellations::record(pool, payment, attempt, error.as_deref(), next).await?;
        Ok(error.is_none())
    }
}

impl Chore for GatewayWork {
    async fn step(&mut self) -> Result<bool, StoreError> {
        let (found, _) = Self::step(self).await?;
        Ok(found >= LOOK_FOR as usize)
    }
}

/// What the gateway said, for an administrator.
fn said(error: &GatewayError) -> String {
    error.to_string().chars().take(MAX_ERROR).collect()
}

/// How long to wait after so many attempts, give or take a quarter: not all of them at one moment.
pub(super) fn pause_after(attempts: i32) -> Duration {
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
