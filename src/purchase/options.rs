//! Settings of the purchase service.

use std::num::NonZeroU32;
use std::time::Duration;

use super::Strategy;
use crate::model::BucketRate;

/// Purchases that may be under way at once in one process.
pub const DEFAULT_BURST: usize = 3_000;

/// How often one buyer may ask the database: more than a person does, on several open pages.
pub const DEFAULT_BUYER_RATE: BucketRate =
    BucketRate::Per(NonZeroU32::new(60).unwrap(), Duration::from_secs(10));

/// Settings of the purchase service.
#[derive(Debug, Clone, Copy)]
pub struct PurchasesOptions {
    /// How to sell.
    pub strategy: Strategy,
    /// The lease of a buyer's lock, renewed while the purchase runs: how long a killed process can
    /// lock its buyers out.
    pub lease: Duration,
    /// Purchases that may be under way at once; one more is refused.
    pub burst: usize,
    /// How often one buyer may ask the database.
    pub buyer_rate: BucketRate,
}

impl Default for PurchasesOptions {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            lease: Duration::from_secs(5),
            burst: DEFAULT_BURST,
            buyer_rate: DEFAULT_BUYER_RATE,
        }
    }
}
