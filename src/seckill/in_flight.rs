//! The buyers who have a purchase under way in this process. A flood of one user's requests ends here,
//! before Redis is asked for the lock.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::UserId;

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashSet<UserId>>>);

/// One buyer's purchase, under way until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    user: UserId,
    all: InFlight,
}

impl InFlight {
    /// `None`: another purchase of `user` is under way.
    pub(super) fn begin(&self, user: UserId) -> Option<UnderWay> {
        self.users().insert(user).then(|| UnderWay { user, all: self.clone() })
    }

    fn users(&self) -> MutexGuard<'_, HashSet<UserId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.users().remove(&self.user);
    }
}
