//! Vouchers and their sales.

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgPool, PgRow};
use sqlx::{FromRow, Row};

use super::postgres::in_time;
use super::{DatabaseClock, StoreError};
use crate::model::{Voucher, VoucherId};

impl FromRow<'_, PgRow> for Voucher {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            title: row.try_get("title")?,
            stock: row.try_get("stock")?,
            initial_stock: row.try_get("initial_stock")?,
            begin_time: row.try_get("begin_time")?,
            end_time: row.try_get("end_time")?,
        })
    }
}

/// A voucher that does not exist yet.
#[derive(Debug, Clone)]
pub struct NewVoucher {
    /// The name of the voucher.
    pub title: String,
    /// How many, not negative.
    pub stock: i32,
    /// First instant of the sale.
    pub begin_time: DateTime<Utc>,
    /// First instant after the sale; after `begin_time`.
    pub end_time: DateTime<Utc>,
}

impl NewVoucher {
    /// Checks it as the database does, and says in one sentence what is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        let sensible = DateTime::<Utc>::UNIX_EPOCH.timestamp()..253_402_300_800;
        if self.title.trim().is_empty() || self.title.chars().count() > 200 {
            return Err("title must have 1 to 200 characters");
        }
        if self.title.contains('\0') {
            return Err("title must not contain a NUL character");
        }
        if self.stock < 0 {
            return Err("stock must not be negative");
        }
        if self.begin_time >= self.end_time {
            return Err("begin_time must lie before end_time");
        }
        if ![self.begin_time, self.end_time].iter().all(|at| sensible.contains(&at.timestamp())) {
            return Err("begin_time and end_time must lie between the years 1970 and 9999");
        }
        Ok(())
    }
}

/// Puts a voucher on sale. The voucher and its sale are created together or not at all.
pub async fn create(
    pool: &PgPool,
    new: &NewVoucher,
    now: DateTime<Utc>,
) -> Result<Voucher, StoreError> {
    let query = sqlx::query_as(
        "with voucher as (
           insert into vouchers (title, created_at) values ($1, $2) returning id, title
         ), sale as (
           insert into seckill_vouchers (voucher_id, initial_stock, stock, begin_time, end_time)
           select id, $3, $3, $4, $5 from voucher
           returning stock, initial_stock, begin_time, end_time
         )
         select id, title, stock, initial_stock, begin_time, end_time from voucher, sale",
    )
    .bind(&new.title)
    .bind(now)
    .bind(new.stock)
    .bind(new.begin_time)
    .bind(new.end_time);
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
    let query = sqlx::query(
        "select sale_time() as sale_time,
                v.id, v.title, s.stock, s.initial_stock, s.begin_time, s.end_time
         from vouchers v join seckill_vouchers s on s.voucher_id = v.id
         where v.id = any ($1)",
    )
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
    let query = sqlx::query_as(
        "select v.id, v.title, s.stock, s.initial_stock, s.begin_time, s.end_time
         from vouchers v join seckill_vouchers s on s.voucher_id = v.id
         where v.id < $1
         order by v.id desc
         limit $2",
    )
    .bind(before.map_or(i64::MAX, VoucherId::get))
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}
