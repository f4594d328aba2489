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
use crate::model::{OrderId, VoucherId};

/// To whom messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i16)]
pub enum Channel {
    /// The payment gateway.
    Gateway = 1,
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
    /// The payment's.
    pub number: i32,
}

row! { MessageId: kind, voucher_id, order_id, number }

impl MessageId {
    /// The payment that the message is about.
    pub const fn payment(self) -> PaymentId {
        PaymentId { voucher: self.voucher_id, order: self.order_id, number: self.number }
    }
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
        " order by next_attempt_at limit $3"
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
