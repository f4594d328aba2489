//! Latencies: an HDR histogram (Gil Tene, <https://hdrhistogram.org>) in microseconds, and the four
//! figures that are read from it.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies above this are recorded as this, in microseconds: one hour.
const MAX_LATENCY_US: u64 = 3_600_000_000;

/// Significant decimal digits of the histogram: an error of at most 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram of latencies. Its memory does not grow with their number.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // The library refuses bounds out of order and more than 5 digits. Both are constants.
        #[expect(clippy::expect_used, reason = "constant arguments, executed by every test")]
        let histogram = Histogram::new_with_bounds(1, MAX_LATENCY_US, SIGNIFICANT_DIGITS)
            .expect("constant bounds are in order");
        Self(histogram)
    }
}

impl Latencies {
    /// Records one latency, to the microsecond, at most one hour.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    /// The summary, or `None` when nothing was recorded: a percentile of nothing is
    /// not zero.
    #[must_use]
    pub fn summary(&self) -> Option<LatencyMs> {
        let at = |quantile| milliseconds(self.0.value_at_quantile(quantile));
        (!self.0.is_empty()).then(|| LatencyMs {
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            max: milliseconds(self.0.max()),
        })
    }
}

/// Percentiles of a latency, in milliseconds with three decimals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LatencyMs {
    /// Half of the latencies are at most this, in milliseconds.
    pub p50: f64,
    /// 95 % of the latencies are at most this, in milliseconds.
    pub p95: f64,
    /// 99 % of the latencies are at most this, in milliseconds.
    pub p99: f64,
    /// The largest latency, in milliseconds.
    pub max: f64,
}

/// Microseconds as milliseconds. The division is what rounds to three decimals.
fn milliseconds(latency_us: u64) -> f64 {
    latency_us as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(latencies: impl IntoIterator<Item = Duration>) -> Option<LatencyMs> {
        let mut recorded = Latencies::default();
        latencies.into_iter().for_each(|latency| recorded.record(latency));
        recorded.summary()
    }

    #[test]
    fn percentiles_are_exact_and_one_slow_answer_in_a_hundred_shows_in_the_maximum_alone() {
        let expected = LatencyMs { p50: 0.5, p95: 0.95, p99: 0.99, max: 1.0 };
        assert_eq!(summary((1..=1_000).map(Duration::from_micros)), Some(expected));
        let slow = [vec![Duration::from_millis(1); 99], vec![Duration::from_secs(2)]].concat();
        let is_as_expected =
            |of: LatencyMs| (of.p50, of.p99) == (1.0, 1.0) && (of.max - 2_000.0).abs() <= 2.0;
        assert!(summary(slow.clone()).is_some_and(is_as_expected), "{:?}", summary(slow));
    }

    #[test]
    fn nothing_recorded_has_no_percentiles_and_a_latency_beyond_the_histogram_its_upper_bound() {
        assert_eq!(summary([]), None);
        assert!(summary([Duration::MAX]).is_some_and(|summary| summary.max >= 3_600_000.0));
    }
}
