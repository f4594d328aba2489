//! Vouchers and their sales.

use chrono::{DateTime, Utc};
use sqlx::error::DatabaseError;
use sqlx::postgres::PgPool;
use sqlx::{FromRow, Row};

use super::columns::row;
use super::statements::{Work, in_time};
use super::time_limits::GIVES_WAY;
use super::{DatabaseClock, DatabaseSession, Stop, StoreError};
use crate::model::voucher_terms::{DEFAULT_PAY_WITHIN_S, MAX_ENTRIES, NewVoucher, VoucherChange};
use crate::model::{Beacon, Code, Refusal, Voucher, VoucherId};

row! {
    Voucher: id, title, subtitle, terms, value, price, pay_within_s, stock, initial_stock, begin_time,
    end_time, paused, held_for, has_line, draw_time, draw_beacon, max_entries, offer_between, revision
}

/// The columns of a [`Voucher`], of `v`, the voucher, and `s`, its sale.
macro_rules! columns {
    () => {
        "v.id, v.title, v.subtitle, v.terms, v.value, s.price, s.pay_within_s, s.stock, s.initial_stock,
         s.begin_time, s.end_time, s.paused, s.held_for, v.has_line, v.draw_time, v.draw_beacon, s.max_entries,
         v.offer_between, s.revision"
    };
}

/// SQLSTATE of a number that its column cannot hold.
const OUT_OF_RANGE: &str = "22003";

/// Changes a voucher and its sale, together or not at all. Its revision moves.
///
/// # Errors
/// `voucher_not_found`. `stock_is_sold`: more are sold than there would be. `sale_cancelled`: for good. `sale_ended`: orders of it were pruned, or it ended without its draw. `draw_closed`: the public
/// number of its draw is out, and the draw is to come: what could change who wins stays. `invalid_request`: the sale would end before it
/// begins, or its draw would not lie within it, or there would be too many to count, or a draw would get another title.
pub async fn change(
    pool: &PgPool,
    voucher: VoucherId,
    change: &VoucherChange,
) -> Result<Voucher, Stop> {
    let now = super::order_steps::time(pool).await?;
    // The window that was, for the audit of earlier orders: the row as it was before this statement.
    let query = sqlx::query_as(concat!(
        "with old as (
           select begin_time, end_time from seckill_vouchers
           where voucher_id = $1 and cancelled_at is null and pruned = 0
             and not exists (select from vouchers where id = $1 and draw_time is not null and title <> $9)
             and not exists (select from vouchers drawn
                             where id = $1 and drawn_at is null
                               and (draw_time <= coalesce($4, begin_time)
                                    or greatest(draw_time, draw_beacon_at) >= coalesce($5, end_time)
                                    or draw_time is not null and end_time <= greatest($13, line_time) and $5 <> end_time
                                    or draw_beacon_number is not null and $8
                                    or (draw_beacon_number is not null or draw_beacon_at <= $13)
                                       and (num_nonnulls($2, $4, $6, $7) > 0 or $3 <> 0 or $5 < end_time)))
           for no key update
         ), s as (
           update seckill_vouchers sale
           set stock = sale.stock + coalesce($2, sale.initial_stock) + $3 - sale.initial_stock,
               initial_stock = coalesce($2, sale.initial_stock) + $3,
               begin_time = coalesce($4, sale.begin_time), end_time = coalesce($5, sale.end_time),
               price = coalesce($6, price), pay_within_s = coalesce($7, pay_within_s),
               paused = coalesce($8, paused), revision = revision + 1
           from old where sale.voucher_id = $1
           returning sale.*
         ), v as (
           update vouchers
           set title = coalesce($9, title), subtitle = coalesce($10, subtitle),
               terms = coalesce($11, terms), value = coalesce($12, value), changed_at = $13,
               earliest_begin_time = least(earliest_begin_time, old.begin_time, s.begin_time),
               latest_end_time = greatest(latest_end_time, old.end_time, s.end_time)
           from old, s where id = $1
           returning vouchers.*
         )
         select ",
        columns!(),
        " from v, s"
    ))
    .bind(voucher.get())
    .bind(change.initial_stock.map(i64::from))
    .bind(i64::from(change.more_stock))
    .bind(change.begin_time)
    .bind(change.end_time)
    .bind(change.price)
    .bind(change.pay_within_s)
    .bind(change.paused)
    .bind(&change.title)
    .bind(&change.subtitle)
    .bind(&change.terms)
    .bind(change.value)
    .bind(now);
    // A change that was given up must not come after all: `more_stock` would count twice when it is repeated.
    let work = Work::step_with(GIVES_WAY, pool);
    let changed = work.run(async |session| {
        lock_sale(session, voucher).await?;
        match query.fetch_optional(&mut *session).await {
            Ok(Some(voucher)) => Ok(Ok(voucher)),
            Ok(None) => unchanged(session, voucher, now, change.title.as_deref()).await.map(Err),
            Err(error) => refusal(&error).map(Err).ok_or(error),
        }
    });
    Ok(changed.await??)
}

/// What the database does not let be.
fn refusal(refused: &sqlx::Error) -> Option<Refusal> {
    let error = refused.as_database_error()?;
    let broken = |name| breaks(error, name);
    if broken("stock_never_negative") || broken("seckill_vouchers_initial_stock_check") {
        Some(Code::StockIsSold.into())
    } else if broken("sale_has_a_duration") {
        Some(no_duration())
    } else {
        let too_many =
            Refusal::from(Code::InvalidRequest).detail("there would be too many to count");
        (error.code().as_deref() == Some(OUT_OF_RANGE)).then_some(too_many)
    }
}

/// Whether it is this constraint that a statement broke. On Citus the name of a shard's constraint may end with its number.
pub(super) fn breaks(error: &dyn DatabaseError, constraint: &str) -> bool {
    error.constraint().is_some_and(|name| name.starts_with(constraint))
}

/// Locks the sale of `voucher`, whose buyers wait from here on: so the transaction waits for nothing else for long.
pub(super) async fn lock_sale(
    session: &mut DatabaseSession,
    voucher: VoucherId,
) -> sqlx::Result<()> {
    let lock = sqlx::query("select lock_sale($1)").bind(voucher.get());
    lock.execute(session).await.map(drop)
}

fn no_duration() -> Refusal {
    Refusal::from(Code::InvalidRequest)
        .detail("begin_time must lie before end_time, and a draw that is to come and its public number between them")
}

/// Why no row of `voucher` was changed.
async fn unchanged(
    session: &mut DatabaseSession,
    voucher: VoucherId,
    now: DateTime<Utc>,
    title: Option<&str>,
) -> sqlx::Result<Refusal> {
    let query = sqlx::query_as(
        "select case
                  when cancelled_at is not null then 'sale_cancelled'
                  when pruned > 0 or draw_time is not null and drawn_at is null and end_time <= greatest($2, line_time)
                    then 'sale_ended'
                  when drawn_at is null and (draw_beacon_number is not null or draw_beacon_at <= $2) then 'draw_closed'
                  else 'invalid_request'
                end, coalesce(draw_time is not null and title <> $3, false)
         from seckill_vouchers join vouchers on id = voucher_id where voucher_id = $1",
    );
    let query = query.bind(voucher.get()).bind(now).bind(title);
    let (why, is_renamed): (Option<Code>, bool) =
        query.fetch_optional(session).await?.unwrap_or_default();
    Ok(match why {
        // The next draw of the old title would not name this one.
        Some(_) if is_renamed => {
            Refusal::from(Code::InvalidRequest).detail("a voucher with a draw keeps its title")
        }
        Some(Code::InvalidRequest) => no_duration(),
        Some(Code::DrawClosed) => Refusal::from(Code::DrawClosed).detail(
            "the public number is out: until the draw, only subtitle, terms, value, a later end and, before it is told, a pause change",
        ),
        // Its buyers of before could buy again, or who has seen the seed could choose whether there is a draw.
        Some(Code::SaleEnded) => Refusal::from(Code::SaleEnded)
            .detail("orders of the sale were pruned, or the seed of its draw is out: it stays over"),
        why => why.unwrap_or(Code::VoucherNotFound).into(),
    })
}

/// Puts a voucher on sale. The voucher and its sale are created together or not at all.
pub async fn create(
    pool: &PgPool,
    new: &NewVoucher,
    now: DateTime<Utc>,
) -> Result<Voucher, StoreError> {
    let (begin_time, end_time) = new.window(now);
    let beacon = new.draw_beacon.as_deref().unwrap_or_default();
    let query = sqlx::query_as(concat!(
        "with v as (
           insert into vouchers
             (title, created_at, subtitle, terms, value, has_line, draw_time, draw_seed, draw_beacon, draw_beacon_at,
              offer_between)
           values ($1, $2, $6, $7, $8, $11, $12, $13, $14, $15, $17)
           returning *
         ), s as (
           insert into seckill_vouchers
             (voucher_id, initial_stock, stock, begin_time, end_time, price, pay_within_s, held_for, max_entries)
           select id, $3, $3, $4, $5, $9, $10, case when $12 is null then 0 else 1 end, $16 from v
           returning *
         )
         select ",
        columns!(),
        " from v, s"
    ))
    .bind(&new.title)
    .bind(now)
    .bind(new.stock)
    .bind(begin_time)
    .bind(end_time)
    .bind(new.subtitle.as_deref().unwrap_or_default())
    .bind(new.terms.as_deref().unwrap_or_default())
    .bind(new.value)
    .bind(new.price.unwrap_or_default())
    .bind(new.pay_within_s.unwrap_or(DEFAULT_PAY_WITHIN_S))
    .bind(new.line == Some(true) || new.draw_time.is_some())
    .bind(new.draw_time)
    .bind(new.draw_time.map(|_| hex::encode(rand::random::<[u8; 32]>())))
    .bind(beacon)
    .bind(Beacon::read(beacon).map(|beacon| beacon.at))
    .bind(new.max_entries.unwrap_or(MAX_ENTRIES))
    .bind(new.offer_between.as_deref().unwrap_or_default());
    in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// Those of `ids` that there are, in any order. Tells `clock` the time by which sales begin and end.
pub async fn find_all(
    pool: &PgPool,
    ids: &[VoucherId],
    clock: &DatabaseClock,
) -> Result<Vec<Voucher>, StoreError> {
    // In each row: there may be none. On Citus it is the time of the worker that has the voucher, and the
    // workers keep theirs in step.
    let query = sqlx::query(concat!(
        "select sale_time() as sale_time, ",
        columns!(),
        "
         from vouchers v join seckill_vouchers s on s.voucher_id = v.id
         where v.id = any ($1)"
    ))
    .bind(ids.iter().map(|id| id.get()).collect::<Vec<_>>());
    let (sent_at, rows) = in_time(pool, async |connection| {
        // Not before: there may have been a wait for the connection.
        let sent_at = clock.local().now();
        Ok((sent_at, query.fetch_all(connection).await?))
    })
    .await?;
    if let Some(row) = rows.first() {
        clock.learn(sent_at, row.try_get("sale_time")?);
    }
    Ok(rows.iter().map(Voucher::from_row).collect::<sqlx::Result<_>>()?)
}

/// Tells `clock` the time by which sales begin and end, where no voucher is to be read.
pub async fn read_clock(pool: &PgPool, clock: &DatabaseClock) -> Result<(), StoreError> {
    let query = sqlx::query_scalar("select sale_time()");
    let (sent_at, time) = in_time(pool, async |connection| {
        let sent_at = clock.local().now();
        Ok((sent_at, query.fetch_one(connection).await?))
    })
    .await?;
    clock.learn(sent_at, time);
    Ok(())
}

/// Up to `limit` vouchers with ids below `before`, newest first.
pub async fn list(
    pool: &PgPool,
    before: Option<VoucherId>,
    limit: i64,
) -> Result<Vec<Voucher>, StoreError> {
    let query = sqlx::query_as(concat!(
        "select ",
        columns!(),
        "
         from vouchers v join seckill_vouchers s on s.voucher_id = v.id
         where v.id < $1
         order by v.id desc
         limit $2"
    ))
    .bind(before.map_or(i64::MAX, VoucherId::get))
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}
