//! Money that the gateway took for payments that are not ours: kept, and shown to administrators.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::postgres::PgPool;
use utoipa::ToSchema;

use super::columns::row;
use super::notices::Money;
use super::statements::in_time;
use super::{StoreError, order_steps};
use crate::model::{UnmatchedId, UserId};

/// Money that the gateway took for a payment that is not ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UnmatchedBody)]
pub struct UnmatchedPayment {
    /// Its name here.
    pub id: UnmatchedId,
    /// The gateway's own name of the money.
    pub transaction_id: String,
    /// The payment that it named.
    pub payment_id: String,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// When the gateway first said that it took the money; null: it said only that it gave it back.
    #[schema(required = true)]
    pub received_at: Option<DateTime<Utc>>,
    /// When the gateway said that it gave the money back.
    #[schema(required = true)]
    pub returned_at: Option<DateTime<Utc>>,
    /// When an administrator had settled it.
    #[schema(required = true)]
    pub resolved_at: Option<DateTime<Utc>>,
    /// The administrator.
    #[schema(required = true)]
    pub resolved_by: Option<UserId>,
}

row! {
    UnmatchedPayment: id, transaction_id, payment_id, amount, received_at, returned_at, resolved_at, resolved_by
}

/// Keeps money that belongs to no payment of ours, once for each payment and amount that the gateway names.
pub async fn keep(pool: &PgPool, payment: &str, money: &Money) -> Result<(), StoreError> {
    let query = sqlx::query(
        "insert into unmatched_payments (transaction_id, payment_id, amount, received_at)
         values ($1, $2, $3, now())
         on conflict (transaction_id, payment_id, amount)
         do update set received_at = excluded.received_at where unmatched_payments.received_at is null",
    )
    .bind(&money.transaction)
    .bind(payment)
    .bind(money.amount);
    in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}

/// The gateway gave such money back; it may say so before it says that it took the money. Until it does, somebody has to look at
/// it: the money may be that of an order which `seckill prune` has removed.
pub async fn mark_returned(pool: &PgPool, payment: &str, money: &Money) -> Result<(), StoreError> {
    let query = sqlx::query(
        "insert into unmatched_payments (transaction_id, payment_id, amount, returned_at)
         values ($1, $2, $3, now())
         on conflict (transaction_id, payment_id, amount)
         do update set returned_at = coalesce(unmatched_payments.returned_at, excluded.returned_at)",
    )
    .bind(&money.transaction)
    .bind(payment)
    .bind(money.amount);
    in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}

/// The gateway did not give such money back after all, or has it again: somebody has to look at it, also if somebody has before.
pub async fn mark_kept(pool: &PgPool, payment: &str, money: &Money) -> Result<(), StoreError> {
    let query = sqlx::query(
        "insert into unmatched_payments (transaction_id, payment_id, amount)
         values ($1, $2, $3)
         on conflict (transaction_id, payment_id, amount)
         do update set returned_at = null, resolved_at = null, resolved_by = null
         where unmatched_payments.returned_at is not null",
    )
    .bind(&money.transaction)
    .bind(payment)
    .bind(money.amount);
    in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}

/// Up to `limit` payments that are not ours with ids below `before`, the newest first.
pub async fn list(
    pool: &PgPool,
    before: Option<UnmatchedId>,
    limit: i64,
) -> Result<Vec<UnmatchedPayment>, StoreError> {
    let query =
        sqlx::query_as("select * from unmatched_payments where id < $1 order by id desc limit $2")
            .bind(before.map_or(i64::MAX, UnmatchedId::get))
            .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}

/// How many an administrator has to look at.
pub async fn count_open(pool: &PgPool) -> Result<i64, StoreError> {
    let query = sqlx::query_scalar(
        "select count(*) from unmatched_payments
         where (returned_at is null or received_at is null) and resolved_at is null",
    );
    in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// Keeps that `administrator` has settled it, unless another one has before. `None`: there is no such payment.
pub async fn resolve(
    pool: &PgPool,
    id: UnmatchedId,
    administrator: UserId,
) -> Result<Option<UnmatchedPayment>, StoreError> {
    // Citus takes no function of time in `coalesce`.
    let now = order_steps::time(pool).await?;
    let query = sqlx::query_as(
        "update unmatched_payments
         set resolved_at = coalesce(resolved_at, $3),
             resolved_by = case when resolved_at is null then $2 else resolved_by end
         where id = $1
         returning *",
    )
    .bind(id.get())
    .bind(administrator.get())
    .bind(now);
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}
