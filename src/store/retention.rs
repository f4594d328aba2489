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
const REMOVED_WITHIN: Duration = Duration::from_secs(3600);

/// A row that goes: its table, and itself as JSON.
pub type RemovedRow = (String, String);

/// Vouchers whose sales ended before `before`, the oldest first.
pub async fn find_over(pool: &PgPool, before: DateTime<Utc>) -> Result<Vec<VoucherId>, StoreError> {
    let over = "select voucher_id from seckill_vouchers where end_time < $1 order by 1";
    let query = sqlx::query_scalar(over).bind(before);
    Work::snapshot(REMOVED_WITHIN, pool).run(async |session| query.fetch_all(session).await).await
}

/// Removes what ended before `before` of the sale of `voucher`, in one transaction, and hands the rows to `keep`, those of
/// `at_once` orders at a time. If they cannot be kept, or it is a rehearsal, nothing is removed.
pub async fn remove(
    pool: &PgPool,
    voucher: VoucherId,
    before: DateTime<Utc>,
    at_once: i64,
    is_rehearsal: bool,
    mut keep: impl FnMut(&[RemovedRow]) -> io::Result<()>,
) -> Result<io::Result<()>, StoreError> {
    let work = async |session: &mut DatabaseSession| {
        sqlx::query("savepoint before").execute(&mut *session).await?;
        let (mut kept, mut is_done) = (Ok(()), false);
        while kept.is_ok() && !is_done {
            let query = sqlx::query_as("select removed_from, line from prune_sale($1, $2, $3)");
            let query = query.bind(voucher.get()).bind(before).bind(at_once);
            let rows: Vec<RemovedRow> = query.fetch_all(&mut *session).await?;
            is_done = rows.is_empty();
            kept = keep(&rows);
        }
        if is_rehearsal || kept.is_err() {
            sqlx::query("rollback to savepoint before").execute(session).await?;
        }
        Ok(kept)
    };
    Work::transaction(REMOVED_WITHIN, pool).run(work).await
}
