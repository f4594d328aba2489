//! How often each buyer, or each address, may ask: a token bucket for each, in memory.

use std::convert::Infallible;
use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use quick_cache::sync::Cache;

/// The buckets that are kept, in some 10 MB. Beyond it one that was used rarely is forgotten, and full again.
const MAX_BUCKETS: usize = 50_000;

/// How many requests at once, and in which time so many more. As text: `60/10s`, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketRate {
    /// No limit.
    Off,
    /// So many at once, and as many again in this time.
    Per(NonZeroU32, Duration),
}

impl BucketRate {
    /// So many times as much.
    pub const fn times(self, factor: NonZeroU32) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Per(burst, time) => Self::Per(burst.saturating_mul(factor), time),
        }
    }

    fn quota(self) -> Option<Quota> {
        let Self::Per(burst, time) = self else { return None };
        let quota = Quota::with_period(time / burst.get());
        quota.map(|quota| quota.allow_burst(burst))
    }
}

impl FromStr for BucketRate {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let (burst, time) = text.split_once('/').ok_or("write COUNT/TIME, like 60/10s, or off")?;
        let burst = burst.parse().map_err(|_| format!("{burst:?} is not a count above 0"))?;
        let time = humantime::parse_duration(time).map_err(|error| error.to_string())?;
        let rate = Self::Per(burst, time);
        if time > Duration::from_secs(3600) || rate.quota().is_none() {
            return Err(format!("{time:?} is not a time above 0 and up to 1h"));
        }
        Ok(rate)
    }
}

impl Display for BucketRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::Per(burst, time) => {
                write!(formatter, "{burst}/{}", humantime::format_duration(*time))
            }
        }
    }
}

/// A bucket of tokens for each key, by the generic cell rate algorithm of the crate `governor`.
pub struct TokenBuckets<K> {
    rate: BucketRate,
    buckets: Cache<K, Arc<DefaultDirectRateLimiter>>,
    clock: DefaultClock,
}

impl<K: Eq + Hash> Debug for TokenBuckets<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenBuckets").field("rate", &self.rate).finish_non_exhaustive()
    }
}

impl<K: Eq + Hash + Copy> TokenBuckets<K> {
    /// Full buckets, which fill again at `rate`.
    pub fn new(rate: BucketRate) -> Self {
        Self { rate, buckets: Cache::new(MAX_BUCKETS), clock: DefaultClock::default() }
    }

    /// How fast they fill.
    pub const fn rate(&self) -> BucketRate {
        self.rate
    }

    /// Takes a token of `key`.
    ///
    /// # Errors
    /// There is none; the next one comes after this time.
    pub fn take(&self, key: K) -> Result<(), Duration> {
        let Some(quota) = self.rate.quota() else { return Ok(()) };
        let full = || Ok::<_, Infallible>(Arc::new(RateLimiter::direct(quota)));
        let Ok(bucket) = self.buckets.get_or_insert_with(&key, full);
        bucket.check().map_err(|not_until| not_until.wait_time_from(self.clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> BucketRate {
        text.parse().unwrap_or_else(|error| unreachable!("{text}: {error}"))
    }

    #[test]
    fn a_bucket_holds_so_many_and_the_next_key_has_its_own() {
        let buckets = TokenBuckets::new(rate("3/1h"));
        for _ in 0..3 {
            assert_eq!(buckets.take(1), Ok(()));
        }
        let Err(wait) = buckets.take(1) else { unreachable!("the fourth of three") };
        assert!(wait <= Duration::from_secs(1200) && wait > Duration::from_secs(1100), "{wait:?}");
        assert_eq!(buckets.take(2), Ok(()));
    }

    #[test]
    fn a_bucket_fills_again() {
        let buckets = TokenBuckets::new(rate("1/1ms"));
        for _ in 0..5 {
            while let Err(wait) = buckets.take(1) {
                assert!(wait <= Duration::from_millis(1), "{wait:?}");
            }
        }
    }

    #[test]
    fn a_rate_that_is_off_limits_nobody() {
        let buckets = TokenBuckets::new(BucketRate::Off);
        assert!((0..10_000).all(|_| buckets.take(1).is_ok()));
    }

    #[test]
    fn memory_is_bounded_and_a_loud_key_is_not_forgotten_for_quiet_ones() {
        let buckets = TokenBuckets::new(rate("10/1h"));
        while buckets.take(0).is_ok() {}
        for key in 1..=2 * MAX_BUCKETS as u64 {
            assert_eq!(buckets.take(key), Ok(()));
            assert!(buckets.take(0).is_err(), "forgotten at {key}");
        }
        assert!(buckets.buckets.len() <= MAX_BUCKETS);
    }

    #[test]
    fn a_rate_is_written_as_it_is_read_and_nonsense_is_refused() {
        for text in ["60/10s", "1/1h", "off"] {
            assert_eq!(rate(text).to_string(), text);
        }
        for text in [
            "",
            "60",
            "0/1s",
            "-1/1s",
            "1/0s",
            "1/1h 1s",
            "x/1s",
            "1/x",
            "4294967296/1s",
            "4294967295/1ns",
        ] {
            assert!(text.parse::<BucketRate>().is_err(), "{text}");
        }
    }
}
