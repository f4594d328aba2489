//! Sales that were cancelled as a whole (`seckill voucher cancel`), and their orders that are left to be ended.

use std::time::Duration;

use serde_json::json;
use sqlx::postgres::PgPool;

use super::columns::row;
use super::statements::{Work, in_time, step_in_time};
use super::time_limits::GIVES_WAY;
use super::vouchers::{lock_sale, write_step};
use super::{DatabaseSession, StoreError};
use crate::model::{Order, VoucherId};

/// A large sale has many orders, and nobody waits for the count.
const COUNTED_WITHIN: Duration = Duration::from_secs(60);

/// Ends the sale of `voucher` for good: nobody buys from it any more, and no change starts it again. Returns whether
/// there is such a voucher; a sale that was cancelled before stays as it is. Only the shell cancels sales.
pub async fn cancel(pool: &PgPool, voucher: VoucherId) -> Result<bool, StoreError> {
    let now = super::order_steps::time(pool).await?;
    // A sale that has not begun gets a window in the past. The window that was stays with the voucher, for the audit.
    let query = sqlx::query_scalar::<_, bool>(
        "with old as (
           select begin_time, end_time, cancelled_at from seckill_vouchers where voucher_id = $1
           for no key update
         ), v as (
           update vouchers
           set earliest_begin_time = least(earliest_begin_time, old.begin_time),
               latest_end_time = greatest(latest_end_time, old.end_time)
           from old where id = $1
         ), s as (
           update seckill_vouchers sale
           set begin_time = least(sale.begin_time, $2 - interval '1 second'),
               end_time = least(sale.end_time, $2),
               cancelled_at = $2, revision = revision + 1
           from old where sale.voucher_id = $1 and old.cancelled_at is null
         )
         select cancelled_at is null from old",
    )
    .bind(voucher.get())
    .bind(now);
    let cancel = async |session: &mut DatabaseSession| {
        lock_sale(session, voucher).await?;
        let is_new = query.fetch_optional(&mut *session).await?;
        if is_new == Some(true) {
            write_step(session, voucher, ("sale_cancelled", &json!({})), None).await?;
        }
        Ok(is_new.is_some())
    };
    Work::step_with(GIVES_WAY, pool).run(cancel).await
}

/// A cancelled sale that may have orders left to be ended; none of `except`.
pub async fn find(pool: &PgPool, except: &[VoucherId]) -> Result<Option<VoucherId>, StoreError> {
    let query = sqlx::query_scalar(
        "select voucher_id from seckill_vouchers
         where cancelled_at is not null and wound_up_at is null and voucher_id <> all ($1) limit 1",
    )
    .bind(except.iter().map(|voucher| voucher.get()).collect::<Vec<_>>());
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}

/// How many orders of a sale are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // as the states of an order
pub struct OrderCounts {
    pub unpaid: i64,
    pub paid: i64,
    pub used: i64,
    pub refunding: i64,
    pub refunded: i64,
}

row! { OrderCounts: unpaid, paid, used, refunding, refunded }

/// Counts the orders of `voucher`; `None`: there is no such voucher.
pub async fn count_orders(
    pool: &PgPool,
    voucher: VoucherId,
) -> Result<Option<OrderCounts>, StoreError> {
    let query = sqlx::query_as(
        "select count(*) filter (where o.status = order_unpaid()) as unpaid,
                count(*) filter (where o.status = order_paid()) as paid,
                count(*) filter (where o.status = order_used()) as used,
                count(*) filter (where o.status in (order_refunding(), order_refunding_again())) as refunding,
                count(*) filter (where o.status = order_refunded()) as refunded
         from seckill_vouchers s
         left join orders o on o.voucher_id = s.voucher_id and o.id > 0
         where s.voucher_id = $1 group by s.voucher_id",
    )
    .bind(voucher.get());
    let counts = Work::snapshot(COUNTED_WITHIN, pool);
    counts.run(async |session| query.fetch_optional(session).await).await
}

/// Up to `limit` unpaid and paid orders of `voucher`, the unpaid ones first.
pub async fn list_open_orders(
    pool: &PgPool,
    voucher: VoucherId,
    limit: i64,
) -> Result<Vec<Order>, StoreError> {
    let query = sqlx::query_as(
        "(select * from orders where voucher_id = $1 and status = order_unpaid() and id > 0 order by id limit $2)
         union all
         (select * from orders where voucher_id = $1 and status = order_paid() and id > 0 order by id limit $2)
         limit $2",
    )
    .bind(voucher.get())
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}

/// No order of the cancelled sale is left to be ended, and none will come: nothing is sold, and late money goes back.
pub async fn close(pool: &PgPool, voucher: VoucherId) -> Result<(), StoreError> {
    let now = super::order_steps::time(pool).await?;
    let query = sqlx::query(
        "update seckill_vouchers set wound_up_at = $2
         where voucher_id = $1 and cancelled_at is not null and wound_up_at is null",
    )
    .bind(voucher.get())
    .bind(now);
    step_in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}
