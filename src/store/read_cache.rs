//! Answers of a store, kept for less than a second: one read serves all requests of that time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use quick_cache::sync::Cache;
use tokio::time::Instant;

use super::time_limits::FRESH_FOR;
use super::{Service, StoreError};
use group_commit::{Batcher, Limits};

/// An answer, and when it was asked for.
type Kept<V> = (V, Instant);

/// Remembers answers by their keys.
#[derive(Debug)]
pub struct ReadCache<K, V> {
    service: Service,
    kept: Arc<Cache<K, Kept<V>>>,
    reads: Batcher<K, Result<V, StoreError>, StoreError>,
}

impl<K, V> ReadCache<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Keeps up to `entries` answers of `read`, which asks `service`. One read is under way at a time,
    /// and up to `waiting` requests wait for theirs.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new<R, F>(service: Service, entries: usize, waiting: usize, read: R) -> Self
    where
        R: Fn(K) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<V, StoreError>> + Send + 'static,
    {
        let kept: Arc<Cache<K, Kept<V>>> = Arc::new(Cache::new(entries));
        let cache = Arc::clone(&kept);
        let limits = Limits::batches_of(64).waiting(waiting);
        let reads = Batcher::new(limits, move |keys: Vec<K>| {
            let (cache, read) = (Arc::clone(&cache), read.clone());
            async move { Ok(read_each(&cache, &read, keys).await) }
        });
        Self { service, kept, reads }
    }

    /// The answer for `key`, less than a second old.
    pub async fn get(&self, key: K) -> Result<V, StoreError> {
        if let Some(value) = fresh(&self.kept, &key) {
            return Ok(value);
        }
        StoreError::of_read(self.service, self.reads.submit(key).await)
    }
}

/// The answers for `keys`, in their order, each read once, however long it takes.
async fn read_each<K, V, R, F>(
    cache: &Cache<K, Kept<V>>,
    read: &R,
    keys: Vec<K>,
) -> Vec<Result<V, StoreError>>
where
    K: Hash + Eq + Clone,
    V: Clone,
    R: Fn(K) -> F,
    F: Future<Output = Result<V, StoreError>>,
{
    let mut values: HashMap<K, Result<V, StoreError>> = HashMap::new();
    let begun = Instant::now();
    let mut broken_off = None;
    for key in &keys {
        if values.contains_key(key) {
            continue;
        }
        let value = match (fresh(cache, key), &broken_off) {
            (Some(value), _) => Ok(value),
            (None, Some(error)) => Err(StoreError::skipped_after(error)),
            (None, None) => {
                let asked_at = Instant::now();
                let value = read(key.clone()).await;
                match &value {
                    Ok(value) => cache.insert(key.clone(), (value.clone(), asked_at)),
                    // What is held, or on a worker that is away, is missing to those who asked for it. But each takes its
                    // time, in which the others wait.
                    Err(error) if error.is_about_this_request() && begun.elapsed() <= FRESH_FOR => {
                    }
                    Err(error) => broken_off = Some(error.clone()),
                }
                value
            }
        };
        values.insert(key.clone(), value);
    }
    keys.iter().filter_map(|key| values.get(key).cloned()).collect()
}

fn fresh<K: Hash + Eq, V: Clone>(cache: &Cache<K, Kept<V>>, key: &K) -> Option<V> {
    let (value, asked_at) = cache.get(key)?;
    (asked_at.elapsed() <= FRESH_FOR).then_some(value)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;

    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_read_serves_all_who_ask_within_a_second_and_no_longer() {
        let reads = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&reads);
        let cache = ReadCache::new(Service::Postgres, 10, 10, move |key: u32| {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                if key == 13 {
                    Err(StoreError::unknown(Service::Postgres, "13"))
                } else {
                    Ok(number)
                }
            }
        });
        for expected in 0..2 {
            let answers = join_all((0..10).map(|_| cache.get(7))).await;
            assert!(
                answers.iter().all(|answer| matches!(answer, Ok(number) if *number == expected))
            );
            tokio::time::advance(FRESH_FOR).await;
            assert!(matches!(cache.get(7).await, Ok(number) if number == expected));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        // A failed read is not kept, and nothing about it is unknown.
        for _ in 0..2 {
            assert!(cache.get(13).await.is_err_and(|error| !error.outcome_unknown()));
        }
        assert_eq!(reads.load(Ordering::SeqCst), 4);
        // Those who wait behind it are not asked for, and what was read before it is kept. The first is asked for by itself.
        let batch = join_all([1, 2, 13, 3].map(|key| cache.get(key))).await;
        assert_eq!(batch.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, false]);
        assert_eq!(reads.load(Ordering::SeqCst), 7);
    }
}
