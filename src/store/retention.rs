//! Retention (`seckill prune`): what ended long ago is removed, after its rows were handed out.
//!
//! An order goes with all that belongs to it, in one statement, and a live one is counted in the same statement: so an audit
//! holds between any two batches. The sale goes when no order of it is left, and its entries after it: as long as the sale is
//! there, its draw is published.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::postgres::PgPool;

use super::columns::with_text_ids;
use super::statements::Work;
use super::time_limits::GIVES_WAY;
use super::vouchers::lock_sale;
use super::{DatabaseSession, StoreError};
use crate::model::VoucherId;

/// Nobody waits for the rows of a sale that is over.
const REMOVED_WITHIN: Duration = Duration::from_secs(600);

/// A row that is removed.
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // the names say it
pub struct Removed {
    pub table: String,
    pub row: Value,
}

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

/// Orders that ended: used, cancelled or refunded, since `$2` untouched, of a sale that was over by then. What keeps an order: a
/// refund that waits or was just made, a message to the gateway, and money that went back before it was known to have come.
const REMOVE: &str = "
    with ended as (
      select o.id, o.status from orders o
      where o.voucher_id = $1 and o.id > 0 and o.status in (3, 4, 6) and o.updated_at < $2
        and exists (select from seckill_vouchers s
                    where s.voucher_id = $1 and s.end_time < $2
                      and (s.cancelled_at is null or s.wound_up_at is not null))
        and not exists (select from refunds r
                        where r.voucher_id = $1 and r.order_id = o.id and (r.status = 1 or r.done_at >= $2))
        and not exists (select from payment_cancellations c
                        where c.voucher_id = $1 and c.order_id = o.id and c.next_attempt_at is not null)
        and not exists (select from early_returns e
                        where e.voucher_id = $1 and e.order_id = o.id
                          and not exists (select from payments p
                                          where p.voucher_id = $1 and p.transaction_id = e.transaction_id))
      limit $3 for update
    ), o as (
      delete from orders x using ended where x.voucher_id = $1 and x.id = ended.id returning x.*
    ), st as (
      delete from order_steps x using ended where x.voucher_id = $1 and x.order_id = ended.id returning x.*
    ), p as (
      delete from payments x using ended where x.voucher_id = $1 and x.order_id = ended.id returning x.*
    ), r as (
      delete from refunds x using ended where x.voucher_id = $1 and x.order_id = ended.id returning x.*
    ), c as (
      delete from payment_cancellations x using ended where x.voucher_id = $1 and x.order_id = ended.id returning x.*
    ), er as (
      delete from early_returns x using p where x.voucher_id = $1 and x.transaction_id = p.transaction_id returning x.*
    ), counted as (
      update seckill_vouchers set pruned = pruned + (select count(*) from ended where status = 3)
      where voucher_id = $1 and exists (select from ended where status = 3)
    ), s as (
      delete from seckill_vouchers
      where voucher_id = $1 and end_time < $2 and (cancelled_at is null or wound_up_at is not null)
        and not exists (select from orders x where x.voucher_id = $1 and x.id > 0)
        and not exists (select from payments x where x.voucher_id = $1)
        and not exists (select from refunds x where x.voucher_id = $1)
        and not exists (select from early_returns x where x.voucher_id = $1)
      returning seckill_vouchers.*
    ), v as (
      delete from vouchers x using s where x.id = $1 and s.voucher_id = x.id returning x.*
    ), e as (
      delete from entries x
      where x.voucher_id = $1
        and x.id = any (array(select id from entries
                              where voucher_id = $1 and not exists (select from vouchers where id = $1)
                              limit $3))
      returning x.*
    )
    select 'orders' as removed_from, to_jsonb(o)::text as row from o
    union all select 'order_steps', to_jsonb(st)::text from st
    union all select 'payments', to_jsonb(p)::text from p
    union all select 'refunds', to_jsonb(r)::text from r
    union all select 'payment_cancellations', to_jsonb(c)::text from c
    union all select 'early_returns', to_jsonb(er)::text from er
    union all select 'seckill_vouchers', to_jsonb(s)::text from s
    union all select 'vouchers', to_jsonb(v)::text from v
    union all select 'entries', to_jsonb(e)::text from e";

/// Removes up to `at_once` orders of `voucher`, or its sale, or as many entries, in one transaction, and tells `then` of the
/// rows; there are none once nothing is left to remove.
pub async fn remove(
    pool: &PgPool,
    voucher: VoucherId,
    before: DateTime<Utc>,
    at_once: i64,
    mut then: impl FnMut(Vec<Removed>) -> Then,
) -> Result<(), StoreError> {
    let work = async |session: &mut DatabaseSession| {
        // A buyer pays, or the gateway tells of money: it waits, or this fails and is done again.
        sqlx::query(GIVES_WAY).execute(&mut *session).await?;
        lock_sale(session, voucher).await?;
        sqlx::query("savepoint before").execute(&mut *session).await?;
        loop {
            let query = sqlx::query_as(REMOVE).bind(voucher.get()).bind(before).bind(at_once);
            let rows: Vec<(String, String)> = query.fetch_all(&mut *session).await?;
            let rows =
                rows.into_iter().map(|(table, row)| Removed { table, row: with_text_ids(&row) });
            match then(rows.collect()) {
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
