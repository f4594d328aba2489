//! Orders.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{OrderId, UserId, VoucherId};

/// The life of an order. The numbers are the database's.
///
/// `unpaid` -> `paid` -> `used`; `unpaid` -> `cancelled`; `paid` -> `refunding` -> `refunded`. An order that
/// costs nothing begins as `paid`, and goes from there to `refunded` at once. A cancelled order is paid after
/// all where its buyer paid too late and one voucher is left (`judge_payment` in
/// migrations/0002_functions.sql).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::FromRepr,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[repr(i16)]
pub enum OrderStatus {
    /// Placed, not paid.
    Unpaid = 1,
    /// Paid, not used.
    Paid = 2,
    /// Redeemed.
    Used = 3,
    /// Not paid, and given up by its buyer, by an administrator or by time.
    Cancelled = 4,
    /// Its money is on the way back.
    Refunding = 5,
    /// The money went back.
    Refunded = 6,
}

impl OrderStatus {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What is to be paid for an order, and by when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// In the currency's smallest unit.
    pub amount: i64,
    /// After this instant the order is cancelled.
    pub pay_by: DateTime<Utc>,
}

/// An order. Each instant is there once the order has taken that step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Order {
    pub id: OrderId,
    pub user_id: UserId,
    pub voucher_id: VoucherId,
    pub status: OrderStatus,
    /// The price when it was placed.
    pub amount: i64,
    pub created_at: DateTime<Utc>,
    /// `None`: there was nothing to pay.
    pub pay_by: Option<DateTime<Utc>>,
    pub paid_at: Option<DateTime<Utc>>,
    pub used_at: Option<DateTime<Utc>>,
    pub cancelled_at: Option<DateTime<Utc>>,
    pub refunded_at: Option<DateTime<Utc>>,
    /// The gateway took the money of a used order back.
    pub charged_back_at: Option<DateTime<Utc>>,
}

impl Order {
    /// An order that was just placed. One that costs nothing is paid at once.
    pub fn placed(
        id: OrderId,
        user_id: UserId,
        voucher_id: VoucherId,
        created_at: DateTime<Utc>,
        due: Option<Due>,
    ) -> Self {
        Self {
            id,
            user_id,
            voucher_id,
            status: if due.is_some() { OrderStatus::Unpaid } else { OrderStatus::Paid },
            amount: due.map_or(0, |due| due.amount),
            created_at,
            pay_by: due.map(|due| due.pay_by),
            paid_at: due.is_none().then_some(created_at),
            used_at: None,
            cancelled_at: None,
            refunded_at: None,
            charged_back_at: None,
        }
    }
}
