//! Orders, and the one statement that sells.

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgPool, PgRow};

use super::postgres::in_time;
use super::{Commit, Service, StoreError};
use crate::model::{Order, OrderId, OrderStatus, UserId, VoucherId};

/// What became of [`place`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// Stock taken and order written, committed.
    Ordered(Order),
    /// Nothing was written: the user has this order.
    AlreadyBought(OrderId),
    /// Nothing was written: no stock is left.
    SoldOut,
    /// Nothing was written: no stock was left, but now there is some. Try again.
    StockCameBack,
    /// Nothing was written: there is no such voucher.
    NoVoucher,
    /// Nothing was written: another order has this id.
    IdTaken,
}

/// A purchase to write down.
#[derive(Debug, Clone, Copy)]
pub struct Purchase {
    /// The id the order is to have.
    pub order_id: OrderId,
    /// Who buys.
    pub user_id: UserId,
    /// What.
    pub voucher_id: VoucherId,
    /// When.
    pub at: DateTime<Utc>,
}

/// Sells: takes one from the stock if one is there, and writes the order, in one
/// statement and so in one transaction. The decrement comes first and the insert is a
/// plain one: a duplicate raises and takes the decrement back with it. (With
/// `on conflict do nothing` it would leak stock; with the insert first it would oversell.)
///
/// `not exists` spares a repeated buyer the write and the server's log an error; what
/// makes "once" true is the unique constraint.
///
/// The commit is as the transaction's own setting says (`set_config(.., true)`), which the
/// statement makes when it comes to the row.
///
/// # Errors
/// `Unknown` when the connection broke after sending: the order may be there.
pub async fn place(
    connection: &mut PgConnection,
    purchase: &Purchase,
    commit: Commit,
) -> Result<Placed, StoreError> {
    let written = sqlx::query(
        "with taken as (
           update seckill_vouchers set stock = stock - 1
           where voucher_id = $3 and stock > 0
             and not exists (select from orders where user_id = $2 and voucher_id = $3)
             and ($5 or set_config('synchronous_commit', 'off', true) = 'off')
           returning voucher_id
         )
         insert into orders (id, user_id, voucher_id, created_at, updated_at)
         select $1, $2, voucher_id, $4, $4 from taken",
    )
    .bind(purchase.order_id.get())
    .bind(purchase.user_id.get())
    .bind(purchase.voucher_id.get())
    .bind(purchase.at)
    .bind(commit == Commit::Synchronous)
    .execute(&mut *connection)
    .await;
    match written {
        Ok(done) if done.rows_affected() == 1 => Ok(Placed::Ordered(ordered(purchase))),
        Ok(_) => why_not(connection, purchase).await,
        Err(sqlx::Error::Database(error)) if error.constraint() == Some("orders_pkey") => {
            Ok(Placed::IdTaken)
        }
        Err(sqlx::Error::Database(error)) if error.constraint() == Some("orders_one_per_user") => {
            why_not(connection, purchase).await
        }
        Err(error) => Err(error.into()),
    }
}

/// The order that `purchase` became.
pub fn ordered(purchase: &Purchase) -> Order {
    Order {
        id: purchase.order_id,
        user_id: purchase.user_id,
        voucher_id: purchase.voucher_id,
        status: OrderStatus::Unpaid,
        created_at: purchase.at,
        paid_at: None,
        used_at: None,
        refunded_at: None,
    }
}

/// Why nothing was written.
async fn why_not(connection: &mut PgConnection, purchase: &Purchase) -> Result<Placed, StoreError> {
    let row = sqlx::query(
        "select (select id from orders where user_id = $1 and voucher_id = $2) as order_id,
                (select stock from seckill_vouchers where voucher_id = $2) as stock",
    )
    .bind(purchase.user_id.get())
    .bind(purchase.voucher_id.get())
    .fetch_one(connection)
    .await?;
    let order_id: Option<i64> = row.try_get("order_id")?;
    let stock: Option<i32> = row.try_get("stock")?;
    if let Some(id) = order_id.and_then(OrderId::new) {
        return Ok(Placed::AlreadyBought(id));
    }
    match stock {
        None => Ok(Placed::NoVoucher),
        Some(0) => Ok(Placed::SoldOut),
        Some(_) => Ok(Placed::StockCameBack),
    }
}

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

/// The order with this id, whoever's it is.
///
/// # Errors
/// As any statement.
pub async fn find(pool: &PgPool, id: OrderId) -> Result<Option<Order>, StoreError> {
    let statement = sqlx::query(
        "select id, user_id, voucher_id, status, created_at, paid_at, used_at, refunded_at
         from orders where id = $1",
    )
    .bind(id.get())
    .fetch_optional(pool);
    let row = in_time(statement).await?;
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
    let statement = sqlx::query(
        "select id, user_id, voucher_id, status, created_at, paid_at, used_at, refunded_at
         from orders where user_id = $1 and id < $2
         order by id desc
         limit $3",
    )
    .bind(user.get())
    .bind(before.map_or(i64::MAX, OrderId::get))
    .bind(limit)
    .fetch_all(pool);
    let rows = in_time(statement).await?;
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
