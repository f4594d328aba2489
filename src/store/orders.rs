//! Orders, read. [`order_writer`](super::order_writer) writes them.

use std::collections::HashMap;

use sqlx::postgres::{PgPool, PgRow};
use sqlx::{Connection, FromRow, Row};

use super::StoreError;
use super::postgres::in_time;
use crate::model::{Order, OrderId, UserId, VoucherId};

impl FromRow<'_, PgRow> for Order {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            user_id: row.try_get("user_id")?,
            voucher_id: row.try_get("voucher_id")?,
            status: row.try_get("status")?,
            created_at: row.try_get("created_at")?,
            paid_at: row.try_get("paid_at")?,
            used_at: row.try_get("used_at")?,
            refunded_at: row.try_get("refunded_at")?,
        })
    }
}

/// The order with this id, if it is `user`'s.
pub async fn find(pool: &PgPool, user: UserId, id: OrderId) -> Result<Option<Order>, StoreError> {
    let query = sqlx::query_as(
        "select id, user_id, voucher_id, status, created_at, paid_at, used_at, refunded_at
         from orders where id = $1 and user_id = $2",
    )
    .bind(id.get())
    .bind(user.get());
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}

/// Up to `limit` orders of `user` with ids below `before`, newest first.
pub async fn list_of_user(
    pool: &PgPool,
    user: UserId,
    before: Option<OrderId>,
    limit: i64,
) -> Result<Vec<Order>, StoreError> {
    let query = sqlx::query_as(
        "select id, user_id, voucher_id, status, created_at, paid_at, used_at, refunded_at
         from orders where user_id = $1 and id < $2
         order by id desc
         limit $3",
    )
    .bind(user.get())
    .bind(before.map_or(i64::MAX, OrderId::get))
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}

/// The greatest order id there is: where the order-id worker continues.
pub async fn last_id(pool: &PgPool) -> Result<Option<OrderId>, StoreError> {
    Ok(sqlx::query_scalar("select max(id) from orders").fetch_one(pool).await?)
}

/// The orders that `buyers` have of `voucher`, by buyer. One call, so that one server of a distributed
/// database has it all.
pub async fn find_owned(
    pool: &PgPool,
    voucher: VoucherId,
    buyers: &[UserId],
) -> Result<HashMap<UserId, OrderId>, StoreError> {
    let query = sqlx::query_as("select * from orders_of_buyers($1, $2)")
        .bind(voucher.get())
        .bind(buyers.iter().map(|user| user.get()).collect::<Vec<_>>());
    let owned: Vec<(UserId, OrderId)> =
        in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    Ok(owned.into_iter().collect())
}

/// What there is to know of the owners of a voucher whose sale may be over.
#[derive(Debug)]
pub enum FinishedSale {
    /// More orders may be placed: the voucher is neither sold out nor past the end of its sale.
    NotFinished,
    /// More orders than asked for.
    TooMany,
    /// All owners, in any order, and their orders.
    Owners(Vec<(UserId, OrderId)>),
}

/// The owners of orders of `voucher`, up to `most`.
pub async fn owners_of_finished(
    pool: &PgPool,
    voucher: VoucherId,
    most: usize,
) -> Result<FinishedSale, StoreError> {
    in_time(pool, async |connection| {
        let mut transaction = connection.begin().await?;
        sqlx::query("set local lock_timeout = '500ms'").execute(&mut *transaction).await?;
        // With the row locked nobody is between the check of the window and the commit.
        let sold: Option<i64> = sqlx::query_scalar(
            "select (initial_stock - stock)::bigint from seckill_vouchers
             where voucher_id = $1 and (stock = 0 or sale_time() >= end_time) for share",
        )
        .bind(voucher.get())
        .fetch_optional(&mut *transaction)
        .await?;
        // From here on no order comes any more: nobody has to wait while the owners are read.
        transaction.commit().await?;
        let Some(sold) = sold else { return Ok(FinishedSale::NotFinished) };
        assert!(sold >= 0, "more of voucher {voucher} is left than there was: {sold} sold");
        if sold as usize > most {
            return Ok(FinishedSale::TooMany);
        }
        let query = sqlx::query_as("select user_id, id from orders where voucher_id = $1");
        Ok(FinishedSale::Owners(query.bind(voucher.get()).fetch_all(connection).await?))
    })
    .await
}
