//! Payments: what buyers began, and what the payment gateway said of it.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::postgres::PgPool;

use super::postgres::{in_time, step_in_time};
use super::{Service, StoreError};
use crate::model::{InvalidId, Order, OrderId, OrderStatus, UserId, VoucherId};

/// The name of a payment towards the gateway: `voucher.order.number`. It says which order it is of, so that
/// a notification is one statement on the server that has the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub struct PaymentId {
    pub voucher: VoucherId,
    pub order: OrderId,
    /// The first payment of an order is 1.
    pub number: i32,
}

impl fmt::Display for PaymentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.voucher, self.order, self.number)
    }
}

impl FromStr for PaymentId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let (voucher, rest) = text.split_once('.').ok_or(InvalidId)?;
        let (order, number) = rest.split_once('.').ok_or(InvalidId)?;
        // Digits only, as of every id.
        let number = OrderId::from_str(number)?.get();
        let number = i32::try_from(number).map_err(|_| InvalidId)?;
        Ok(Self { voucher: voucher.parse()?, order: order.parse()?, number })
    }
}

/// A payment that its buyer may make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPayment {
    /// Its name.
    pub id: PaymentId,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// After this instant the order is cancelled.
    pub pay_by: DateTime<Utc>,
    /// Where to pay, once the gateway has said so.
    pub pay_url: Option<String>,
}

/// What became of the wish to pay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// The payment, new or pending.
    Payment(OpenPayment),
    /// The order is in this state: there is nothing to pay.
    Refused(OrderStatus),
    /// The buyer has no such order.
    NotFound,
}

/// A row of `open_payment`.
type OpenedRow = (OrderStatus, Option<i32>, Option<i64>, Option<DateTime<Utc>>, Option<String>);

/// Where a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentStatus {
    /// The gateway has not said anything.
    Pending,
    /// Its order is paid by it.
    Applied,
    /// The gateway took nothing.
    Failed,
    /// The gateway took money that goes back.
    GivenBack,
}

/// A payment as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Payment {
    pub amount: i64,
    pub status: PaymentStatus,
}

/// The payment of this name.
pub async fn find(pool: &PgPool, id: PaymentId) -> Result<Option<Payment>, StoreError> {
    let query = sqlx::query_as(
        "select amount, status from payments
         where order_id = $1 and number = $2 and voucher_id = $3",
    )
    .bind(id.order.get())
    .bind(id.number)
    .bind(id.voucher.get());
    let row: Option<(i64, i16)> =
        in_time(pool, async |connection| query.fetch_optional(connection).await).await?;
    row.map(|(amount, status)| {
        let status = match status {
            1 => PaymentStatus::Pending,
            2 => PaymentStatus::Applied,
            3 => PaymentStatus::Failed,
            4 => PaymentStatus::GivenBack,
            _ => {
                let what = format!("a payment has the status {status}");
                return Err(StoreError::defect(Service::Postgres, what));
            }
        };
        Ok(Payment { amount, status })
    })
    .transpose()
}

/// Begins a payment of `buyer`'s order, or finds the one that is pending: who asks twice pays once.
pub async fn open(pool: &PgPool, order: &Order, buyer: UserId) -> Result<Opened, StoreError> {
    let query = sqlx::query_as("select * from open_payment($1, $2, $3)")
        .bind(order.voucher_id.get())
        .bind(order.id.get())
        .bind(buyer.get());
    let row: Option<OpenedRow> =
        in_time(pool, async |connection| query.fetch_optional(connection).await).await?;
    Ok(match row {
        None => Opened::NotFound,
        Some((_, Some(number), Some(amount), Some(pay_by), pay_url)) => {
            let id = PaymentId { voucher: order.voucher_id, order: order.id, number };
            Opened::Payment(OpenPayment { id, amount, pay_by, pay_url })
        }
        Some((status, ..)) => Opened::Refused(status),
    })
}

/// Keeps where the buyer pays.
pub async fn keep_pay_url(pool: &PgPool, id: PaymentId, pay_url: &str) -> Result<(), StoreError> {
    let query = sqlx::query(
        "update payments set pay_url = $4 where order_id = $1 and number = $2 and voucher_id = $3",
    )
    .bind(id.order.get())
    .bind(id.number)
    .bind(id.voucher.get())
    .bind(pay_url);
    in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}

/// What the gateway says of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It took so much, in the transaction of this name.
    Succeeded {
        /// The gateway's own name of the money.
        transaction: String,
        /// In the currency's smallest unit.
        amount: i64,
    },
    /// It took nothing.
    Failed,
}

/// What became of a notification. `settle_payment` in migrations/0004_order_life_functions.sql decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Settled {
    /// There is no such payment.
    Unknown,
    /// It was said before.
    Repeated,
    Failed,
    /// The order is paid.
    Applied,
    /// The order, which time had cancelled, is paid and live again.
    Revived,
    /// The money goes back: it is not what was asked for.
    WrongAmount,
    /// The money goes back: the order is cancelled.
    OrderCancelled,
    /// The money goes back: the order is paid already.
    OrderPaid,
}

impl Settled {
    const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Repeated,
        Self::Failed,
        Self::Applied,
        Self::Revived,
        Self::WrongAmount,
        Self::OrderCancelled,
        Self::OrderPaid,
    ];

    /// As the database and the metrics write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Repeated => "repeated",
            Self::Failed => "failed",
            Self::Applied => "applied",
            Self::Revived => "revived",
            Self::WrongAmount => "wrong_amount",
            Self::OrderCancelled => "order_cancelled",
            Self::OrderPaid => "order_paid",
        }
    }
}

/// Settles a payment as the gateway says. The same notification may come twice, late, and in any order.
pub async fn settle(
    pool: &PgPool,
    id: PaymentId,
    verdict: &Verdict,
) -> Result<Settled, StoreError> {
    let (transaction, amount) = match verdict {
        Verdict::Succeeded { transaction, amount } => (Some(transaction), Some(*amount)),
        Verdict::Failed => (None, None),
    };
    let call = || {
        sqlx::query_scalar("select settle_payment($1, $2, $3, $4, $5, $6)")
            .bind(id.voucher.get())
            .bind(id.order.get())
            .bind(id.number)
            .bind(transaction)
            .bind(amount)
            .bind(transaction.is_some())
    };
    // The same money may be said to be for another order at the same moment: a second call finds it.
    let settle = async || {
        step_in_time(pool, async |session| match call().fetch_one(session).await {
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(None),
            said => said.map(Some),
        })
        .await
    };
    let said: Option<String> = match settle().await? {
        None => settle().await?,
        said => said,
    };
    let said = said.unwrap_or_default();
    let settled = Settled::ALL.into_iter().find(|settled| settled.as_str() == said);
    settled.ok_or_else(|| {
        StoreError::defect(Service::Postgres, format!("settle_payment says {said:?}"))
    })
}

/// Money that the gateway confirmed for a payment that is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchedPayment {
    /// The gateway's own name of the money.
    pub transaction_id: String,
    /// The payment that it named.
    pub payment_id: String,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// When it was said first.
    pub received_at: DateTime<Utc>,
}

/// Keeps money that belongs to no payment of ours, once a transaction.
pub async fn keep_unmatched(
    pool: &PgPool,
    transaction: &str,
    payment: &str,
    amount: i64,
) -> Result<(), StoreError> {
    let query = sqlx::query(
        "insert into unmatched_payments (transaction_id, payment_id, amount, received_at)
         values ($1, $2, $3, now())
         on conflict do nothing",
    )
    .bind(transaction)
    .bind(payment)
    .bind(amount);
    in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}

/// The newest money that belongs to no payment of ours.
pub async fn list_unmatched(
    pool: &PgPool,
    limit: i64,
) -> Result<Vec<UnmatchedPayment>, StoreError> {
    let query = sqlx::query_as(
        "select transaction_id, payment_id, amount, received_at from unmatched_payments
         order by received_at desc, transaction_id limit $1",
    )
    .bind(limit);
    let rows: Vec<(String, String, i64, DateTime<Utc>)> =
        in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    let of_row = |(transaction_id, payment_id, amount, received_at)| UnmatchedPayment {
        transaction_id,
        payment_id,
        amount,
        received_at,
    };
    Ok(rows.into_iter().map(of_row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_has_one_spelling() {
        let text = "7.429496729600000007.2";
        assert_eq!(text.parse::<PaymentId>().map(|id| id.to_string()), Ok(text.to_owned()));
        for wrong in
            ["", "7", "7.8", "7.8.0", "7.8.02", "7.8.-1", "7.8.2147483648", "7.8.1.1", "a.b.c"]
        {
            assert_eq!(wrong.parse::<PaymentId>(), Err(InvalidId), "{wrong}");
        }
    }
}
