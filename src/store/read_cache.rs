//! Answers of a store, kept for less than a second: one read serves all requests of that time.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::{Duration, Instant};

use super::time_limits::FRESH_FOR;
use super::{Service, StoreError};
use group_commit::{Batcher, Limits};

/// What a read found: of each key that there is, its value or why it could not be read.
pub type Found<K, V> = Vec<(K, Result<V, StoreError>)>;

/// An answer, and when it was asked for: just before, so that its age is never underestimated.
#[derive(Debug, Clone)]
struct Kept<V> {
    value: V,
    /// `None`: it has changed since.
    read_at: Option<Instant>,
    /// When it was known to have changed.
    changed_at: Option<Instant>,
}

impl<V> Kept<V> {
    fn is_fresh(&self) -> bool {
        self.read_at.is_some_and(|read_at| read_at.elapsed() <= FRESH_FOR)
    }
}

/// How much of the room of a memory an answer takes; at least 1.
#[derive(Debug, Clone)]
struct Weight<V>(fn(&V) -> u64);

impl<K, V> Weighter<K, Kept<V>> for Weight<V> {
    fn weight(&self, _: &K, kept: &Kept<V>) -> u64 {
        (self.0)(&kept.value)
    }
}

/// The answers that are kept, fresh ones and old ones.
#[derive(Debug)]
pub struct Memory<K, V>(Cache<K, Kept<V>, Weight<V>>);

impl<K: Hash + Eq, V: Clone> Memory<K, V> {
    /// With room for so many answers.
    fn of(entries: usize) -> Self {
        Self(Cache::with_weighter(entries, entries as u64, Weight(|_| 1)))
    }

    /// With so much room, for few answers that take much of it. For many the cache would have parts, each with a part of the room.
    fn of_large(room: u64, weight: fn(&V) -> u64) -> Self {
        Self(Cache::with_weighter(32, room, Weight(weight)))
    }

    /// The answer for `key`, however old.
    pub fn get(&self, key: &K) -> Option<V> {
        self.0.get(key).map(|kept| kept.value)
    }

    /// Keeps an answer that was asked for at `read_at`. What was read before a change is of no use after it.
    pub fn keep(&self, key: K, value: V, read_at: Instant) {
        let changed_at = self.0.get(&key).and_then(|earlier| earlier.changed_at);
        let read_at = Some(read_at).filter(|_| changed_at <= Some(read_at));
        self.0.insert(key, Kept { value, read_at, changed_at });
    }
}

type Reads<K, V> = Batcher<K, Result<Option<V>, StoreError>, StoreError>;

/// Remembers answers by their keys.
#[derive(Debug)]
pub struct ReadCache<K, V> {
    service: Service,
    memory: Arc<Memory<K, V>>,
    /// The reads of keys that memory has.
    refreshes: Reads<K, V>,
    /// The reads of keys that it does not have.
    lookups: Reads<K, V>,
    /// The one request that waits for a fresh answer has it: [`ReadCache::get_or_recent`].
    asks: Semaphore,
}

impl<K, V> ReadCache<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Keeps up to `entries` answers of `read`, which asks `service` and is given the answer of before, however old. One read
    /// is under way at a time, and up to `waiting` requests wait for theirs.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new<R, F>(service: Service, entries: usize, waiting: usize, read: R) -> Self
    where
        R: Fn(K, Option<V>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<V, StoreError>> + Send + 'static,
    {
        Self::over(Memory::of(entries), service, waiting, read)
    }

    /// The same of answers that together weigh at most `room`. One that is heavier is read for each who asks.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn of_large<R, F>(
        service: Service,
        (room, weight): (u64, fn(&V) -> u64),
        waiting: usize,
        read: R,
    ) -> Self
    where
        R: Fn(K, Option<V>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<V, StoreError>> + Send + 'static,
    {
        Self::over(Memory::of_large(room, weight), service, waiting, read)
    }

    fn over<R, F>(memory: Memory<K, V>, service: Service, waiting: usize, read: R) -> Self
    where
        R: Fn(K, Option<V>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<V, StoreError>> + Send + 'static,
    {
        let memory = Arc::new(memory);
        // All who wait share the next read of their key, however long the one before took.
        let limits = Limits::batches_of(waiting).waiting(waiting);
        let reads = reads(limits, &memory, move |memory, keys| {
            let read = read.clone();
            async move { Ok(read_one_by_one(&memory, &read, keys).await) }
        });
        Self { service, memory, refreshes: reads.clone(), lookups: reads, asks: Semaphore::new(1) }
    }

    /// Keeps up to `entries` answers of `read`, which reads many keys at once and keeps what it finds. Keys that memory does
    /// not have may be made up: their look-ups wait for one another alone. What there is not is not kept.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn of_many<R, F>(
        service: Service,
        entries: usize,
        [refreshes, lookups]: [Limits; 2],
        read: R,
    ) -> Self
    where
        R: Fn(Arc<Memory<K, V>>, Vec<K>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Found<K, V>, StoreError>> + Send + 'static,
    {
        let memory = Arc::new(Memory::of(entries));
        let refreshes = reads(refreshes, &memory, read.clone());
        let lookups = reads(lookups, &memory, read);
        Self { service, memory, refreshes, lookups, asks: Semaphore::new(1) }
    }

    /// The answer for `key`, less than a second old; `None`: there is none. Requests that miss together read together.
    ///
    /// # Errors
    /// When the store does not answer, or too many wait for it.
    pub async fn find(&self, key: K) -> Result<Option<V>, StoreError> {
        let reads = match self.memory.0.get(&key) {
            Some(kept) if kept.is_fresh() => return Ok(Some(kept.value)),
            Some(_) => &self.refreshes,
            None => &self.lookups,
        };
        StoreError::of_read(self.service, reads.submit(key).await)
    }

    /// The same where each key has an answer.
    ///
    /// # Errors
    /// As those of [`ReadCache::find`].
    pub async fn get(&self, key: K) -> Result<V, StoreError> {
        let found = self.find(key).await?;
        Ok(found.unwrap_or_else(|| unreachable!("a read of one key returns its value")))
    }

    /// The answer for `key`. While another request waits for one, it is that of before, if that is at most `age` old: a read that takes
    /// long holds up one request, and not all who ask meanwhile.
    ///
    /// # Errors
    /// As those of [`ReadCache::find`].
    pub async fn get_or_recent(&self, key: K, age: Duration) -> Result<V, StoreError> {
        // Held until the answer is there.
        let asks = self.asks.try_acquire();
        let is_recent =
            |kept: &Kept<V>| kept.read_at.is_some_and(|read_at| read_at.elapsed() <= age);
        if asks.is_err()
            && let Some(recent) = self.memory.0.get(&key).filter(is_recent)
        {
            return Ok(recent.value);
        }
        self.get(key).await
    }

    /// The answer for `key`, however old, if there is one.
    pub fn last(&self, key: &K) -> Option<V> {
        self.memory.get(key)
    }

    /// Whether there is an answer for `key`, old or new.
    pub fn remembers(&self, key: &K) -> bool {
        self.last(key).is_some()
    }

    /// What `key` stands for was changed: it is read anew. The old answer stays until then.
    pub fn forget(&self, key: K) {
        if let Some(Kept { value, .. }) = self.memory.0.get(&key) {
            let changed_at = Some(Instant::now());
            self.memory.0.insert(key, Kept { value, read_at: None, changed_at });
        }
    }
}

/// Batches of keys. The answers come from memory if another batch has just read them, else from `read`.
fn reads<K, V, R, F>(limits: Limits, memory: &Arc<Memory<K, V>>, read: R) -> Reads<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    R: Fn(Arc<Memory<K, V>>, Vec<K>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Found<K, V>, StoreError>> + Send + 'static,
{
    let memory = Arc::clone(memory);
    Batcher::new(limits, move |keys: Vec<K>| {
        let (memory, read) = (Arc::clone(&memory), read.clone());
        async move {
            let (mut answers, mut missing) = (HashMap::new(), Vec::new());
            let mut seen = HashSet::new();
            for key in keys.iter().filter(|key| seen.insert(*key)) {
                match memory.0.get(key).filter(Kept::is_fresh) {
                    Some(kept) => _ = answers.insert(key.clone(), Ok(Some(kept.value))),
                    None => missing.push(key.clone()),
                }
            }
            if !missing.is_empty() {
                let found = read(memory, missing).await?;
                answers.extend(found.into_iter().map(|(key, value)| (key, value.map(Some))));
            }
            Ok(keys.iter().map(|key| answers.get(key).cloned().unwrap_or(Ok(None))).collect())
        }
    })
}

/// The answers for `keys`, each read by itself, however long it takes.
async fn read_one_by_one<K, V, R, F>(memory: &Memory<K, V>, read: &R, keys: Vec<K>) -> Found<K, V>
where
    K: Hash + Eq + Clone,
    V: Clone,
    R: Fn(K, Option<V>) -> F,
    F: Future<Output = Result<V, StoreError>>,
{
    let mut found = Vec::with_capacity(keys.len());
    let begun = Instant::now();
    let mut broken_off = None;
    for key in keys {
        if let Some(error) = &broken_off {
            found.push((key, Err(StoreError::skipped_after(error))));
            continue;
        }
        let read_at = Instant::now();
        let value = read(key.clone(), memory.get(&key)).await;
        match &value {
            Ok(value) => memory.keep(key.clone(), value.clone(), read_at),
            // What is held, or on a worker that is away, is missing to those who asked for it. But each takes its
            // time, in which the others wait.
            Err(error) if error.is_about_this_request() && begun.elapsed() <= FRESH_FOR => {}
            // A defect is of this key alone, however late it comes.
            Err(error) if !error.retry_may_help() => {}
            Err(error) => broken_off = Some(error.clone()),
        }
        found.push((key, value));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_read_serves_all_who_ask_within_a_second_and_no_longer() {
        let reads = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&reads);
        let cache = ReadCache::new(Service::Postgres, 10, 10, move |key: u32, _| {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match key {
                    13 => Err(StoreError::unknown(Service::Postgres, "13")),
                    14 => Err(StoreError::defect(Service::Postgres, "14")),
                    _ => Ok(number),
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
        // A defect concerns its own key.
        let batch = join_all([4, 5, 14, 6].map(|key| cache.get(key))).await;
        assert_eq!(batch.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_weigh_together_more_than_the_room_are_not_all_kept() {
        let room = (100, (|words: &String| words.len() as u64) as fn(&String) -> u64);
        let read = |key: usize, _| async move { Ok("x".repeat(key)) };
        let cache = ReadCache::of_large(Service::Postgres, room, 10, read);
        let kept = || (0..200).filter(|key| cache.remembers(key)).sum::<usize>();
        for key in [40, 30, 20, 45, 5, 60, 41, 42] {
            assert_eq!(cache.get(key).await.map(|words| words.len()).ok(), Some(key));
            assert!(cache.remembers(&key) && kept() <= 100, "{key}: {}", kept());
        }
        // One that is heavier than all of the room evicts nothing.
        let before = kept();
        assert_eq!(cache.get(101).await.map(|words| words.len()).ok(), Some(101));
        assert!(!cache.remembers(&101) && kept() == before && before > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn while_one_waits_for_a_read_the_others_have_the_answer_of_before_and_not_for_long() {
        let second = Duration::from_secs(1);
        let reads = Arc::new(AtomicU32::new(0));
        let cache = ReadCache::new(Service::Postgres, 10, 10, move |_: u32, _| {
            let number = reads.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(second).await;
                Ok(number)
            }
        });
        let found = async |key| cache.get_or_recent(key, second * 5).await.ok();
        assert_eq!(found(7).await, Some(0)); // after a second
        assert_eq!(tokio::join!(found(7), found(7), found(8)), (Some(1), Some(0), Some(2)));
        // That of 7 is two seconds old: three more are its bound.
        tokio::time::advance(second * 3).await;
        assert_eq!(tokio::join!(found(8), found(7)), (Some(3), Some(1)));
        tokio::time::advance(second * 5).await;
        assert_eq!(tokio::join!(found(8), found(7)), (Some(4), Some(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_before_a_change_is_read_anew_and_what_there_is_not_is_not_kept() {
        let reads = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&reads);
        let limits = [Limits::batches_of(10); 2];
        let read = move |memory: Arc<Memory<u32, u32>>, keys: Vec<u32>| {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                let (read_at, is_there) = (Instant::now(), |key: &u32| *key < 10);
                tokio::time::sleep(Duration::from_millis(100)).await;
                let keep = |key: u32| {
                    memory.keep(key, number, read_at);
                    (key, Ok(number))
                };
                Ok(keys.into_iter().filter(is_there).map(keep).collect())
            }
        };
        let cache = ReadCache::of_many(Service::Postgres, 10, limits, read);
        let found = join_all([7, 8, 7, 70].map(|key| cache.find(key))).await;
        let found: Vec<_> = found.into_iter().map(Result::ok).collect();
        assert_eq!(found, [Some(Some(0)), Some(Some(0)), Some(Some(0)), Some(None)]);
        assert!(!cache.remembers(&70));
        // A change while it is read again: that answer is given, and is of no use to those who come later.
        cache.forget(7);
        assert_eq!(cache.memory.get(&7), Some(0));
        let changed = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cache.forget(7);
        };
        assert_eq!(tokio::join!(cache.find(7), changed).0.ok(), Some(Some(1)));
        for _ in 0..2 {
            assert_eq!(cache.find(7).await.ok(), Some(Some(2)));
        }
        assert_eq!(cache.find(8).await.ok(), Some(Some(0)));
    }
}
