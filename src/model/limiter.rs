//! Limits within one process: how many may be under way at once, all together and of one key, and how often one key may
//! begin.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use quick_cache::sync::Cache;

/// The buckets that are kept, in some 10 MB. Beyond it one that was used rarely is forgotten, and full again.
const MAX_BUCKETS: usize = 50_000;
/// When a key may try again that has its share.
const RETRY_SHARE: Duration = Duration::from_secs(1);

/// How many a [`Limiter`] allows under way at once. `None`: any number, and nobody counts.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// All together.
    pub together: Option<usize>,
    /// Of one key.
    pub share: Option<usize>,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self { together: None, share: None };
}

/// Keeps to a [`Limit`].
#[derive(Debug)]
pub struct Limiter<K: Eq + Hash> {
    limit: Limit,
    together: Shares<()>,
    shares: Shares<K>,
}

/// Something that is under way, until this is dropped.
pub type Permit<K> = (Option<Share<()>>, Option<Share<K>>);

/// Why nothing more may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// As many as may be are under way, all together.
    Together,
    /// The key has its share, or comes too often. It may try again after this time.
    Key(Duration),
}

impl<K: Eq + Hash + Debug + Copy> Limiter<K> {
    /// Nothing is under way yet.
    pub fn new(limit: Limit) -> Self {
        Self { limit, together: Shares::default(), shares: Shares::default() }
    }

    /// Begins something of `key`; without a key it counts in all together alone.
    pub fn take(&self, key: Option<K>) -> Result<Permit<K>, Full> {
        self.take_at_rate(key, || Ok(()))
    }

    /// The same, if `rate` gives the key a token, too; its error is how long to wait for one. A share comes back and a token
    /// does not: so the share comes before the token. The limit of all together comes last: so a loud key takes nothing from
    /// the others.
    pub fn take_at_rate(
        &self,
        key: Option<K>,
        rate: impl FnOnce() -> Result<(), Duration>,
    ) -> Result<Permit<K>, Full> {
        let share = match (key, self.limit.share) {
            (Some(key), Some(count)) => {
                Some(self.shares.take(key, count).ok_or(Full::Key(RETRY_SHARE))?)
            }
            _ => None,
        };
        rate().map_err(Full::Key)?;
        let of_all = |count| self.together.take((), count).ok_or(Full::Together);
        Ok((self.limit.together.map(of_all).transpose()?, share))
    }
}

/// Counts by key, and something that all who have a share of a key use together. Cheap to clone.
#[derive(Debug)]
pub struct Shares<K, V = ()>(Arc<Mutex<HashMap<K, (usize, V)>>>);

/// One of what is counted, until this is dropped.
#[derive(Debug)]
pub struct Share<K: Eq + Hash + Debug, V = ()> {
    key: K,
    all: Shares<K, V>,
    /// What the others who have a share of the key use, too.
    pub common: V,
}

impl<K, V> Default for Shares<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, V> Clone for Shares<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash + Debug + Copy, V: Clone + Default> Shares<K, V> {
    /// `None`: `key` has `limit` of them already.
    pub fn take(&self, key: K, limit: usize) -> Option<Share<K, V>> {
        let mut counts = self.counts();
        if counts.get(&key).map_or(0, |(count, _)| *count) >= limit {
            return None;
        }
        let (count, common) = counts.entry(key).or_default();
        *count += 1;
        Some(Share { key, all: self.clone(), common: common.clone() })
    }
}

impl<K, V> Shares<K, V> {
    fn counts(&self) -> MutexGuard<'_, HashMap<K, (usize, V)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys of which somebody has a share.
    #[cfg(test)]
    pub fn keys(&self) -> usize {
        self.counts().len()
    }
}

impl<K: Eq + Hash + Debug, V> Drop for Share<K, V> {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        let Some((count, _)) = counts.get_mut(&self.key) else {
            unreachable!("what {:?} has is not counted", self.key)
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.key);
        }
    }
}

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

    /// As many in so many times the time.
    pub const fn slower(self, factor: u32) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Per(burst, time) => Self::Per(burst, time.saturating_mul(factor)),
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
#[derive(Debug)]
pub struct TokenBuckets<K> {
    rate: BucketRate,
    buckets: Cache<K, Arc<DefaultDirectRateLimiter>>,
    clock: DefaultClock,
}

impl<K: Eq + Hash + Copy> TokenBuckets<K> {
    /// Full buckets, which fill again at `rate`.
    pub fn new(rate: BucketRate) -> Self {
        Self { rate, buckets: Cache::new(MAX_BUCKETS), clock: DefaultClock::default() }
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

    #[test]
    fn a_key_takes_its_share_and_not_what_is_there_for_all_together() {
        let limiter = Limiter::new(Limit { together: Some(3), share: Some(2) });
        let held = [limiter.take(Some(1)), limiter.take(Some(1))];
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(limiter.take(Some(1)).err(), Some(Full::Key(RETRY_SHARE)));
        let last = limiter.take(Some(2));
        assert!(last.is_ok());
        for key in [None, Some(2), Some(3)] {
            assert_eq!(limiter.take(key).err(), Some(Full::Together));
        }
        // A client that is not counted may take all that is left.
        drop((held, last));
        let held: Vec<_> = (0..3).map(|_| limiter.take(None)).collect();
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(limiter.take(Some(1)).err(), Some(Full::Together));
    }

    #[test]
    fn a_full_share_costs_no_token_and_a_missing_token_costs_no_share() {
        let limiter = Limiter::new(Limit { together: Some(2), share: Some(1) });
        let _held = limiter.take(Some(1));
        let paid = limiter.take_at_rate(Some(1), || unreachable!("the share is full"));
        assert_eq!(paid.err(), Some(Full::Key(RETRY_SHARE)));
        let wait = Duration::from_secs(9);
        assert_eq!(limiter.take_at_rate(Some(2), || Err(wait)).err(), Some(Full::Key(wait)));
        assert!(limiter.take(Some(2)).is_ok());
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let limiter = Limiter::new(Limit::NONE);
        assert!(limiter.take(Some(1)).is_ok_and(|permit| permit.0.is_none() && permit.1.is_none()));
    }

    #[test]
    fn a_key_has_so_many_and_another_as_many() {
        let shares = Shares::<_>::default();
        let held = [shares.take(1, 2), shares.take(1, 2)];
        assert!(held.iter().all(Option::is_some) && shares.take(1, 2).is_none());
        assert!(shares.take(2, 2).is_some());
        let [first, second] = held;
        drop(first);
        assert!(shares.take(1, 2).is_some());
        drop(second);
        assert!(shares.counts().is_empty());
    }

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
