//! A sale of the lab's: a voucher that one rung sells.

use sqlx::postgres::{PgPool, PgPoolOptions};

use ladder::{Capability, Rung, SEGMENTS};
use load::verdict::Books;
use seckill::model::{InvalidId, UserId, VoucherId};
use seckill::purchase::audit::{self, Promise, Violation, VoucherAudit};
use seckill::store::StoreError;

/// Connections for the lab's own looks at a database: beside those of the rungs, so that
/// a look does not queue with the buyers.
const MAX_CONNECTIONS: u32 = 4;

/// The lab's own connections to the database at `url`.
pub(super) fn connections(url: &str) -> sqlx::Result<PgPool> {
    PgPoolOptions::new().max_connections(MAX_CONNECTIONS).connect_lazy(url)
}

/// The title by which a voucher is known to be the rung's.
fn title(rung: &Rung) -> String {
    format!("lab {}", rung.id)
}

/// What a voucher costs where orders have to be paid.
pub(super) const PRICE: i64 = 100;

/// The same for all that is drawn, so that two sales can be held against each other. A sale of production has its own.
const SEED: &str = "7c0ffee7";

/// Puts a voucher on sale, since an hour ago, for a year. What is drawn is open for entries.
pub(super) async fn put_on_sale(
    database: &PgPool,
    rung: &Rung,
    stock: i32,
) -> sqlx::Result<VoucherId> {
    let id: i64 = sqlx::query_scalar(
        "with voucher as (
           insert into vouchers (title, created_at, has_line, draw_time, draw_seed)
           values ($1, now(), $5 is not null, case when $5 is not null then now() end, $5)
           returning id
         ), on_sale as (
           insert into seckill_vouchers
             (voucher_id, initial_stock, stock, price, begin_time, end_time, held_for)
           select id, $2, $2, $3, now() - interval '1 hour',
                  now() + interval '1 year', ($5 is not null)::int
           from voucher
         ), in_segments as (
           insert into stock_segments (voucher_id, segment, stock)
           select id, segment, $2 / greatest($4, 1) + (segment <= $2 % greatest($4, 1))::int
           from voucher, generate_series(1, $4) segment
         )
         select id from voucher",
    )
    .bind(title(rung))
    .bind(stock)
    .bind(if rung.can(Capability::Expire) { PRICE } else { 0 })
    .bind(if rung.can(Capability::Segments) { SEGMENTS } else { 0 })
    .bind(rung.can(Capability::Draw).then_some(SEED))
    .fetch_one(database)
    .await?;
    VoucherId::try_from(id).map_err(|error: InvalidId| sqlx::Error::Decode(error.into()))
}

/// Whether the voucher is one of the rung's: all rungs with the same tables share them.
pub(super) async fn is_of(
    database: &PgPool,
    rung: &Rung,
    voucher: VoucherId,
) -> sqlx::Result<bool> {
    sqlx::query_scalar("select exists (select from vouchers where id = $1 and title = $2)")
        .bind(voucher.get())
        .bind(title(rung))
        .fetch_one(database)
        .await
}

/// The order of a user that has the lowest id; some rungs write more than one.
pub(super) async fn order_of(
    database: &PgPool,
    user: UserId,
    voucher: VoucherId,
) -> sqlx::Result<Option<i64>> {
    let order = "select min(id) from orders where user_id = $1 and voucher_id = $2";
    sqlx::query_scalar(order).bind(user.get()).bind(voucher.get()).fetch_one(database).await
}

/// The books of a voucher for the judge of crowds, of whose orders `orders_of_crowd` are the crowd's, and `lost` were
/// acknowledged and are not there.
pub fn judged_books(audit: &VoucherAudit, orders_of_crowd: i64, lost: i64) -> Books {
    let VoucherAudit { initial_stock, stock, orders, distinct_users, .. } = *audit;
    let (twice, objections) = (None, audit.beyond_figures());
    Books { initial_stock, stock, orders, distinct_users, orders_of_crowd, lost, twice, objections }
}

/// What the voucher's books say. That a buyer has no row in `users` is no violation here: the lab sells to
/// numbers. Nor is a state that no step explains: rungs keep no log. Where there are segments, the stock is what they have.
pub(super) async fn books(
    database: &PgPool,
    voucher: VoucherId,
) -> Result<Option<VoucherAudit>, StoreError> {
    let audit = audit::run(database, Some(voucher)).await?.pop();
    let in_segments: Option<i64> =
        sqlx::query_scalar("select sum(stock) from stock_segments where voucher_id = $1")
            .bind(voucher.get())
            .fetch_one(database)
            .await?;
    Ok(audit.map(|mut audit| {
        audit.violations.retain(|it| !matches!(it.promise, Promise::Orphans | Promise::OrderSteps));
        if let Some(left) = in_segments {
            let VoucherAudit { orders, initial_stock, .. } = audit;
            audit.stock = left;
            audit.violations.retain(|it| it.promise != Promise::NoUndersell);
            if orders + left != initial_stock {
                audit.violations.push(Violation::unbalanced(orders, left, initial_stock));
            }
        }
        audit.holds = audit.violations.is_empty();
        audit
    }))
}
