//! A mutex per user, in the memory of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Mutex as Turn;

use crate::model::UserId;

/// The users' mutexes. One that nobody has or waits for is forgotten: a plain map would grow
/// by every user who ever came.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<UserId, Weak<Turn<()>>>>);

impl Turns {
    /// The user's mutex.
    pub(super) fn of(&self, user: UserId) -> Arc<Turn<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&user).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(user, Arc::downgrade(&turn));
        turn
    }
}
