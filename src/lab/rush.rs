//! The rush: the same crowd on every rung.

use serde::Serialize;

use crate::load::latency::LatencyMs;

/// What came of a rush.
#[derive(Debug, Clone, Serialize)]
pub struct Rush {
    /// The rung.
    pub rung: &'static str,
    /// Orders in the database.
    pub orders: i64,
    /// Vouchers at the beginning.
    pub stock: i64,
    /// Orders beyond the stock.
    pub oversold: i64,
    /// Orders beyond one per user.
    pub duplicates: i64,
    /// Vouchers that stayed unsold, or vanished, though there were buyers for them.
    pub undersold: i64,
    /// Orders acknowledged that the database does not hold.
    pub lost: i64,
    /// Orders a second.
    pub orders_per_s: f64,
    /// Of all answers.
    pub latency_ms: Option<LatencyMs>,
    /// Whether every promise was kept.
    pub holds: bool,
    /// Whether every promise that the rung claims was kept.
    pub as_claimed: bool,
}
