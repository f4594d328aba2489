//! What a batcher and its leaders share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::Limits;
use crate::queue::Queue;

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<T, R> {
    /// It was worked on.
    Done(R),
    /// It was not: the item comes again, in a batch of its own key. Meanwhile no other batch has items of that key.
    Alone(T),
}

/// Which batch the work is called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A batch with items of any keys.
    Shared,
    /// A batch of one key: items that came back as [`Answer::Alone`]. They cannot come back again.
    Alone,
}

tokio::task_local! {
    /// The batcher whose work this is.
    pub(crate) static WORKING_FOR: usize;
}

pub(crate) type Answers<T, R, E> = Result<Vec<Answer<T, R>>, E>;
pub(crate) type Work<K, T, R, E> =
    dyn Fn(Vec<(K, T)>, Turn) -> BoxFuture<'static, Answers<T, R, E>> + Send + Sync;

pub(crate) struct Inner<T, R, E, K> {
    pub(crate) limits: Limits,
    pub(crate) most_leaders: usize,
    pub(crate) most_keys: usize,
    /// One for each batch in flight, and one for each with items that came back; none where nothing is shared.
    pub(crate) slots: Option<[Counted; 2]>,
    pub(crate) patience: Duration,
    /// Where the leaders run.
    pub(crate) runtime: Handle,
    pub(crate) work: Box<Work<K, T, R, E>>,
    pub(crate) queue: Mutex<Queue<K, T, R, E>>,
}

/// So many slots, and those that nobody has.
pub(crate) struct Counted {
    pub(crate) count: usize,
    pub(crate) free: Arc<Semaphore>,
}

impl<T, R, E, K> Inner<T, R, E, K> {
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<K, T, R, E>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
