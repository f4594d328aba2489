//! Retention (`seckill prune`): what ended long ago is removed, after its rows were handed out.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;

use super::statements::Work;
use super::{DatabaseSession, StoreError};
use crate::model::VoucherId;

/// Nobody waits for the rows of a sale that is over.
const REMOVED_WITHIN: Duration = Duration::from_secs(600);

/// What comes after a batch of rows was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// They stay removed.
    Commit,
    /// The next batch of the same transaction.
    GoOn,
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
        loop {
            let query = sqlx::query_as("select removed_from, line from prune_sale($1, $2, $3)");
            let query = query.bind(voucher.get()).bind(before).bind(at_once);
            match then(query.fetch_all(&mut *session).await?) {
                Then::Commit => return Ok(()),
                Then::GoOn => {}
                Then::TakeBack => {
                    let back = sqlx::query("rollback to savepoint before");
                    return back.execute(session).await.map(drop);
                }
            }
        }
    };
    Work::transaction(REMOVED_WITHIN, pool).run(work).await
}
