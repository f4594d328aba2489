//! How many of something each key has at once, so that one key cannot take all of it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts by key. Cheap to clone.
#[derive(Debug)]
pub struct Shares<K>(Arc<Mutex<HashMap<K, usize>>>);

/// One of what is counted, until this is dropped.
#[derive(Debug)]
pub struct Share<K: Eq + Hash + Debug> {
    key: K,
    all: Shares<K>,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for Shares<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash + Debug + Copy> Shares<K> {
    /// `None`: `key` has `limit` of them already.
    pub fn take(&self, key: K, limit: usize) -> Option<Share<K>> {
        let mut counts = self.counts();
        let count = counts.get(&key).copied().unwrap_or(0);
        if count >= limit {
            return None;
        }
        counts.insert(key, count + 1);
        Some(Share { key, all: self.clone() })
    }
}

impl<K> Shares<K> {
    fn counts(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Debug> Drop for Share<K> {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        let Some(count) = counts.get_mut(&self.key) else {
            unreachable!("what {:?} has is not counted", self.key)
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_so_many_and_another_as_many() {
        let shares = Shares::default();
        let held = [shares.take(1, 2), shares.take(1, 2)];
        assert!(held.iter().all(Option::is_some) && shares.take(1, 2).is_none());
        assert!(shares.take(2, 2).is_some());
        let [first, second] = held;
        drop(first);
        assert!(shares.take(1, 2).is_some());
        drop(second);
        assert!(shares.counts().is_empty());
    }
}
