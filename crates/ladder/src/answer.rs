//! What a buyer is told.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// What a buyer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Bought: the order.
    Ordered(i64),
    /// Nothing is left.
    SoldOut,
    /// The user has bought it before.
    AlreadyBought,
    /// Another attempt of the user is under way.
    InProgress,
    /// It will be decided later: the buyer has to ask again.
    Accepted,
    /// It was accepted, and could not be carried out.
    GivenUp,
    /// Not let in: too many requests, or a token that is spent. It says nothing of the stock.
    Refused,
    /// In the draw. Nothing is decided yet.
    Entered,
    /// Nothing is there, and the user stands in line for what comes back.
    InLine,
}

impl Answer {
    /// The code that the API has for it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Ordered(_) => "ordered",
            Self::SoldOut => "sold_out",
            Self::AlreadyBought => "already_bought",
            Self::InProgress => "order_in_progress",
            Self::Accepted => "accepted",
            Self::GivenUp => "order_failed",
            Self::Refused => "refused",
            Self::Entered => "entered",
            Self::InLine => "in_line",
        }
    }
}

impl Display for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.code())
    }
}
