//! Sales that were cancelled as a whole (`seckill voucher cancel`), and their orders that are left to be ended.

use sqlx::postgres::PgPool;

use super::StoreError;
use super::postgres::{in_time, step_in_time};
use crate::model::{Order, VoucherId};

/// Ends the sale of `voucher` for good: nobody buys from it any more, and no change starts it again. Returns whether
/// there is such a voucher; a sale that was cancelled before stays as it is.
pub async fn cancel(pool: &PgPool, voucher: VoucherId) -> Result<bool, StoreError> {
    let now = super::order_steps::time(pool).await?;
    // A sale that has not begun gets a window in the past. The window that was stays with the voucher, for the audit.
    let query = sqlx::query_scalar(
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
         select exists (select from old)",
    )
    .bind(voucher.get())
    .bind(now);
    step_in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// A cancelled sale that may have orders left to be ended.
pub async fn find(pool: &PgPool) -> Result<Option<VoucherId>, StoreError> {
    let query = sqlx::query_scalar(
        "select voucher_id from seckill_vouchers
         where cancelled_at is not null and wound_up_at is null limit 1",
    );
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}

/// Up to `limit` unpaid and paid orders of `voucher`, the oldest first.
pub async fn list_open_orders(
    pool: &PgPool,
    voucher: VoucherId,
    limit: i64,
) -> Result<Vec<Order>, StoreError> {
    let query = sqlx::query_as(
        "select * from orders where voucher_id = $1 and id > 0 and status in (1, 2)
         order by id limit $2",
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
