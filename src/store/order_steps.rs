//! Steps in the life of an order after the purchase. Each is one call of a database function or one
//! statement, and each demands the state that it leaves: of two at once, one finds the other's.

use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;

use super::StoreError;
use super::postgres::{in_time, step_in_time};
use crate::model::{Order, OrderId, OrderStatus, VoucherId};

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It was taken.
    Taken,
    /// The order is in this state, which does not allow it. Nothing was changed.
    Refused(OrderStatus),
    /// There is no such order.
    NotFound,
}

impl Step {
    /// A step that leaves `from`, of an order that was in the state `found`.
    fn leaving(from: OrderStatus, found: Option<OrderStatus>) -> Self {
        match found {
            None => Self::NotFound,
            Some(found) if found == from => Self::Taken,
            Some(found) => Self::Refused(found),
        }
    }
}

/// The person that cancels an order. The numbers are the database's; 3 is time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
#[repr(i16)]
pub enum Canceller {
    Buyer = 1,
    Administrator = 2,
}

/// Cancels an unpaid order and puts its voucher back on sale.
pub async fn cancel(
    pool: &PgPool,
    order: &Order,
    canceller: Canceller,
) -> Result<Step, StoreError> {
    let query = sqlx::query_scalar("select cancel_order($1, $2, $3)")
        .bind(order.voucher_id.get())
        .bind(order.id.get())
        .bind(canceller as i16);
    let found = step_in_time(pool, async |connection| query.fetch_one(connection).await).await?;
    Ok(Step::leaving(OrderStatus::Unpaid, found))
}

/// Begins to give the money of a paid order back. An order that cost nothing is refunded at once.
pub async fn refund(pool: &PgPool, order: &Order) -> Result<Step, StoreError> {
    let query = sqlx::query_scalar("select refund_order($1, $2)")
        .bind(order.voucher_id.get())
        .bind(order.id.get());
    let found = step_in_time(pool, async |connection| query.fetch_one(connection).await).await?;
    Ok(Step::leaving(OrderStatus::Paid, found))
}

/// Redeems a paid order.
pub async fn redeem(pool: &PgPool, order: &Order) -> Result<Step, StoreError> {
    let query = sqlx::query_scalar("select redeem_order($1, $2)")
        .bind(order.voucher_id.get())
        .bind(order.id.get());
    let found = step_in_time(pool, async |connection| query.fetch_one(connection).await).await?;
    Ok(Step::leaving(OrderStatus::Paid, found))
}

/// Up to `limit` unpaid orders whose time to pay was over at `now`, the oldest first, with their vouchers;
/// none of the vouchers `but`.
pub async fn list_overdue(
    pool: &PgPool,
    now: DateTime<Utc>,
    but: &[VoucherId],
    limit: i64,
) -> Result<Vec<(VoucherId, OrderId)>, StoreError> {
    let query = sqlx::query_as(
        "select voucher_id, id from orders
         where status = 1 and pay_by <= $1 and voucher_id <> all ($2)
         order by pay_by limit $3",
    )
    .bind(now)
    .bind(but.iter().map(|voucher| voucher.get()).collect::<Vec<_>>())
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}

/// Cancels those of `orders`, all of one voucher, whose time to pay is over by the database's clock, and puts
/// their vouchers back on sale. Returns how many.
pub async fn expire(
    pool: &PgPool,
    voucher: VoucherId,
    orders: &[OrderId],
) -> Result<i64, StoreError> {
    let query = sqlx::query_scalar("select expire_orders($1, $2)")
        .bind(voucher.get())
        .bind(orders.iter().map(|order| order.get()).collect::<Vec<_>>());
    step_in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// The time by which sales begin and end and payments are late.
pub async fn time(pool: &PgPool) -> Result<DateTime<Utc>, StoreError> {
    let query = sqlx::query_scalar("select sale_time()");
    in_time(pool, async |connection| query.fetch_one(connection).await).await
}
