//! Refunds: money on its way back, one refund a payment. A message asks the gateway for each ([`messages`](super::messages)).

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::postgres::PgPool;
use utoipa::ToSchema;

use super::StoreError;
use super::columns::row;
use super::payments::{NoticeOutcome, PaymentId};
use super::statements::{in_time, step_in_time};
use crate::model::{OrderId, VoucherId};

/// Money on its way back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RefundBody)]
pub struct Refund {
    /// The payment that is given back.
    #[schema(value_type = String)]
    pub payment_id: PaymentId,
    /// Its order.
    pub order_id: OrderId,
    /// The voucher.
    pub voucher_id: VoucherId,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// `refund`: an administrator gave it back. `order_cancelled`, `order_paid`, `order_missing`, `wrong_amount`:
    /// the money could not be applied to the order. `refunded_by_gateway`, `charged_back`: nobody here asked for it.
    pub reason: String,
    /// How often the gateway was asked.
    pub attempts: i32,
    /// When it is asked next; null: it is not asked any more.
    #[schema(required = true)]
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// What it said last.
    #[schema(required = true)]
    pub last_error: Option<String>,
    /// Since when the money waits.
    pub created_at: DateTime<Utc>,
    /// When the same money went back a second time: by the gateway and outside it, or by a charge-back.
    #[schema(required = true)]
    pub given_back_twice_at: Option<DateTime<Utc>>,
    /// What of the payment went back in parts that nobody here had asked for; `amount` is the rest.
    pub returned_amount: i64,
}

row! {
    Refund: ..payment_id, order_id, voucher_id, amount, reason, attempts, next_attempt_at, last_error, created_at,
    given_back_twice_at, returned_amount
}

/// Of the refund of a payment, if it waits: the gateway's own name of the money, the amount, and the number of the payment
/// that the gateway knows, if it took money twice for that one.
pub async fn find_waiting(
    pool: &PgPool,
    payment: PaymentId,
) -> Result<Option<(String, i64, Option<i32>)>, StoreError> {
    let query = sqlx::query_as(
        "select transaction_id, amount, announced from refunds
         where order_id = $1 and number = $2 and voucher_id = $3 and status = refund_waiting()",
    )
    .bind(payment.order.get())
    .bind(payment.number)
    .bind(payment.voucher.get());
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}

/// The gateway has given the money back: `Returned`, `Repeated`, or `ReturnedTwice`, if it had gone back another way while the
/// gateway was asked.
pub async fn finish(pool: &PgPool, payment: PaymentId) -> Result<NoticeOutcome, StoreError> {
    let query = sqlx::query_scalar("select finish_refund($1, $2, $3)")
        .bind(payment.voucher.get())
        .bind(payment.order.get())
        .bind(payment.number);
    step_in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// What an administrator looks at: up to `limit` refunds that wait, or went back twice, of the oldest order first; those that come
/// after that of the payment `after`.
pub async fn list_open(
    pool: &PgPool,
    after: Option<PaymentId>,
    limit: i64,
) -> Result<Vec<Refund>, StoreError> {
    let query = sqlx::query_as(
        "select r.*, coalesce(p.returned_amount, 0) as returned_amount,
                coalesce(m.attempts, 0) as attempts, m.next_attempt_at, m.last_error
         from refunds r
         left join payments p on p.order_id = r.order_id and p.number = r.number and p.voucher_id = r.voucher_id
         left join messages m
           on m.order_id = r.order_id and m.number = r.number and m.voucher_id = r.voucher_id and m.kind = 'refund'
         where (r.status = refund_waiting() or r.given_back_twice_at is not null)
           and ($1::bigint is null or (r.order_id, r.number, r.voucher_id) > ($1, $2, $3))
         order by r.order_id, r.number, r.voucher_id limit $4",
    )
    .bind(after.map(|payment| payment.order.get()))
    .bind(after.map(|payment| payment.number))
    .bind(after.map(|payment| payment.voucher.get()))
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}

/// Since when the oldest refund waits that does.
pub async fn oldest_waiting(pool: &PgPool) -> Result<Option<DateTime<Utc>>, StoreError> {
    let query = sqlx::query_scalar(
        "select created_at from refunds where status = refund_waiting() order by created_at limit 1",
    );
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}
