//! What a buyer is told. A refusal is an expected answer, not an error.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Order, OrderId};

/// The answer to one attempt to buy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The order is committed.
    Ordered(Order),
    /// There will be no order from this attempt.
    Refused(Refusal),
}

/// Why there is no order.
#[derive(Debug, Clone, PartialEq, Eq, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)] // the names say it
pub enum Refusal {
    VoucherNotFound,
    SaleNotStarted {
        begin_time: DateTime<Utc>,
    },
    SaleEnded,
    SalePaused,
    SoldOut,
    /// Buyers enter a draw instead, or it is to come.
    DrawOpen,
    /// Buyers stand in line instead.
    LineOpen,
    /// The buyer has this live order of the voucher.
    AlreadyBought {
        order_id: OrderId,
    },
    /// Another attempt of the same buyer is under way.
    OrderInProgress,
    /// The buyer asks too often, or buys again too soon after a cancellation, and may again after this time.
    TooManyRequests {
        wait: Duration,
    },
}

impl Refusal {
    /// The stable code of the answer; part of the public interface.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::VoucherNotFound => "voucher_not_found",
            Self::SaleNotStarted { .. } => "sale_not_started",
            Self::SaleEnded => "sale_ended",
            Self::SalePaused => "sale_paused",
            Self::SoldOut => "sold_out",
            Self::DrawOpen => "draw_open",
            Self::LineOpen => "line_open",
            Self::AlreadyBought { .. } => "already_bought",
            Self::OrderInProgress => "order_in_progress",
            Self::TooManyRequests { .. } => "too_many_requests",
        }
    }
}

impl Outcome {
    /// `ordered`, or the refusal's code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Ordered(_) => "ordered",
            Self::Refused(refusal) => refusal.code(),
        }
    }
}
