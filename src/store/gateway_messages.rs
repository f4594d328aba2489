//! Messages to the payment gateway that wait: rows that the database's functions write, and any server works off. A row
//! has one message about one payment. `attempts` names the claim of it, and `next_attempt_at` says when it is due; a
//! server that claims it moves that, so that a claim ends by itself.

use chrono::{DateTime, Utc};
use sqlx::FromRow;
use sqlx::postgres::{PgPool, PgRow};

use super::StoreError;
use super::columns::row;
use super::payments::PaymentId;
use super::statements::{Work, in_time};
use super::time_limits::GIVES_WAY;

/// The table of one kind of message, as its statements.
#[derive(Debug)]
pub struct MessageTable {
    list_due: &'static str,
    claim: &'static str,
    record: &'static str,
}

/// The statements of a table, and which of its rows wait. No claim and no pause is as long as ten minutes: one that ends
/// later was made before the clock went back.
macro_rules! messages {
    ($table:literal where $waits:literal) => {
        MessageTable {
            list_due: concat!(
                "select voucher_id, order_id, number from ", $table, " where ", $waits,
                " and (next_attempt_at <= $1 or next_attempt_at > $1 + interval '10 minutes')
                 order by next_attempt_at limit $2"
            ),
            claim: concat!(
                "update ", $table, " set attempts = attempts + 1, next_attempt_at = $5
                 where order_id = $1 and number = $2 and voucher_id = $3 and ", $waits,
                " and (next_attempt_at <= $4 or next_attempt_at > $4 + interval '10 minutes')
                 returning *"
            ),
            record: concat!(
                "update ", $table, " set last_error = $4, next_attempt_at = $5
                 where order_id = $1 and number = $2 and voucher_id = $3 and attempts = $6 and ", $waits
            ),
        }
    };
}

/// Money on its way back. `finish_refund` ends the waiting.
pub const REFUNDS: MessageTable = messages!("refunds" where "status = refund_waiting()");

/// Payments that are not wanted any more, because their order was cancelled, or paid by another payment.
pub const CANCELLATIONS: MessageTable =
    messages!("payment_cancellations" where "next_attempt_at is not null");

/// A payment of which the gateway is told that it is not wanted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct PaymentCancellation {
    pub payment_id: PaymentId,
    /// How often the gateway was told.
    pub attempts: i32,
}

row! { PaymentCancellation: ..payment_id, attempts }

impl MessageTable {
    /// Up to `limit` payments of which a message is due at `now`, the longest due first.
    pub async fn list_due(
        &self,
        pool: &PgPool,
        now: DateTime<Utc>,
        limit: i64,
    ) -> Result<Vec<PaymentId>, StoreError> {
        let query = sqlx::query_as(self.list_due).bind(now).bind(limit);
        in_time(pool, async |session| query.fetch_all(session).await).await
    }

    /// Claims the message about `payment`, if it is due at `now`, until `until`: no other server sends it before. This
    /// attempt counts in what it returns; `None`: another server has it, or it is done.
    pub async fn claim<M: for<'r> FromRow<'r, PgRow> + Send + Unpin>(
        &self,
        pool: &PgPool,
        payment: PaymentId,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<Option<M>, StoreError> {
        let query = sqlx::query_as(self.claim)
            .bind(payment.order.get())
            .bind(payment.number)
            .bind(payment.voucher.get())
            .bind(now)
            .bind(until);
        let claim = Work::step_with(GIVES_WAY, pool);
        claim.run(async |session| query.fetch_optional(session).await).await
    }

    /// Writes what became of the `attempt` that was claimed: what the gateway said, if it did not take the message, and when
    /// it is sent next, if it is. A server whose claim is over changes nothing.
    pub async fn record(
        &self,
        pool: &PgPool,
        payment: PaymentId,
        attempt: i32,
        error: Option<&str>,
        next: Option<DateTime<Utc>>,
    ) -> Result<(), StoreError> {
        let query = sqlx::query(self.record)
            .bind(payment.order.get())
            .bind(payment.number)
            .bind(payment.voucher.get())
            .bind(error)
            .bind(next)
            .bind(attempt);
        in_time(pool, async |session| query.execute(session).await).await?;
        Ok(())
    }
}
