//! How many of something each key has at once, so that one key cannot take all of it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
