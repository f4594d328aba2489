//! Payments: what buyers began.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize, Serializer};
use sqlx::postgres::{PgPool, PgRow};
use sqlx::{FromRow, Row};
use utoipa::ToSchema;

use super::columns::{column, row};
use super::order_steps::taken;
use super::statements::{in_time, step_in_time};
use super::{Service, Stop, StoreError};
use crate::model::{Code, InvalidId, Order, OrderId, OrderStatus, UserId, VoucherId};

/// The name of a payment towards the gateway: `voucher.order.number`. It says which order it is of, so that
/// a notification is one statement on the server that has the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
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

impl Serialize for PaymentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
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

impl TryFrom<String> for PaymentId {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl FromRow<'_, PgRow> for PaymentId {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let (voucher, order) = (row.try_get("voucher_id")?, row.try_get("order_id")?);
        Ok(Self { voucher, order, number: row.try_get("number")? })
    }
}

/// A payment that its buyer may make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PaymentBody)]
pub struct OpenPayment {
    /// Its name towards the payment gateway.
    #[serde(rename = "payment_id")]
    #[schema(value_type = String, example = "7.661897216000000001.1")]
    pub id: PaymentId,
    /// The order.
    pub order_id: OrderId,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// Where to pay: an address of the web or of an app, or a path of this server.
    pub pay_url: String,
    /// After this instant the order is cancelled.
    pub pay_by: DateTime<Utc>,
}

/// A payment that is pending.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // as those of `OpenPayment`
pub struct Pending {
    pub id: PaymentId,
    pub amount: i64,
    pub pay_by: DateTime<Utc>,
    /// Where to pay, once the gateway has said so.
    pub pay_url: Option<String>,
    /// This caller asks the gateway where to pay: which attempt this is. `None`: nobody has to, or somebody else asks it right
    /// now, or asked it in vain a moment ago.
    pub attempt: Option<i32>,
    /// How long all others wait who do not know where to pay.
    pub wait: Duration,
}

/// A row of `open_payment`.
#[derive(Debug)]
struct OpenedRow {
    refusal: Option<Code>,
    order_status: Option<OrderStatus>,
    payment_number: Option<i32>,
    to_pay: Option<i64>,
    until: Option<DateTime<Utc>>,
    url: Option<String>,
    ask_gateway: Option<bool>,
    attempt: Option<i32>,
    wait_ms: Option<i64>,
}

row! {
    OpenedRow: refusal, order_status, payment_number, to_pay, until, url, ask_gateway, attempt, wait_ms
}

/// Where a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
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

column!(PaymentStatus: &str);

/// A payment as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Payment {
    pub amount: i64,
    pub status: PaymentStatus,
}

row! { Payment: amount, status }

/// The payment of this name.
pub async fn find(pool: &PgPool, id: PaymentId) -> Result<Option<Payment>, StoreError> {
    let query = sqlx::query_as(
        "select amount, (array['pending', 'applied', 'failed', 'given_back'])[status] as status
         from payments where order_id = $1 and number = $2 and voucher_id = $3",
    )
    .bind(id.order.get())
    .bind(id.number)
    .bind(id.voucher.get());
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}

/// Begins a payment of `buyer`'s order, or finds the one that is pending: who asks twice pays once. The caller
/// that is told to ask the gateway has `ask_within` for it.
pub async fn open(
    pool: &PgPool,
    order: &Order,
    buyer: UserId,
    ask_within: Duration,
) -> Result<Pending, Stop> {
    let query = sqlx::query_as("select * from open_payment($1, $2, $3, $4)")
        .bind(order.voucher_id.get())
        .bind(order.id.get())
        .bind(buyer.get())
        .bind(ask_within.as_secs_f64());
    let row: OpenedRow =
        step_in_time(pool, async |connection| query.fetch_one(connection).await).await?;
    taken((row.refusal, row.order_status))?;
    let (Some(number), Some(amount), Some(pay_by), Some(attempt), Some(wait_ms)) =
        (row.payment_number, row.to_pay, row.until, row.attempt, row.wait_ms)
    else {
        let what = format!("open_payment says {row:?}");
        return Err(StoreError::defect(Service::Postgres, what).into());
    };
    let id = PaymentId { voucher: order.voucher_id, order: order.id, number };
    Ok(Pending {
        id,
        amount,
        pay_by,
        pay_url: row.url,
        attempt: (row.ask_gateway == Some(true)).then_some(attempt),
        wait: Duration::from_millis(wait_ms.unsigned_abs()),
    })
}

/// The gateway did not say at this attempt where to pay: it is not asked again for so long.
pub async fn ask_later(
    pool: &PgPool,
    id: PaymentId,
    attempt: i32,
    pause: Duration,
) -> Result<(), StoreError> {
    let query = sqlx::query(
        "update payments set next_attempt_at = $4
         where order_id = $1 and number = $2 and voucher_id = $3 and pay_url is null and attempts = $5",
    )
    .bind(id.order.get())
    .bind(id.number)
    .bind(id.voucher.get());
    let until = super::order_steps::time(pool).await? + pause;
    let query = query.bind(until).bind(attempt);
    step_in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}

/// Keeps where the buyer pays, and returns in which state the order is. If the order is not unpaid any more, the gateway may
/// have got the message that the payment is not wanted before it knew the payment: it gets the message again. This counts as an
/// attempt, so that a server that is telling the gateway now does not end the new message.
pub async fn keep_pay_url(
    pool: &PgPool,
    id: PaymentId,
    pay_url: &str,
) -> Result<OrderStatus, StoreError> {
    let query = sqlx::query_scalar(
        "with bought as (
           select status from orders where id = $1 and voucher_id = $3
         ), kept as (
           update payments set pay_url = $4 where order_id = $1 and number = $2 and voucher_id = $3
           returning status
         ), told_again as (
           update messages set next_attempt_at = created_at, attempts = attempts + 1
           where order_id = $1 and number = $2 and voucher_id = $3 and kind = 'cancel_payment'
             and (select status from bought) <> order_unpaid()
             -- As it is when its row is ours: money may have come while this waited for it.
             and (select status from kept) = payment_pending()
         )
         select status from bought",
    )
    .bind(id.order.get())
    .bind(id.number)
    .bind(id.voucher.get())
    .bind(pay_url);
    step_in_time(pool, async |connection| query.fetch_one(connection).await).await
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
