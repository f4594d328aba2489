//! Payments that are not wanted any more, because their order was cancelled, or paid by another payment: the gateway is
//! to be told of each. `cancel_order`, `expire_orders` and `cancel_other_payments` write the rows.

use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;

use super::StoreError;
use super::payments::{self, PaymentId};
use super::statements::{in_time, step_with};
use super::time_limits::GIVES_WAY;

/// Up to `limit` payments of which the gateway is to be told at `now`, the longest due first.
pub async fn list_due(
    pool: &PgPool,
    now: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<PaymentId>, StoreError> {
    let due = "select voucher_id, order_id, number from payment_cancellations
         where next_attempt_at <= $1
         order by next_attempt_at limit $2";
    payments::list_due(pool, due, now, limit).await
}

/// Claims one that is due at `now`, until `until`: no other server tells the gateway before. Returns how often it was
/// tried, this time included; `None`: another server has it, or it is done.
pub async fn claim(
    pool: &PgPool,
    payment: PaymentId,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<Option<i32>, StoreError> {
    let query = sqlx::query_scalar(
        "update payment_cancellations set attempts = attempts + 1, next_attempt_at = $5
         where order_id = $1 and number = $2 and voucher_id = $3 and next_attempt_at <= $4
         returning attempts",
    )
    .bind(payment.order.get())
    .bind(payment.number)
    .bind(payment.voucher.get())
    .bind(now)
    .bind(until);
    step_with(GIVES_WAY, pool, async |session| query.fetch_optional(session).await).await
}

/// Writes what became of the `attempt` that [`claim`] returned: what the gateway said, where it did not take it, and when it
/// is told again. If there was a later one meanwhile, that one counts.
pub async fn record(
    pool: &PgPool,
    payment: PaymentId,
    attempt: i32,
    error: Option<&str>,
    next: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    let query = sqlx::query(
        "update payment_cancellations set last_error = $4, next_attempt_at = $5
         where order_id = $1 and number = $2 and voucher_id = $3 and next_attempt_at is not null and attempts = $6",
    )
    .bind(payment.order.get())
    .bind(payment.number)
    .bind(payment.voucher.get())
    .bind(error)
    .bind(next)
    .bind(attempt);
    in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}
