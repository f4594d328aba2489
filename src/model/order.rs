//! Orders.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{OrderId, UserId, VoucherId};

/// The life of an order. The numbers are the database's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(i16)]
pub enum OrderStatus {
    /// Placed, not paid.
    Unpaid = 1,
    /// Paid, not used.
    Paid = 2,
    /// Redeemed.
    Used = 3,
    /// Cancelled before payment.
    Cancelled = 4,
    /// A refund was asked for.
    Refunding = 5,
    /// The money went back.
    Refunded = 6,
}

impl OrderStatus {
    /// The status with this number.
    pub const fn from_number(number: i16) -> Option<Self> {
        Some(match number {
            1 => Self::Unpaid,
            2 => Self::Paid,
            3 => Self::Used,
            4 => Self::Cancelled,
            5 => Self::Refunding,
            6 => Self::Refunded,
            _ => return None,
        })
    }
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The order.
    pub id: OrderId,
    /// The buyer.
    pub user_id: UserId,
    /// The voucher.
    pub voucher_id: VoucherId,
    /// Where it stands.
    pub status: OrderStatus,
    /// When it was placed.
    pub created_at: DateTime<Utc>,
    /// When it was paid, if it was.
    pub paid_at: Option<DateTime<Utc>>,
    /// When it was redeemed, if it was.
    pub used_at: Option<DateTime<Utc>>,
    /// When it was refunded, if it was.
    pub refunded_at: Option<DateTime<Utc>>,
}

impl Order {
    /// An order that was just placed.
    pub const fn new(
        id: OrderId,
        user_id: UserId,
        voucher_id: VoucherId,
        created_at: DateTime<Utc>,
    ) -> Self {
        let (status, paid_at, used_at, refunded_at) = (OrderStatus::Unpaid, None, None, None);
        Self { id, user_id, voucher_id, status, created_at, paid_at, used_at, refunded_at }
    }
}
