//! The buyers who have a purchase under way in this process. A flood of one user's requests ends here,
//! before Redis is asked for the lock.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::UserId;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct InFlight {
    is_limited: bool,
    users: Arc<Mutex<HashSet<UserId>>>,
}

/// One buyer's purchase, under way until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    user: UserId,
    all: InFlight,
}

impl InFlight {
    /// With `is_limited`, one purchase of a buyer at a time. Without (the strategy has no buyer's lock
    /// either), any number: the database's constraint decides.
    pub(super) fn new(is_limited: bool) -> Self {
        Self { is_limited, users: Arc::default() }
    }

    /// `None`: another purchase of `user` is under way.
    pub(super) fn begin(&self, user: UserId) -> Option<UnderWay> {
        let may_begin = !self.is_limited || self.users().insert(user);
        may_begin.then(|| UnderWay { user, all: self.clone() })
    }

    fn users(&self) -> MutexGuard<'_, HashSet<UserId>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.all.is_limited {
            self.all.users().remove(&self.user);
        }
    }
}
