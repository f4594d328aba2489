//! A mutex per user, in the memory of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Mutex as UserMutex;

use seckill::model::UserId;

/// The users' mutexes. One that nobody has or waits for is forgotten: a plain map would grow
/// with every user.
#[derive(Debug, Default)]
pub(super) struct UserMutexes(Mutex<HashMap<UserId, Weak<UserMutex<()>>>>);

impl UserMutexes {
    /// The user's mutex.
    pub(super) fn of(&self, user: UserId) -> Arc<UserMutex<()>> {
        let mut user_mutexes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = user_mutexes.get(&user).and_then(Weak::upgrade) {
            return turn;
        }
        user_mutexes.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        user_mutexes.insert(user, Arc::downgrade(&turn));
        turn
    }
}
