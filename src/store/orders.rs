//! Orders, read. [`order_writer`](super::order_writer) writes them.

use std::collections::HashMap;

use sqlx::postgres::{PgPool, PgRow};
use sqlx::{Connection, Row};

use super::postgres::in_time;
use super::{Service, StoreError};
use crate::model::{Order, OrderId, OrderStatus, UserId, VoucherId};

fn order_from(row: &PgRow) -> Result<Order, StoreError> {
    let defect = |what: &str| StoreError::defect(Service::Postgres, what);
    Ok(Order {
        id: OrderId::new(row.try_get("id")?)
            .ok_or_else(|| defect("an order id is not positive"))?,
        user_id: UserId::new(row.try_get("user_id")?)
            .ok_or_else(|| defect("an order's user id is not positive"))?,
        voucher_id: VoucherId::new(row.try_get("voucher_id")?)
            .ok_or_else(|| defect("an order's voucher id is not positive"))?,
        status: OrderStatus::from_number(row.try_get("status")?)
            .ok_or_else(|| defect("an order's status is unknown"))?,
        created_at: row.try_get("created_at")?,
        paid_at: row.try_get("paid_at")?,
        used_at: row.try_get("used_at")?,
        refunded_at: row.try_get("refunded_at")?,
    })
}

/// The order with this id, if it is `user`'s.
///
/// # Errors
/// As any statement.
pub async fn find(pool: &PgPool, user: UserId, id: OrderId) -> Result<Option<Order>, StoreError> {
    let query = sqlx::query(
        "select id, user_id, voucher_id, status, created_at, paid_at, used_at, refunded_at
         from orders where id = $1 and user_id = $2",
    )
    .bind(id.get())
    .bind(user.get());
    let row = in_time(pool, async |connection| query.fetch_optional(connection).await).await?;
    row.as_ref().map(order_from).transpose()
}

/// Up to `limit` orders of `user` with ids below `before`, newest first.
///
/// # Errors
/// As any statement.
pub async fn list_of_user(
    pool: &PgPool,
    user: UserId,
    before: Option<OrderId>,
    limit: i64,
) -> Result<Vec<Order>, StoreError> {
    let query = sqlx::query(
        "select id, user_id, voucher_id, status, created_at, paid_at, used_at, refunded_at
         from orders where user_id = $1 and id < $2
         order by id desc
         limit $3",
    )
    .bind(user.get())
    .bind(before.map_or(i64::MAX, OrderId::get))
    .bind(limit);
    let rows = in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    rows.iter().map(order_from).collect()
}

/// The greatest order id there is: where the order-id worker continues.
///
/// # Errors
/// As any statement.
pub async fn last_id(pool: &PgPool) -> Result<Option<OrderId>, StoreError> {
    let id: Option<i64> = sqlx::query_scalar("select max(id) from orders").fetch_one(pool).await?;
    Ok(id.and_then(OrderId::new))
}

/// The orders that `buyers` have of `voucher`, by buyer. One call, so that one server of a distributed
/// database has it all.
///
/// # Errors
/// As any statement.
pub async fn find_owned(
    pool: &PgPool,
    voucher: VoucherId,
    buyers: &[UserId],
) -> Result<HashMap<UserId, OrderId>, StoreError> {
    let query = sqlx::query("select * from orders_of_buyers($1, $2)")
        .bind(voucher.get())
        .bind(buyers.iter().map(|user| user.get()).collect::<Vec<_>>());
    let rows = in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    rows.iter().map(|row| owner_from(row, "buyer_id", "order_id")).collect()
}

fn owner_from(row: &PgRow, user: &str, order: &str) -> Result<(UserId, OrderId), StoreError> {
    let defect = || StoreError::defect(Service::Postgres, "an order's id is not positive");
    let user = UserId::new(row.try_get(user)?).ok_or_else(defect)?;
    Ok((user, OrderId::new(row.try_get(order)?).ok_or_else(defect)?))
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
///
/// # Errors
/// As any statement.
pub async fn owners_of_finished(
    pool: &PgPool,
    voucher: VoucherId,
    most: usize,
) -> Result<FinishedSale, StoreError> {
    let (sold, rows) = in_time(pool, async |connection| {
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
        let fits = sold.is_some_and(|sold| usize::try_from(sold).is_ok_and(|sold| sold <= most));
        // From here on no order comes any more: nobody has to wait while the owners are read.
        transaction.commit().await?;
        if !fits {
            return Ok((sold, None));
        }
        let query = sqlx::query("select user_id, id from orders where voucher_id = $1");
        Ok((sold, Some(query.bind(voucher.get()).fetch_all(connection).await?)))
    })
    .await?;
    match (sold, rows) {
        (None, _) => Ok(FinishedSale::NotFinished),
        (Some(_), None) => Ok(FinishedSale::TooMany),
        (Some(_), Some(rows)) => {
            let owners = rows.iter().map(|row| owner_from(row, "user_id", "id"));
            owners.collect::<Result<Vec<_>, StoreError>>().map(FinishedSale::Owners)
        }
    }
}
