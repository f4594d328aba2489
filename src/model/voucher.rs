//! Vouchers and their sale.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use super::schemas::Title;
use super::{HeldFor, VoucherId};

/// Where a sale stands at one instant.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SaleStatus {
    /// Before `begin_time`.
    Upcoming,
    /// Between `begin_time` and `end_time`, with stock left.
    OnSale,
    /// Between `begin_time` and `end_time`, stopped by an administrator for a while.
    Paused,
    /// Between `begin_time` and `end_time`: buyers enter a draw, or it is to come.
    DrawOpen,
    /// Between `begin_time` and `end_time`: what comes back is for those who stand in line.
    LineOpen,
    /// Between `begin_time` and `end_time`, nothing left.
    SoldOut,
    /// At or after `end_time`.
    Ended,
}

impl SaleStatus {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A voucher with its sale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Voucher {
    /// The voucher.
    pub id: VoucherId,
    /// The name of the voucher.
    #[schema(value_type = Title)]
    pub title: String,
    /// A second line; may be empty.
    pub subtitle: String,
    /// The conditions; may be empty.
    pub terms: String,
    /// What the voucher is worth, in the currency's smallest unit; null where it is not said.
    #[schema(required = true)]
    pub value: Option<i64>,
    /// What it costs, in the currency's smallest unit; 0: nothing.
    #[schema(minimum = 0)]
    pub price: i64,
    /// An order that is not paid after so many seconds is cancelled.
    #[schema(minimum = 1)]
    pub pay_within_s: i32,
    /// Vouchers left.
    #[schema(minimum = 0)]
    pub stock: i32,
    /// Vouchers at the beginning.
    #[schema(minimum = 0)]
    pub initial_stock: i32,
    /// First instant of the sale.
    pub begin_time: DateTime<Utc>,
    /// First instant after the sale.
    pub end_time: DateTime<Utc>,
    /// Whether an administrator has stopped the sale for a while.
    #[serde(skip)]
    pub paused: bool,
    /// The people who may have what there is.
    #[serde(skip)]
    pub held_for: HeldFor,
    /// Whether buyers may stand in line once it is sold out.
    #[serde(rename = "line")]
    pub has_line: bool,
    /// When the entries of its draw close; null where whoever comes first is served first.
    #[schema(required = true)]
    pub draw_time: Option<DateTime<Utc>>,
    /// The source of a public number that goes into its draw, and when it publishes it; empty: there is none.
    pub draw_beacon: String,
    /// How many may enter its draw or stand in line, those who left included.
    #[schema(minimum = 1)]
    pub max_entries: i32,
    /// When offers to its line are made: `HH:MM-HH:MM±HH:MM`; empty: at any time.
    pub offer_between: String,
    /// Moves with every change that is not a plain sale. What is remembered of a sale is true of one
    /// revision only.
    #[serde(skip)]
    pub revision: i64,
}

impl Voucher {
    /// Where the sale stands at `now`. The beginning belongs to the sale, the end does not.
    pub fn status_at(&self, now: DateTime<Utc>) -> SaleStatus {
        if now < self.begin_time {
            SaleStatus::Upcoming
        } else if now >= self.end_time {
            SaleStatus::Ended
        } else if self.paused {
            SaleStatus::Paused
        } else if self.held_for == HeldFor::Draw {
            SaleStatus::DrawOpen
        } else if self.held_for == HeldFor::Line {
            SaleStatus::LineOpen
        } else if self.stock <= 0 {
            SaleStatus::SoldOut
        } else {
            SaleStatus::OnSale
        }
    }
}

#[cfg(test)]
impl Voucher {
    /// One that is free and on sale for ever.
    pub(crate) fn example() -> Self {
        Self {
            id: VoucherId::new(1).unwrap_or_else(|| unreachable!("it is positive")),
            title: String::new(),
            subtitle: String::new(),
            terms: String::new(),
            value: None,
            price: 0,
            pay_within_s: 900,
            stock: 1,
            initial_stock: 1,
            begin_time: DateTime::<Utc>::MIN_UTC,
            end_time: DateTime::<Utc>::MAX_UTC,
            paused: false,
            held_for: HeldFor::Anybody,
            has_line: false,
            draw_time: None,
            draw_beacon: String::new(),
            max_entries: super::voucher_terms::MAX_ENTRIES,
            offer_between: String::new(),
            revision: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_belongs_to_the_sale_and_the_end_does_not() {
        let instant = |second| DateTime::from_timestamp(second, 0).unwrap_or_default();
        let mut voucher =
            Voucher { begin_time: instant(10), end_time: instant(20), ..Voucher::example() };
        let statuses = [9, 10, 19, 20].map(|second| voucher.status_at(instant(second)));
        use SaleStatus::{DrawOpen, Ended, LineOpen, OnSale, Paused, SoldOut, Upcoming};
        assert_eq!(statuses, [Upcoming, OnSale, OnSale, Ended]);
        voucher.stock = 0;
        let statuses = [9, 10, 20].map(|second| voucher.status_at(instant(second)));
        assert_eq!(statuses, [Upcoming, SoldOut, Ended]);
        for (held_for, status) in [(HeldFor::Draw, DrawOpen), (HeldFor::Line, LineOpen)] {
            voucher.held_for = held_for;
            let statuses = [9, 10, 20].map(|second| voucher.status_at(instant(second)));
            assert_eq!(statuses, [Upcoming, status, Ended]);
        }
        voucher.paused = true;
        let statuses = [9, 10, 20].map(|second| voucher.status_at(instant(second)));
        assert_eq!(statuses, [Upcoming, Paused, Ended]);
    }
}
