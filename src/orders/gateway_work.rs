//! What the gateway has to be told is work in the database: money on its way back, and payments that are not wanted any
//! more. Any server claims a row, tells the gateway, and writes what became of it. A claim ends by itself, so
//! that a server that dies delays the work and loses nothing. The gateway gets the same name each time, and gives
//! back once.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use rand::RngExt;
use sqlx::FromRow;
use sqlx::postgres::PgRow;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{GatewayError, PaymentGateway, RefundRequest};
use crate::purchase::Purchases;
use crate::store::gateway_messages::{CANCELLATIONS, MessageTable, PaymentCancellation, REFUNDS};
use crate::store::payments::{NoticeOutcome, PaymentId};
use crate::store::refunds::Refund;
use crate::store::{Database, StoreError, order_steps, refunds, unmatched_payments};
use crate::telemetry::name;
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

/// A kind of message to the gateway: where its rows wait, how one is sent, and what is written once the gateway took it.
trait Message: for<'r> FromRow<'r, PgRow> + Send + Sync + Unpin + 'static {
    const TABLE: MessageTable;

    /// How often it was sent, this time included.
    fn attempts(&self) -> i32;

    fn send(
        &self,
        gateway: &dyn PaymentGateway,
    ) -> impl Future<Output = Result<(), GatewayError>> + Send;

    /// Writes that the gateway took it. Returns whether this call ended the message.
    fn finish(&self, work: &GatewayWork) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Says in the log why the gateway did not take it. Returns whether it is sent again.
    fn is_sent_again(&self, error: &GatewayError) -> bool;
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
        if let Ok(count) = unmatched_payments::count_open(pool).await {
            metrics::gauge!(name::PAYMENTS_UNMATCHED).set(count as f64);
        }
        if let Ok(oldest) = refunds::oldest_waiting(pool).await {
            let age_s = oldest.map_or(0.0, |since| (now.then - since).as_seconds_f64().max(0.0));
            metrics::gauge!(name::REFUND_OLDEST_AGE).set(age_s);
        }
        let mut tries = self.due::<Refund>(now).await?;
        tries.extend(self.due::<PaymentCancellation>(now).await?);
        let found = tries.len();
        let tried: Vec<_> = stream::iter(tries).buffer_unordered(AT_ONCE).collect().await;
        let mut done = 0;
        for is_done in tried {
            done += usize::from(is_done?);
        }
        Ok((found, done))
    }

    /// One try for each message of a kind that is due.
    async fn due<M: Message>(
        &self,
        now: Now,
    ) -> Result<Vec<BoxFuture<'_, Result<bool, StoreError>>>, StoreError> {
        let due = M::TABLE.list_due(self.database.pool(), now.then, LOOK_FOR).await?;
        Ok(due.into_iter().map(|payment| self.try_once::<M>(payment, now).boxed()).collect())
    }

    /// Whether this call ended the message about `payment`.
    async fn try_once<M: Message>(&self, payment: PaymentId, now: Now) -> Result<bool, StoreError> {
        let pool = self.database.pool();
        let one = self.writing.lock().await;
        let (from, until) = (now.plus(Duration::ZERO), now.plus(CLAIM));
        let claimed = M::TABLE.claim::<M>(pool, payment, from, until).await?;
        drop(one);
        let Some(message) = claimed else { return Ok(false) };
        let Err(error) = message.send(&*self.gateway).await else {
            return message.finish(self).await;
        };
        let attempt = message.attempts();
        let next = message.is_sent_again(&error).then(|| now.plus(pause_after(attempt)));
        self.record::<M>(payment, attempt, Some(&said(&error)), next).await?;
        Ok(false)
    }

    async fn record<M: Message>(
        &self,
        payment: PaymentId,
        attempt: i32,
        error: Option<&str>,
        next: Option<DateTime<Utc>>,
    ) -> Result<(), StoreError> {
        let _one = self.writing.lock().await;
        M::TABLE.record(self.database.pool(), payment, attempt, error, next).await
    }
}

impl Message for Refund {
    const TABLE: MessageTable = REFUNDS;

    fn attempts(&self) -> i32 {
        self.attempts
    }

    async fn send(&self, gateway: &dyn PaymentGateway) -> Result<(), GatewayError> {
        let refund = self.payment_id;
        let payment = PaymentId { number: self.announced.unwrap_or(refund.number), ..refund };
        let (transaction_id, amount) = (self.transaction_id.clone(), self.amount);
        gateway.refund(&RefundRequest { refund, payment, transaction_id, amount }).await
    }

    async fn finish(&self, work: &GatewayWork) -> Result<bool, StoreError> {
        let payment = self.payment_id;
        let turn = work.database.steps_of(payment.voucher).await?;
        match refunds::finish(&turn, payment).await? {
            NoticeOutcome::Returned => {
                work.purchases.voucher_changed(payment.voucher);
                metrics::counter!(name::REFUNDS, "answer" => "done").increment(1);
                Ok(true)
            }
            NoticeOutcome::ReturnedTwice => {
                tracing::error!(%payment, "the gateway gave money back that had gone back another way meanwhile");
                metrics::counter!(name::REFUNDS, "answer" => "twice").increment(1);
                Ok(false)
            }
            NoticeOutcome::Repeated => Ok(false),
            outcome => unreachable!("the refund of payment {payment} ended as {outcome:?}"),
        }
    }

    fn is_sent_again(&self, error: &GatewayError) -> bool {
        let (payment, attempts) = (self.payment_id, self.attempts);
        tracing::warn!(%payment, attempts, %error, "a refund waits");
        metrics::counter!(name::REFUNDS, "answer" => "failed").increment(1);
        true
    }
}

impl Message for PaymentCancellation {
    const TABLE: MessageTable = CANCELLATIONS;

    fn attempts(&self) -> i32 {
        self.attempts
    }

    async fn send(&self, gateway: &dyn PaymentGateway) -> Result<(), GatewayError> {
        gateway.cancel_payment(self.payment_id).await
    }

    async fn finish(&self, work: &GatewayWork) -> Result<bool, StoreError> {
        work.record::<Self>(self.payment_id, self.attempts, None, None).await?;
        Ok(true)
    }

    fn is_sent_again(&self, error: &GatewayError) -> bool {
        let may_try = self.attempts < MAX_CANCELLATION_ATTEMPTS;
        let (payment, attempts) = (self.payment_id, self.attempts);
        tracing::info!(%payment, attempts, %error, may_try, "the gateway did not take a cancellation");
        may_try
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
