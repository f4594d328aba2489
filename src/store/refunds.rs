//! Refunds: money on its way back, one refund a payment. A message asks the gateway for each ([`messages`](super::messages)).

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPool;
use utoipa::ToSchema;

use super::StoreError;
use super::columns::{column, row};
use super::notices::NoticeOutcome;
use super::payments::PaymentId;
use super::statements::{in_time, step_in_time};
use crate::model::{OrderId, VoucherId};

/// Money that waits to go back; or of which something went back that nobody here had asked for.
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
    /// In the currency's smallest unit: what waits to go back. If nothing does, what was paid.
    pub amount: i64,
    /// `refund`: an administrator gave it back. `order_cancelled`, `order_paid`, `order_missing`, `wrong_amount`:
    /// the money could not be applied to the order. `refunded_by_gateway`, `charged_back`: nobody here asked for it.
    /// `refund_failed`: the gateway gave it back by itself, and that failed.
    pub reason: String,
    /// How often the gateway was asked.
    pub attempts: i32,
    /// When it is asked next; null: it is not asked any more.
    #[schema(required = true)]
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// What it said last.
    #[schema(required = true)]
    pub last_error: Option<String>,
    /// Since when the money waits, or, if it does not, is going back.
    pub created_at: DateTime<Utc>,
    /// When more went back than was left: by the gateway and outside it, or by a charge-back.
    #[schema(required = true)]
    pub given_back_twice_at: Option<DateTime<Utc>>,
    /// What of the payment went back.
    pub returned_amount: i64,
    /// When and how, the first one first.
    #[schema(value_type = Vec<Return>)]
    pub returns: Returns,
}

row! {
    Refund: ..payment_id, order_id, voucher_id, amount, reason, attempts, next_attempt_at, last_error, created_at,
    given_back_twice_at, returned_amount, returns
}

/// Money that went back at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Return {
    /// In the currency's smallest unit.
    pub amount: i64,
    /// When the server learnt of it.
    pub at: DateTime<Utc>,
    /// `refund`: the gateway, because it was asked; `gateway`: the gateway by itself; `charge_back`; `administrator`: outside
    /// the gateway.
    pub by: String,
    /// The gateway's own name of it.
    #[schema(required = true)]
    pub return_id: Option<String>,
    /// When the server learnt that it had failed, or, of a charge-back, that it was won. It does not count.
    #[schema(required = true)]
    pub undone_at: Option<DateTime<Utc>>,
}

/// They are read as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Returns(pub Vec<Return>);

impl TryFrom<&str> for Returns {
    type Error = serde_json::Error;
    fn try_from(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(Self)
    }
}

column!(Returns: &str);

/// What the gateway is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRefund {
    /// Its name: the gateway gives back once for each.
    pub refund_id: String,
    /// The gateway's own name of the money.
    pub transaction_id: String,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// The number of the payment that the gateway knows, if it took money twice for that one.
    pub announced: Option<i32>,
}

row! { WaitingRefund: refund_id, transaction_id, amount, announced }

/// The refund of a payment, if it waits.
pub async fn find_waiting(
    pool: &PgPool,
    payment: PaymentId,
) -> Result<Option<WaitingRefund>, StoreError> {
    let query = sqlx::query_as(
        "select refund_name(r.voucher_id, r.order_id, r.number, r.try) as refund_id, p.transaction_id, p.announced,
                (p.paid_amount - coalesce(sum(b.amount), 0))::bigint as amount
         from refunds r
         join payments p on p.order_id = r.order_id and p.number = r.number and p.voucher_id = r.voucher_id
         left join returns b
           on b.transaction_id = p.transaction_id and b.voucher_id = p.voucher_id and b.undone_at is null
         where r.order_id = $1 and r.number = $2 and r.voucher_id = $3 and r.status = refund_waiting()
         group by r.voucher_id, r.order_id, r.number, r.try, p.transaction_id, p.announced, p.paid_amount",
    )
    .bind(payment.order.get())
    .bind(payment.number)
    .bind(payment.voucher.get());
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}

/// The gateway has given so much of a payment back, as it was asked to by this name: `Returned`; `Repeated`, if that was known,
/// or has failed meanwhile; `PartReturned`, if more is to go back; or `ReturnedTwice`, if it had gone back another way while the
/// gateway was asked.
pub async fn finish(
    pool: &PgPool,
    payment: PaymentId,
    refund_id: &str,
    amount: i64,
) -> Result<NoticeOutcome, StoreError> {
    let query = sqlx::query_scalar("select finish_refund($1, $2, $3, $4, $5)")
        .bind(payment.voucher.get())
        .bind(payment.order.get())
        .bind(payment.number)
        .bind(refund_id)
        .bind(amount);
    step_in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// Payments of which something went back unasked, and in all less than was paid (`<`), or not exactly that (`<>`).
macro_rules! returned_unasked {
    ($all:literal) => {
        concat!("select p.voucher_id, p.order_id, p.number
         from (select distinct voucher_id, transaction_id from returns where done_by > 1 and undone_at is null) unasked
         join payments p on p.transaction_id = unasked.transaction_id and p.voucher_id = unasked.voucher_id
         join returns b on b.transaction_id = p.transaction_id and b.voucher_id = p.voucher_id and b.undone_at is null
         group by p.voucher_id, p.order_id, p.number, p.paid_amount
         having sum(b.amount) ", $all, " p.paid_amount")
    };
}

/// What an administrator looks at: up to `limit` payments whose refund waits, or of which something went back that nobody had asked
/// for, and not exactly all; of the oldest order first, those that come after the payment `after`.
pub async fn list_open(
    pool: &PgPool,
    after: Option<PaymentId>,
    limit: i64,
) -> Result<Vec<Refund>, StoreError> {
    let query = sqlx::query_as(concat!(
        "with open as (
           select * from (
             select voucher_id, order_id, number from refunds where status = refund_waiting()
             union ",
        returned_unasked!("<>"),
        ") open
           where $1::bigint is null or (order_id, number, voucher_id) > ($1, $2, $3)
           order by order_id, number, voucher_id limit $4
         )
         select open.voucher_id, open.order_id, open.number, back.returned_amount, coalesce(back.returns, '[]') as returns,
                case when r.status = refund_waiting() then p.paid_amount - back.returned_amount else p.paid_amount end as amount,
                coalesce(r.reason, case back.first when by_charge_back() then 'charged_back' else 'refunded_by_gateway' end) as reason,
                coalesce(m.attempts, 0) as attempts, m.next_attempt_at, m.last_error,
                coalesce(r.created_at, back.began) as created_at,
                case when back.returned_amount > p.paid_amount then back.ended end as given_back_twice_at
         from open
         join payments p on p.order_id = open.order_id and p.number = open.number and p.voucher_id = open.voucher_id
         left join refunds r on r.order_id = p.order_id and r.number = p.number and r.voucher_id = p.voucher_id
         left join messages m
           on m.order_id = r.order_id and m.number = r.number and m.voucher_id = r.voucher_id and m.kind = 'refund'
         cross join lateral (
           select coalesce(sum(amount) filter (where undone_at is null), 0)::bigint as returned_amount,
                  (array_agg(done_by order by number))[1] as first, min(returned_at) as began,
                  max(returned_at) filter (where undone_at is null) as ended,
                  jsonb_agg(jsonb_build_object(
                    'amount', amount, 'at', returned_at, 'return_id', return_id, 'undone_at', undone_at,
                    'by', (array['refund', 'gateway', 'charge_back', 'administrator'])[done_by]) order by number)::text as returns
           from returns b where b.transaction_id = p.transaction_id and b.voucher_id = p.voucher_id
         ) back
         order by open.order_id, open.number, open.voucher_id"
    ))
    .bind(after.map(|payment| payment.order.get()))
    .bind(after.map(|payment| payment.number))
    .bind(after.map(|payment| payment.voucher.get()))
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}

/// Of how many payments a part went back that nobody had asked for.
pub async fn count_partly_returned(pool: &PgPool) -> Result<i64, StoreError> {
    let query =
        sqlx::query_scalar(concat!("select count(*) from (", returned_unasked!("<"), ") partly"));
    in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// Since when the oldest refund waits that does.
pub async fn oldest_waiting(pool: &PgPool) -> Result<Option<DateTime<Utc>>, StoreError> {
    let query = sqlx::query_scalar(
        "select created_at from refunds where status = refund_waiting() order by created_at limit 1",
    );
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}
