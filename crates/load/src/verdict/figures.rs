//! A verdict as figures, which programs read: all that a crowd has come to, in one form.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::books::Books;
use super::finding::{Finding, Verdict};
use crate::crowd::CrowdReport;
use crate::latency::LatencyMs;
use crate::told::Outcomes;

/// What was counted against the promises: all 0, where they were kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Orders beyond the stock.
    pub oversold: i64,
    /// Orders beyond one per user.
    pub duplicates: i64,
    /// Vouchers that vanished, or stayed unsold though buyers went away without one.
    pub undersold: i64,
    /// Orders acknowledged, or promised, that are not there.
    pub lost: i64,
    /// Orders that no buyer was told of, beyond the attempts that may have made them unheard.
    #[serde(default)]
    pub untold: i64,
    /// Attempts answered with something no buyer should hear, or not at all.
    pub unexpected: u64,
}

/// Of several sales together.
impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.oversold += other.oversold;
        self.duplicates += other.duplicates;
        self.undersold += other.undersold;
        self.lost += other.lost;
        self.untold += other.untold;
        self.unexpected += other.unexpected;
    }
}

impl Verdict {
    /// The same as figures.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for finding in &self.findings {
            match finding {
                Finding::Oversold(beyond, _) | Finding::OversoldMeanwhile(beyond) => {
                    counts.oversold = counts.oversold.max(*beyond);
                }
                Finding::Duplicates { beyond, .. } => counts.duplicates += beyond,
                Finding::Undersold(left, _) | Finding::Withheld(left) => counts.undersold += left,
                Finding::Lost { orders, .. } => counts.lost += orders,
                Finding::Untold(orders) => counts.untold += orders,
                Finding::Unexpected { outcomes, .. } => {
                    counts.unexpected += outcomes.values().sum::<u64>();
                }
                // The figures of payments are not the judge's.
                _ => {}
            }
        }
        counts
    }
}

/// What there was and what was found, of one sale or of several together.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Vouchers as they were put on sale.
    pub stock: i64,
    /// Buyers.
    pub users: i64,
    /// Orders in the books.
    pub orders: i64,
    /// Stock left in the books.
    pub remaining: i64,
    /// What was found.
    #[serde(flatten)]
    pub found: Counts,
}

impl Figures {
    /// Of a sale that so many `users` came to.
    #[must_use]
    pub fn new(users: i64, books: &Books, verdict: &Verdict) -> Self {
        let Books { initial_stock: stock, stock: remaining, orders, .. } = *books;
        Self { stock, users, orders, remaining, found: verdict.counts() }
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.stock += other.stock;
        self.users += other.users;
        self.orders += other.orders;
        self.remaining += other.remaining;
        self.found += other.found;
    }
}

/// What came of a crowd.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CrowdVerdict {
    /// Of all sales that it came to.
    #[serde(flatten)]
    pub figures: Figures,
    /// Attempts by what they were told.
    pub outcomes: Outcomes,
    /// From the first attempt to the last answer.
    pub elapsed_ms: f64,
    /// Orders a second.
    pub orders_per_s: f64,
    /// Answers of any kind a second.
    pub answers_per_s: f64,
    /// Of all answers.
    pub latency_ms: Option<LatencyMs>,
    /// Whether every promise was kept, and what came of every attempt is known.
    pub holds: bool,
}

impl CrowdVerdict {
    /// Of the crowd with this report.
    #[must_use]
    pub fn new(figures: Figures, crowd: &CrowdReport, holds: bool) -> Self {
        Self {
            figures,
            outcomes: crowd.told().outcomes,
            elapsed_ms: crowd.elapsed_ms,
            orders_per_s: crowd.orders_per_s(figures.orders),
            answers_per_s: crowd.answers_per_s,
            latency_ms: crowd.latency_ms,
            holds,
        }
    }
}
