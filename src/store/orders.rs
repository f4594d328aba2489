//! Orders, read. [`order_writer`](super::order_writer) writes them.

use sqlx::Row;
use sqlx::postgres::{PgPool, PgRow};

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
    let statement = sqlx::query(
        "select id, user_id, voucher_id, status, created_at, paid_at, used_at, refunded_at
         from orders where id = $1 and user_id = $2",
    )
    .bind(id.get())
    .bind(user.get())
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
