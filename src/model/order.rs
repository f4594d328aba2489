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

/// No status has this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no order has the status {0}")]
pub struct InvalidStatus(i16);

impl TryFrom<i16> for OrderStatus {
    type Error = InvalidStatus;
    fn try_from(number: i16) -> Result<Self, InvalidStatus> {
        Ok(match number {
            1 => Self::Unpaid,
            2 => Self::Paid,
            3 => Self::Used,
            4 => Self::Cancelled,
            5 => Self::Refunding,
            6 => Self::Refunded,
            _ => return Err(InvalidStatus(number)),
        })
    }
}

/// An order. Each instant is there once the order has taken that step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Order {
    pub id: OrderId,
    pub user_id: UserId,
    pub voucher_id: VoucherId,
    pub status: OrderStatus,
    pub created_at: DateTime<Utc>,
    pub paid_at: Option<DateTime<Utc>>,
    pub used_at: Option<DateTime<Utc>>,
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
        Self {
            id,
            user_id,
            voucher_id,
            status: OrderStatus::Unpaid,
            created_at,
            paid_at: None,
            used_at: None,
            refunded_at: None,
        }
    }
}
