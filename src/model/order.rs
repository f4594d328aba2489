//! Orders.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{OrderId, UserId, VoucherId};

/// The life of an order. The numbers are the database's.
///
/// `unpaid` -> `paid` -> `used`; `unpaid` -> `cancelled`; `paid` -> `refunding` -> `refunded`. If the refund failed after all, the
/// order is `refunding` once more; its voucher is another buyer's then, perhaps ([`REFUNDING_AGAIN`]). An order that
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

/// The number of `refunding` in the database, if the order was refunded before. It is not live.
pub const REFUNDING_AGAIN: i16 = 7;

impl OrderStatus {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// In the database.
    pub fn numbers(self) -> Vec<i16> {
        match self {
            Self::Refunding => vec![self as i16, REFUNDING_AGAIN],
            _ => vec![self as i16],
        }
    }
}

impl TryFrom<i16> for OrderStatus {
    type Error = String;
    fn try_from(number: i16) -> Result<Self, String> {
        let found =
            if number == REFUNDING_AGAIN { Some(Self::Refunding) } else { Self::from_repr(number) };
        found.ok_or_else(|| format!("{number} is no state of an order"))
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

/// An order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OrderBody)]
pub struct Order {
    /// The order.
    #[serde(rename = "order_id")]
    pub id: OrderId,
    /// The voucher.
    pub voucher_id: VoucherId,
    /// The buyer.
    pub user_id: UserId,
    /// When it was placed.
    pub created_at: DateTime<Utc>,
    /// Where the order stands.
    pub status: OrderStatus,
    /// What it costs, in the currency's smallest unit: the price when it was placed.
    pub amount: i64,
    /// An unpaid order is cancelled after this instant. Null: there was nothing to pay.
    #[schema(required = true)]
    pub pay_by: Option<DateTime<Utc>>,
    /// When it was paid.
    #[schema(required = true)]
    pub paid_at: Option<DateTime<Utc>>,
    /// When it was redeemed.
    #[schema(required = true)]
    pub used_at: Option<DateTime<Utc>>,
    /// When it was cancelled.
    #[schema(required = true)]
    pub cancelled_at: Option<DateTime<Utc>>,
    /// When it was refunded. It is `refunding` again if the refund failed after that; then its voucher is on sale again all the
    /// same.
    #[schema(required = true)]
    pub refunded_at: Option<DateTime<Utc>>,
    /// When the gateway took all the money of a used order back. The order stays used. Null again if the charge-back was won.
    #[schema(required = true)]
    pub charged_back_at: Option<DateTime<Utc>>,
    /// What of its money went back. Of a refunded order it is less than `amount` if a charge-back was won: the rest is kept.
    pub returned_amount: i64,
}

/// An order and its buyer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OrderOfBuyerBody)]
pub struct OrderOfBuyer {
    /// The order.
    #[serde(flatten)]
    pub order: Order,
    /// The buyer's phone; null where the user was erased, or there is none.
    #[schema(required = true)]
    pub phone: Option<String>,
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
            returned_amount: 0,
        }
    }
}
