//! What waits, by key.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::{BatchError, Limits};

type Reply<R, E> = oneshot::Sender<Result<R, BatchError<E>>>;

/// A caller who is to be answered, and when the item was submitted.
pub(crate) struct Waiter<R, E> {
    pub(crate) reply: Reply<R, E>,
    pub(crate) since: Instant,
}

/// Keys that are remembered while nothing is to be done for them: their queues need not be made anew.
const IDLE_KEYS: usize = 1_024;

struct QueuedItem<T, R, E> {
    item: T,
    waiter: Waiter<R, E>,
}

struct KeyQueue<T, R, E> {
    waiting: VecDeque<QueuedItem<T, R, E>>,
    in_flight: usize,
    is_ready: bool,
}

/// The items of a batch, and who is to be answered, key by key, in the order of the items.
pub(crate) struct Taken<K, T, R, E> {
    pub(crate) items: Vec<(K, T)>,
    pub(crate) waiters: Vec<(K, Vec<Waiter<R, E>>)>,
}

pub(crate) struct Queue<K, T, R, E> {
    limits: Limits,
    keys: HashMap<K, KeyQueue<T, R, E>>,
    /// Keys of which a further batch may begin, first come first served.
    ready: VecDeque<K>,
    waiting: usize,
    /// Leaders that take batches from here.
    pub(crate) leaders: usize,
    /// All leaders, also those with a batch that was handed back.
    pub(crate) tasks: usize,
}

impl<K: Clone + Eq + Hash, T, R, E> Queue<K, T, R, E> {
    pub(crate) fn new(limits: Limits) -> Self {
        let (keys, ready) = (HashMap::new(), VecDeque::new());
        Self { limits, keys, ready, waiting: 0, leaders: 0, tasks: 0 }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is work for a leader.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Puts an item behind the others of its key, if it fits.
    pub(crate) fn push(
        &mut self,
        key: &K,
        item: T,
        reply: Reply<R, E>,
    ) -> Result<(), BatchError<E>> {
        let queue = self.keys.entry(key.clone()).or_insert_with(|| KeyQueue {
            waiting: VecDeque::new(),
            in_flight: 0,
            is_ready: false,
        });
        if queue.waiting.len() >= self.limits.waiting {
            return Err(BatchError::Full);
        }
        queue
            .waiting
            .push_back(QueuedItem { item, waiter: Waiter { reply, since: Instant::now() } });
        self.waiting += 1;
        self.make_ready(key);
        Ok(())
    }

    fn make_ready(&mut self, key: &K) {
        let Some(queue) = self.keys.get_mut(key) else { return };
        let may_begin = queue.in_flight < self.limits.leaders && !queue.waiting.is_empty();
        if may_begin && !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back(key.clone());
        }
    }

    /// The next batch, of at most so many keys: those that have been ready for longest, and of each what waits there.
    /// The keys are busy until they are [released](Self::release). `None` where nothing may begin.
    pub(crate) fn take(&mut self, most_keys: usize) -> Option<Taken<K, T, R, E>> {
        let mut taken = Taken { items: Vec::new(), waiters: Vec::new() };
        while taken.waiters.len() < most_keys && taken.items.len() < self.limits.batch {
            let Some(key) = self.ready.pop_front() else { break };
            let Some(queue) = self.keys.get_mut(&key) else { continue };
            queue.is_ready = false;
            let room = self.limits.batch - taken.items.len();
            let size = queue.waiting.len().min(room);
            // Those that waited may have been refused meanwhile.
            if size == 0 {
                continue;
            }
            queue.in_flight += 1;
            self.waiting -= size;
            let mut waiters = Vec::with_capacity(size);
            taken.items.extend(queue.waiting.drain(..size).map(|one| {
                waiters.push(one.waiter);
                (key.clone(), one.item)
            }));
            // Where more than one batch of a key may be in flight, another leader takes the rest: this one is full.
            self.make_ready(&key);
            taken.waiters.push((key, waiters));
        }
        (!taken.items.is_empty()).then_some(taken)
    }

    /// A batch with items of this key has ended.
    pub(crate) fn release(&mut self, key: &K) {
        let Some(queue) = self.keys.get_mut(key) else { return };
        queue.in_flight -= 1;
        if queue.in_flight == 0 && queue.waiting.is_empty() && self.keys.len() > IDLE_KEYS {
            self.keys.remove(key);
        }
        self.make_ready(key);
    }

    /// Removes the items of this key that are at least so old.
    pub(crate) fn remove_waiting(&mut self, key: &K, age: Duration) -> Vec<Waiter<R, E>> {
        let Some(queue) = self.keys.get_mut(key) else { return Vec::new() };
        let is_old = |one: &&QueuedItem<T, R, E>| one.waiter.since.elapsed() >= age;
        let count = queue.waiting.iter().take_while(is_old).count();
        self.waiting -= count;
        queue.waiting.drain(..count).map(|one| one.waiter).collect()
    }

    /// Removes the items that are at least so old, of all keys of which a batch could begin.
    pub(crate) fn remove_ready(&mut self, age: Duration) -> Vec<Waiter<R, E>> {
        let keys: Vec<K> = self.ready.iter().cloned().collect();
        keys.iter().flat_map(|key| self.remove_waiting(key, age)).collect()
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) -> Vec<Waiter<R, E>> {
        self.ready.clear();
        self.waiting = 0;
        let all = self.keys.drain().flat_map(|(_, queue)| queue.waiting);
        all.map(|one| one.waiter).collect()
    }
}
