//! Money that the gateway took for payments that are not ours: kept, and shown to administrators.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::postgres::PgPool;
use utoipa::ToSchema;

use super::StoreError;
use super::columns::row;
use super::payments::Money;
use super::statements::in_time;

/// Money that the gateway took for a payment that is not ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UnmatchedBody)]
pub struct UnmatchedPayment {
    /// The gateway's own name of the money.
    pub transaction_id: String,
    /// The payment that it named.
    pub payment_id: String,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// When it was said first.
    pub received_at: DateTime<Utc>,
    /// When the gateway said that it gave the money back.
    #[schema(required = true)]
    pub returned_at: Option<DateTime<Utc>>,
}

row! { UnmatchedPayment: transaction_id, payment_id, amount, received_at, returned_at }

/// Keeps money that belongs to no payment of ours, once for each payment and amount that the gateway names.
pub async fn keep(pool: &PgPool, payment: &str, money: &Money) -> Result<(), StoreError> {
    let query = sqlx::query(
        "insert into unmatched_payments (transaction_id, payment_id, amount, received_at)
         values ($1, $2, $3, now())
         on conflict do nothing",
    )
    .bind(&money.transaction)
    .bind(payment)
    .bind(money.amount);
    in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}

/// The gateway gave such money back; it may say so before it says that it took the money.
pub async fn mark_returned(pool: &PgPool, payment: &str, money: &Money) -> Result<(), StoreError> {
    let query = sqlx::query(
        "insert into unmatched_payments (transaction_id, payment_id, amount, received_at, returned_at)
         values ($1, $2, $3, now(), now())
         on conflict (transaction_id, payment_id, amount)
         do update set returned_at = coalesce(unmatched_payments.returned_at, excluded.returned_at)",
    )
    .bind(&money.transaction)
    .bind(payment)
    .bind(money.amount);
    in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}

/// The newest money that belongs to no payment of ours.
pub async fn list(pool: &PgPool, limit: i64) -> Result<Vec<UnmatchedPayment>, StoreError> {
    let query = sqlx::query_as(
        "select transaction_id, payment_id, amount, received_at, returned_at from unmatched_payments
         order by received_at desc, transaction_id, payment_id limit $1",
    )
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}
