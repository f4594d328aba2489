//! Refunds: money on its way back, one refund a payment. The rows that wait are messages to the gateway
//! ([`gateway_messages`](super::gateway_messages)).

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
    /// The gateway's own name of the money.
    #[serde(skip)]
    pub transaction_id: String,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// `refund`: an administrator gave it back. `order_cancelled`, `order_paid`, `order_missing`, `wrong_amount`:
    /// the money could not be applied to the order. `refunded_by_gateway`, `charged_back`: nobody here asked for it.
    pub reason: String,
    /// How often the gateway was asked.
    pub attempts: i32,
    /// When it is asked next.
    pub next_attempt_at: DateTime<Utc>,
    /// What it said last.
    #[schema(required = true)]
    pub last_error: Option<String>,
    /// Since when the money waits.
    pub created_at: DateTime<Utc>,
    /// When the same money went back a second time: by the gateway and outside it, or by a charge-back.
    #[schema(required = true)]
    pub given_back_twice_at: Option<DateTime<Utc>>,
    /// The number of the payment that the gateway knows, where it took money twice for that one.
    #[serde(skip)]
    pub announced: Option<i32>,
}

row! {
    Refund: ..payment_id, order_id, voucher_id, transaction_id, amount, reason, attempts, next_attempt_at,
    last_error, created_at, given_back_twice_at, announced
}

/// Money on its way back, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ListedRefundBody)]
pub struct ListedRefund {
    /// The refund.
    #[serde(flatten)]
    pub refund: Refund,
    /// What of the payment went back in parts that nobody here had asked for; `amount` is the rest.
    pub returned_amount: i64,
}

row! { ListedRefund: ..refund, returned_amount }

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
) -> Result<Vec<ListedRefund>, StoreError> {
    let query = sqlx::query_as(
        "select r.*, coalesce(p.returned_amount, 0) as returned_amount
         from refunds r
         left join payments p on p.order_id = r.order_id and p.number = r.number and p.voucher_id = r.voucher_id
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
