//! The highest value of the last seconds: a gauge that is looked at once a second does not show a rush that is
//! over in half of one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a value is remembered; then it is forgotten within a second.
pub const PEAK_LASTS: Duration = Duration::from_secs(15);

/// One bucket a second: the current second, and those that reach back as far as [`PEAK_LASTS`].
const BUCKETS: usize = PEAK_LASTS.as_secs() as usize + 1;

/// The highest value that was recorded lately, in buckets of one second. Reading changes nothing, so that all
/// readers see the same. To record costs one `fetch_max`.
///
/// Instants are given as the time since the first one, by a clock that never goes backwards.
#[derive(Debug, Default)]
pub struct RecentPeak {
    /// Each holds its second in the upper half and the value in the lower one, so that each value of a later
    /// second is greater than those of the second whose place it takes.
    buckets: [AtomicU64; BUCKETS],
}

impl RecentPeak {
    /// The value was so high at `at`.
    pub fn record(&self, value: usize, at: Duration) {
        let second = at.as_secs();
        let value = u64::from(u32::try_from(value).unwrap_or(u32::MAX));
        let bucket = &self.buckets[(second % BUCKETS as u64) as usize];
        bucket.fetch_max((second << 32) | value, Ordering::Relaxed);
    }

    /// The highest value that is remembered at `now`.
    pub fn highest(&self, now: Duration) -> usize {
        let oldest = now.as_secs().saturating_sub(PEAK_LASTS.as_secs());
        let held = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let values =
            held.filter(|held| held >> 32 >= oldest).map(|held| held & u64::from(u32::MAX));
        values.max().unwrap_or_default() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_value_is_remembered_for_fifteen_seconds_and_forgotten_with_its_second() {
        // Recorded at the beginning and at the end of a second.
        for recorded in [0, 999] {
            let peak = RecentPeak::default();
            peak.record(7, ms(recorded));
            for (now, expected) in [(999, 7), (14_999, 7), (15_000, 7), (15_999, 7), (16_000, 0)] {
                assert_eq!(peak.highest(ms(now)), expected, "of {recorded} ms, at {now} ms");
            }
        }
    }

    #[test]
    fn the_window_slides_and_a_bucket_is_used_again() {
        let peak = RecentPeak::default();
        for (at, value) in [(0, 100), (1_000, 90), (2_000, 80), (3_000, 200), (3_001, 70)] {
            peak.record(value, ms(at));
        }
        assert_eq!(peak.highest(ms(3_001)), 200);
        assert_eq!(peak.highest(ms(18_999)), 200);
        // The bucket is now that of another second, however small its value.
        peak.record(1, ms(19_000));
        assert_eq!(peak.highest(ms(19_000)), 1);
        // What comes a whole round late changes nothing.
        peak.record(500, ms(3_500));
        assert_eq!(peak.highest(ms(19_000)), 1);
    }

    #[test]
    fn reading_resets_nothing_and_the_largest_value_of_a_second_counts() {
        let peak = RecentPeak::default();
        for value in [3, 9, 5] {
            peak.record(value, ms(500));
        }
        for _ in 0..3 {
            assert_eq!(peak.highest(ms(900)), 9);
        }
        peak.record(usize::MAX, ms(900));
        assert_eq!(peak.highest(ms(900)), u32::MAX as usize);
    }
}
