//! What a buyer is told.

use super::{Order, Refusal};

/// The answer to one attempt to buy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The order is committed.
    Ordered(Order),
    /// There will be no order from this attempt.
    Refused(Refusal),
}

impl Outcome {
    /// `ordered`, or the refusal's code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Ordered(_) => "ordered",
            Self::Refused(refusal) => refusal.code.as_str(),
        }
    }
}
