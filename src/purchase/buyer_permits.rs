//! The buyers who have a purchase under way in this process. A flood of one user's requests ends here,
//! before it takes the permits of others, and before Redis is asked for the lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::UserId;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct BuyerPermits {
    limit: usize,
    users: Arc<Mutex<HashMap<UserId, usize>>>,
}

/// One buyer's purchase, under way until this is dropped.
#[derive(Debug)]
pub(super) struct BuyerPermit {
    user: UserId,
    all: BuyerPermits,
}

impl BuyerPermits {
    /// Up to `limit` purchases of a buyer at a time.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, users: Arc::default() }
    }

    /// `None`: as many purchases of `user` as there may be are under way.
    pub(super) fn try_take(&self, user: UserId) -> Option<BuyerPermit> {
        let mut users = self.users();
        let count = users.entry(user).or_default();
        if *count == self.limit {
            // Not the first: nothing was added.
            return None;
        }
        *count += 1;
        Some(BuyerPermit { user, all: self.clone() })
    }

    fn users(&self) -> MutexGuard<'_, HashMap<UserId, usize>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BuyerPermit {
    fn drop(&mut self) {
        let mut users = self.all.users();
        let Some(count) = users.get_mut(&self.user) else {
            unreachable!("a purchase of {} is not counted", self.user)
        };
        *count -= 1;
        if *count == 0 {
            users.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_buyer_has_so_many_purchases_under_way_and_another_has_as_many() {
        let user = |number| UserId::new(number).unwrap_or_else(|| unreachable!("positive"));
        let buyers = BuyerPermits::new(2);
        let held = [buyers.try_take(user(1)), buyers.try_take(user(1))];
        assert!(held.iter().all(Option::is_some) && buyers.try_take(user(1)).is_none());
        assert!(buyers.try_take(user(2)).is_some());
        let [first, second] = held;
        drop(first);
        assert!(buyers.try_take(user(1)).is_some());
        drop(second);
        assert!(buyers.users().is_empty());
    }
}
