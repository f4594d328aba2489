//! Retention (`seckill prune`): removes rows of sales that ended long ago, after the caller has
//! kept them.

use std::io;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;

use super::statements::Work;
use super::{DatabaseSession, StoreError};
use crate::model::VoucherId;

/// Nobody waits for the rows of a sale that is over.
const REMOVED_WITHIN: Duration = Duration::from_secs(600);

/// A row that goes: its table, and itself as JSON.
pub type RemovedRow = (String, String);

/// Vouchers that may have something to remove: their sales ended before `before`, or are gone, and a command that was killed has
/// left entries of them.
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

/// How many orders of `voucher` would be removed. It locks nothing.
pub async fn count(
    pool: &PgPool,
    voucher: VoucherId,
    before: DateTime<Utc>,
) -> Result<i64, StoreError> {
    let query =
        sqlx::query_scalar("select coalesce(cardinality(ended_orders($1, $2, null)), 0)::bigint");
    let query = query.bind(voucher.get()).bind(before);
    Work::snapshot(REMOVED_WITHIN, pool).run(async |session| query.fetch_one(session).await).await
}

/// Removes what ended before `before` of the sale of `voucher`, of at most `at_once` orders, in one transaction, after `keep` has the
/// rows. If it cannot keep them, they stay. Returns how many rows went: none, if nothing is left to remove.
pub async fn remove(
    pool: &PgPool,
    voucher: VoucherId,
    before: DateTime<Utc>,
    at_once: i64,
    mut keep: impl FnMut(&[RemovedRow]) -> io::Result<()>,
) -> Result<io::Result<usize>, StoreError> {
    let work = async |session: &mut DatabaseSession| {
        sqlx::query("savepoint before").execute(&mut *session).await?;
        let query = sqlx::query_as("select removed_from, line from prune_sale($1, $2, $3)");
        let query = query.bind(voucher.get()).bind(before).bind(at_once);
        let rows: Vec<RemovedRow> = query.fetch_all(&mut *session).await?;
        let kept = keep(&rows);
        if kept.is_err() {
            sqlx::query("rollback to savepoint before").execute(session).await?;
        }
        Ok(kept.map(|()| rows.len()))
    };
    Work::transaction(REMOVED_WITHIN, pool).run(work).await
}
