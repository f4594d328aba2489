//! Messages that are to be sent: rows that the database's functions write, and any server works off. `attempts` names the
//! claim of a row, and `next_attempt_at` says when it is due; a server that claims it moves that, so that a claim ends by
//! itself.

use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;

use super::StoreError;
use super::columns::{column, row};
use super::payments::PaymentId;
use super::statements::{Work, in_time};
use super::time_limits::GIVES_WAY;
use crate::model::{OrderId, OrderStatus, VoucherId};

/// To whom messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i16)]
pub enum Channel {
    /// The payment gateway.
    Gateway = 1,
    /// Buyers, by text message.
    Phones = 2,
}

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MessageKind {
    /// The money of a payment is to go back.
    Refund,
    /// A pending payment is not wanted any more.
    CancelPayment,
    /// Was a pending payment paid? Time would cancel its order.
    AskPayment,
    /// A buyer who stood in line, or was drawn, is offered an order.
    TellOffered,
    /// The order is paid; or a buyer who stood in line has an order that costs nothing.
    TellPaid,
    /// The money of the order is back.
    TellRefunded,
    /// The seller cancelled the order, or its sale.
    TellCancelled,
}

column!(MessageKind: &str);

impl MessageKind {
    /// The message of this kind about `payment`.
    pub const fn about(self, payment: PaymentId) -> MessageId {
        let PaymentId { voucher, order, number } = payment;
        MessageId { kind: self, voucher_id: voucher, order_id: order, number }
    }
}

/// The name of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct MessageId {
    pub kind: MessageKind,
    pub voucher_id: VoucherId,
    pub order_id: OrderId,
    /// The payment's; of a text, that of the step in the log.
    pub number: i32,
}

row! { MessageId: kind, voucher_id, order_id, number }

impl MessageId {
    /// The payment that the message is about.
    pub const fn payment(self) -> PaymentId {
        PaymentId { voucher: self.voucher_id, order: self.order_id, number: self.number }
    }
}

/// Writes what buyers are to be told. What was written before is not told again.
pub async fn tell_buyers(pool: &PgPool, texts: &[MessageId]) -> Result<(), StoreError> {
    let query = sqlx::query(
        "insert into messages (voucher_id, order_id, kind, number, channel, next_attempt_at, created_at)
         select *, to_phones(), sale_time(), sale_time()
         from unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[])
         on conflict do nothing",
    )
    .bind(texts.iter().map(|text| text.voucher_id.get()).collect::<Vec<_>>())
    .bind(texts.iter().map(|text| text.order_id.get()).collect::<Vec<_>>())
    .bind(texts.iter().map(|text| <&str>::from(text.kind)).collect::<Vec<_>>())
    .bind(texts.iter().map(|text| text.number).collect::<Vec<_>>());
    in_time(pool, async |session| query.execute(session).await.map(drop)).await
}

/// What a text to the buyer of an order says.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the names say it
pub struct Told {
    /// `None`: the user was erased.
    pub phone: Option<String>,
    pub title: String,
    pub status: OrderStatus,
    pub amount: i64,
    pub pay_by: Option<DateTime<Utc>>,
    pub is_sale_cancelled: bool,
    pub now: DateTime<Utc>,
}

row! { Told: phone, title, status, amount, pay_by, is_sale_cancelled, now }

/// The same as it is now; `None`: there is no such order any more.
pub async fn find_told(pool: &PgPool, message: MessageId) -> Result<Option<Told>, StoreError> {
    let query = sqlx::query_as(
        "select u.phone, v.title, o.status, o.amount, o.pay_by, s.cancelled_at is not null as is_sale_cancelled,
                sale_time() as now
         from orders o join users u on u.id = o.user_id join vouchers v on v.id = o.voucher_id
         join seckill_vouchers s on s.voucher_id = o.voucher_id
         where o.id = $1 and o.voucher_id = $2",
    )
    .bind(message.order_id.get())
    .bind(message.voucher_id.get());
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

/// No claim and no pause is as long as ten minutes: one that ends later was made before the clock went back. `$1` is now.
macro_rules! is_due {
    () => {
        "(next_attempt_at <= $1 or next_attempt_at > $1 + interval '10 minutes')"
    };
}

/// Up to `limit` messages of `channel` that are due at `now`, the longest due first.
pub async fn list_due(
    pool: &PgPool,
    channel: Channel,
    now: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<MessageId>, StoreError> {
    let query = sqlx::query_as(concat!(
        "select kind, voucher_id, order_id, number from messages where channel = $2 and ",
        is_due!(),
        // A question has a time within which it has to be answered.
        " order by kind <> 'ask_payment', next_attempt_at limit $3"
    ))
    .bind(now)
    .bind(channel as i16)
    .bind(limit);
    in_time(pool, async |session| query.fetch_all(session).await).await
}

/// Claims a message, if it is due at `now`, until `until`: no other server sends it before. Returns which attempt this is;
/// `None`: another server has it, or it is done.
pub async fn claim(
    pool: &PgPool,
    message: MessageId,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<Option<i32>, StoreError> {
    let query = sqlx::query_scalar(concat!(
        "update messages set attempts = attempts + 1, next_attempt_at = $6
         where order_id = $2 and number = $3 and voucher_id = $4 and kind = $5 and ",
        is_due!(),
        " returning attempts"
    ))
    .bind(now)
    .bind(message.order_id.get())
    .bind(message.number)
    .bind(message.voucher_id.get())
    .bind(<&str>::from(message.kind))
    .bind(until);
    let claim = Work::step_with(GIVES_WAY, pool);
    claim.run(async |session| query.fetch_optional(session).await).await
}

/// Writes what became of the `attempt` that was claimed: what the receiver said, if it did not take the message, and when it
/// is sent next, if it is. A server whose claim is over changes nothing.
pub async fn record(
    pool: &PgPool,
    message: MessageId,
    attempt: i32,
    error: Option<&str>,
    next: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    let query = sqlx::query(
        "update messages set last_error = $5, next_attempt_at = $6
         where order_id = $1 and number = $2 and voucher_id = $3 and kind = $4 and attempts = $7
           and next_attempt_at is not null",
    )
    .bind(message.order_id.get())
    .bind(message.number)
    .bind(message.voucher_id.get())
    .bind(<&str>::from(message.kind))
    .bind(error)
    .bind(next)
    .bind(attempt);
    in_time(pool, async |session| query.execute(session).await).await?;
    Ok(())
}
