//! The batcher: what is submitted to it, and what it asks of its work.

use std::hash::Hash;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use crate::leader::Leader;
use crate::queue::Queue;
use crate::shared::{Answers, Counted, Inner, WORKING_FOR};
use crate::{Answer, BatchError, Limits, Slots, Turn};

/// Answers items one by one and works on them in batches: see the crate's documentation. Cheap to clone;
/// clones share one queue.
#[must_use = "a batcher works only on what is submitted to it"]
pub struct Batcher<T, R, E, K = ()>(Arc<Inner<T, R, E, K>>);

impl<T, R, E, K> Clone for Batcher<T, R, E, K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, R, E, K> std::fmt::Debug for Batcher<T, R, E, K> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Batcher").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl<T, R, E> Batcher<T, R, E>
where
    T: Send + 'static,
    R: Send + 'static,
    E: Clone + Send + 'static,
{
    /// A batcher that calls `work` with each batch. `work` returns one answer for each item, in their
    /// order; or an error that concerns all of them, such as a connection that broke. It runs on the
    /// runtime on which the batcher was made, wherever items are submitted.
    ///
    /// # Panics
    /// Outside a tokio runtime, and where a limit is 0: such a batcher would answer nobody.
    pub fn new<W, F>(limits: Limits, work: W) -> Self
    where
        W: Fn(Vec<T>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<R>, E>> + Send + 'static,
    {
        Self::build(limits, None, move |items, _| {
            let answers = work(items.into_iter().map(|((), item)| item).collect());
            async move { Ok(answers.await?.into_iter().map(Answer::Done).collect()) }
        })
    }

    /// Submits `item` and waits for its answer. The batcher works on the item even if the caller
    /// stops waiting; the answer is dropped then.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub async fn submit(&self, item: T) -> Result<R, BatchError<E>> {
        self.submit_to((), item).await
    }
}

impl<T, R, E, K> Batcher<T, R, E, K>
where
    T: Send + 'static,
    R: Send + 'static,
    E: Clone + Send + 'static,
    K: Clone + Eq + Hash + Send + Sync + 'static,
{
    /// A batcher whose items have keys. A batch has items of several keys: those that have waited longest. Of one
    /// key no more than [`Limits::leaders`] batches are in flight, over all keys no more than `slots` say. A leader
    /// takes its items only when it has a slot, so that items which come meanwhile join the batch. While there is
    /// none, items older than [`Slots::patience`] are refused with [`BatchError::NoSlot`].
    ///
    /// ```
    /// use std::num::NonZero;
    ///
    /// use group_commit::{Answer, Batcher, Limits, Slots};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let slots = Slots::new(NonZero::<usize>::MIN); // one batch at a time, over all keys
    /// let limits = Limits::batches_of(64);
    /// let lengths = Batcher::keyed(limits, slots, async |lines: Vec<(u32, String)>, _| {
    ///     // One call for the lines of several files; `Answer::Alone(line)` gives back what has to wait.
    ///     Ok::<_, ()>(lines.into_iter().map(|(_, line)| Answer::Done(line.len())).collect())
    /// });
    /// assert_eq!(lengths.submit_to(7, "a line".to_owned()).await, Ok(6));
    /// # }
    /// ```
    ///
    /// # Panics
    /// As [`Batcher::new`].
    pub fn keyed<W, F>(limits: Limits, slots: Slots, work: W) -> Self
    where
        W: Fn(Vec<(K, T)>, Turn) -> F + Send + Sync + 'static,
        F: Future<Output = Answers<T, R, E>> + Send + 'static,
    {
        Self::build(limits, Some(slots), work)
    }

    fn build<W, F>(limits: Limits, slots: Option<Slots>, work: W) -> Self
    where
        W: Fn(Vec<(K, T)>, Turn) -> F + Send + Sync + 'static,
        F: Future<Output = Answers<T, R, E>> + Send + 'static,
    {
        let Limits { batch, waiting, leaders, .. } = limits;
        assert!(
            batch.min(waiting).min(leaders) > 0,
            "each limit of a batcher is at least 1, these are {limits:?}"
        );
        let counted = |count: NonZero<usize>| Counted {
            count: count.get(),
            free: Arc::new(Semaphore::new(count.get())),
        };
        Self(Arc::new(Inner {
            limits,
            // Beyond those with a slot, one waits for a slot, and refuses what waits too long.
            most_leaders: slots.map_or(leaders, |slots| slots.batches.get() + 1),
            most_keys: slots.map_or(1, |slots| slots.keys.get()),
            slots: slots.map(|slots| [counted(slots.batches), counted(slots.alone)]),
            patience: slots.map_or(Duration::ZERO, |slots| slots.patience),
            runtime: Handle::current(),
            work: Box::new(move |items, turn| work(items, turn).boxed()),
            queue: Mutex::new(Queue::new(limits)),
        }))
    }

    /// Submits `item`, which goes into a batch with others of its `key`, and perhaps of other keys: see
    /// [`Batcher::submit`].
    ///
    /// # Errors
    /// See [`BatchError`].
    ///
    /// # Panics
    /// Where the work of this batcher calls it: a leader that waits for itself waits for ever. (A task that the work starts is
    /// not known to be the work's, nor are two batchers whose works wait for each other.)
    pub async fn submit_to(&self, key: K, item: T) -> Result<R, BatchError<E>> {
        let own = WORKING_FOR.try_with(|batcher| *batcher == self.0.address()).unwrap_or(false);
        assert!(!own, "the work of a batcher submits to this batcher, and would wait for itself");
        let (reply, answer) = oneshot::channel();
        let leader = {
            let mut queue = self.0.queue();
            queue.push(&key, item, reply)?;
            Leader::where_needed(&self.0, &mut queue)
        };
        if let Some(leader) = leader {
            self.0.runtime.spawn(leader.run());
        }
        answer.await.unwrap_or(Err(BatchError::Interrupted))
    }

    /// How many items wait for a leader now; those of the batches in flight are not among them.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.queue().waiting()
    }

    /// Batches in flight now, over all keys; 0 without [`Slots`].
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let slots = self.0.slots.iter().flatten();
        slots.map(|slots| slots.count - slots.free.available_permits()).sum()
    }

    /// Keys that are remembered now.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.0.queue().keys()
    }

    /// Leaders at work now, of any kind.
    #[cfg(test)]
    pub(crate) fn tasks(&self) -> usize {
        self.0.queue().tasks
    }
}
