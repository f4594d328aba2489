//! Retention (`seckill prune`): what ended long ago is removed, after its rows were handed out.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;

use super::statements::Work;
use super::{DatabaseSession, StoreError};
use crate::model::VoucherId;

/// Nobody waits for the rows of a sale that is over.
const REMOVED_WITHIN: Duration = Duration::from_secs(600);

/// `$2` are the orders that would go.
const COUNTS: &str = "
    with ended as (
      select unnest($2::bigint[]) as id
    ), sale as (
      select s.voucher_id from seckill_vouchers s
      where s.voucher_id = $1 and s.end_time < $3 and (s.cancelled_at is null or s.wound_up_at is not null)
        and not exists (select from orders a where a.voucher_id = $1 and a.id > 0
                        and not exists (select from ended where ended.id = a.id))
        and not exists (select from payments a where a.voucher_id = $1
                        and not exists (select from ended where ended.id = a.order_id))
        and not exists (select from early_returns a where a.voucher_id = $1
                        and not exists (select from payments p where p.voucher_id = $1 and p.transaction_id = a.transaction_id))
    )
    select 'orders', count(*) from ended
    union all select 'order_steps', count(*) from order_steps x join ended on x.order_id = ended.id where x.voucher_id = $1
    union all select 'payments', count(*) from payments x join ended on x.order_id = ended.id where x.voucher_id = $1
    union all select 'refunds', count(*) from refunds x join ended on x.order_id = ended.id where x.voucher_id = $1
    union all select 'payment_cancellations', count(*) from payment_cancellations x join ended on x.order_id = ended.id
      where x.voucher_id = $1
    union all select 'early_returns', count(*) from early_returns x
      join payments p on p.voucher_id = x.voucher_id and p.transaction_id = x.transaction_id
      join ended on p.order_id = ended.id where x.voucher_id = $1
    union all select 'seckill_vouchers', count(*) from sale
    union all select 'vouchers', count(*) from sale
    union all select 'entries', count(*) from entries x where x.voucher_id = $1
      and (exists (select from sale) or not exists (select from vouchers v where v.id = $1))";

/// How many rows of which table [`remove`] removes of `voucher`, call by call. It locks nothing.
pub async fn count(
    pool: &PgPool,
    voucher: VoucherId,
    before: DateTime<Utc>,
) -> Result<Vec<(String, i64)>, StoreError> {
    let read = async |session: &mut DatabaseSession| {
        let ended = sqlx::query_scalar("select ended_orders($1, $2, null)");
        let ended: Vec<i64> =
            ended.bind(voucher.get()).bind(before).fetch_one(&mut *session).await?;
        let counts = sqlx::query_as(COUNTS).bind(voucher.get()).bind(ended).bind(before);
        counts.fetch_all(session).await
    };
    Work::snapshot(REMOVED_WITHIN, pool).run(read).await
}

/// What comes after a batch of rows was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// They stay removed.
    Commit,
    /// All that the transaction has removed is there again.
    TakeBack,
}

/// Vouchers that may have something to remove, the oldest first: their sales ended before `before`, or are gone, and a
/// command that was killed has left entries of them.
pub async fn find_over(pool: &PgPool, before: DateTime<Utc>) -> Result<Vec<VoucherId>, StoreError> {
    let query = sqlx::query_scalar(
        "select voucher_id from seckill_vouchers where end_time < $1
         union
         select voucher_id from entries e where not exists (select from vouchers v where v.id = e.voucher_id)
         order by 1",
    )
    .bind(before);
    Work::snapshot(REMOVED_WITHIN, pool).run(async |session| query.fetch_all(session).await).await
}

/// Removes up to `at_once` orders of `voucher`, or its sale, or as many entries, in one transaction, and tells `then` of the
/// rows, each its table and itself as JSON; there are none once nothing is left to remove.
pub async fn remove(
    pool: &PgPool,
    voucher: VoucherId,
    before: DateTime<Utc>,
    at_once: i64,
    mut then: impl FnMut(Vec<(String, String)>) -> Then,
) -> Result<(), StoreError> {
    let work = async |session: &mut DatabaseSession| {
        sqlx::query("savepoint before").execute(&mut *session).await?;
        let query = sqlx::query_as("select removed_from, line from prune_sale($1, $2, $3)");
        let query = query.bind(voucher.get()).bind(before).bind(at_once);
        match then(query.fetch_all(&mut *session).await?) {
            Then::Commit => Ok(()),
            Then::TakeBack => {
                let back = sqlx::query("rollback to savepoint before");
                back.execute(session).await.map(drop)
            }
        }
    };
    Work::transaction(REMOVED_WITHIN, pool).run(work).await
}
