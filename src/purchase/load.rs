//! How busy a purchase service is.

use std::time::Duration;

/// How busy a purchase service is at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct PurchaseLoad {
    /// Purchases under way, of which there may be `limit`.
    pub in_flight: usize,
    pub limit: usize,
    /// Orders that wait for a transaction.
    pub queue_depth: usize,
    /// Transactions in flight.
    pub batches_in_flight: usize,
    /// The highest `in_flight` and `queue_depth` of the last 15 seconds.
    pub in_flight_peak: usize,
    pub queue_depth_peak: usize,
    /// Since it began to sell.
    pub uptime: Duration,
}
