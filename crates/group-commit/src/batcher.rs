//! The queue and its leaders.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use crate::BatchError;

/// The bounds of a batcher. Each is at least 1.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Items in one batch.
    pub batch: usize,
    /// Items that wait; one more is refused.
    pub waiting: usize,
    /// Leaders at work; each has one batch in flight.
    pub leaders: usize,
}

/// How old an item gets, counted from its submission, before a leader without a slot refuses it. A
/// resource that answers nothing holds each slot until the batch there ends by a time-out of its own; the
/// items behind must not wait for all of these.
pub const SLOT_PATIENCE: Duration = Duration::from_secs(1);

type ItemAnswer<R, E> = Result<R, BatchError<E>>;
type Replies<R, E> = Vec<oneshot::Sender<ItemAnswer<R, E>>>;
type BatchWork<T, R, E> = dyn Fn(Vec<T>) -> BoxFuture<'static, Result<Vec<R>, E>> + Send + Sync;

/// Answers items one by one and works on them in batches: see the crate's documentation. Cheap to clone;
/// clones share one queue.
#[must_use = "a batcher works only on what is submitted to it"]
pub struct Batcher<T, R, E>(Arc<Inner<T, R, E>>);

struct Inner<T, R, E> {
    limits: Limits,
    /// Shared with other batchers that use the same resource.
    slots: Option<Arc<Semaphore>>,
    /// Where the leaders run.
    runtime: Handle,
    work: Box<BatchWork<T, R, E>>,
    queue: Mutex<Queue<T, R, E>>,
}

struct QueuedItem<T, R, E> {
    item: T,
    reply: oneshot::Sender<ItemAnswer<R, E>>,
    submitted_at: Instant,
}

struct Queue<T, R, E> {
    waiting: VecDeque<QueuedItem<T, R, E>>,
    leaders: usize,
}

impl<T, R, E> Clone for Batcher<T, R, E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, R, E> std::fmt::Debug for Batcher<T, R, E> {
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
        Self::build(limits, None, work)
    }

    /// A batcher that shares `slots` with others that use the same resource. A leader takes its items only
    /// when it has a slot, so that items which come meanwhile join the batch. While it has none, it
    /// refuses items older than [`SLOT_PATIENCE`] with [`BatchError::NoSlot`].
    ///
    /// The semaphore must not be closed: the leader that finds it closed panics, and the items that wait
    /// hear [`BatchError::Interrupted`].
    ///
    /// # Panics
    /// As [`Batcher::new`].
    pub fn with_slots<W, F>(limits: Limits, slots: Arc<Semaphore>, work: W) -> Self
    where
        W: Fn(Vec<T>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<R>, E>> + Send + 'static,
    {
        Self::build(limits, Some(slots), work)
    }

    fn build<W, F>(limits: Limits, slots: Option<Arc<Semaphore>>, work: W) -> Self
    where
        W: Fn(Vec<T>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<R>, E>> + Send + 'static,
    {
        let Limits { batch, waiting, leaders } = limits;
        assert!(
            batch.min(waiting).min(leaders) > 0,
            "each limit of a batcher is at least 1, these are {limits:?}"
        );
        let work: Box<BatchWork<T, R, E>> = Box::new(move |items| work(items).boxed());
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), leaders: 0 });
        Self(Arc::new(Inner { limits, slots, runtime: Handle::current(), work, queue }))
    }

    /// Submits `item` and waits for its answer. The batcher works on the item even if the caller
    /// stops waiting; the answer is dropped then.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub async fn submit(&self, item: T) -> Result<R, BatchError<E>> {
        let (reply, answer) = oneshot::channel();
        if let Some(leader) = self.join(item, reply)? {
            self.0.runtime.spawn(leader.run());
        }
        answer.await.unwrap_or(Err(BatchError::Interrupted))
    }

    /// How many items wait for a leader now; those of the batches in flight are not among them.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.queue().waiting.len()
    }

    /// Puts `item` into the queue. Returns a leader where one more is to start.
    fn join(
        &self,
        item: T,
        reply: oneshot::Sender<ItemAnswer<R, E>>,
    ) -> Result<Option<Leader<T, R, E>>, BatchError<E>> {
        let limits = self.0.limits;
        let mut queue = self.0.queue();
        if queue.waiting.len() >= limits.waiting {
            return Err(BatchError::Full);
        }
        queue.waiting.push_back(QueuedItem { item, reply, submitted_at: Instant::now() });
        if queue.leaders >= limits.leaders {
            return Ok(None);
        }
        queue.leaders += 1;
        Ok(Some(Leader { inner: Arc::clone(&self.0), at_work: true }))
    }

    /// Leaders at work now.
    #[cfg(test)]
    pub(crate) fn leaders(&self) -> usize {
        self.0.queue().leaders
    }
}

impl<T, R, E> Inner<T, R, E> {
    fn queue(&self) -> MutexGuard<'_, Queue<T, R, E>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Works until no item waits.
struct Leader<T, R, E> {
    inner: Arc<Inner<T, R, E>>,
    at_work: bool,
}

impl<T: Send, R: Send, E: Clone + Send> Leader<T, R, E> {
    async fn run(mut self) {
        loop {
            let _slot = self.slot().await;
            let Some((items, replies)) = self.next_batch() else { return };
            match AssertUnwindSafe(self.work(items)).catch_unwind().await {
                Ok(Ok(answers)) => answer(replies, answers.into_iter().map(Ok)),
                Ok(Err(error)) => {
                    let failed = BatchError::Failed(error.clone());
                    answer(replies, std::iter::repeat_with(|| Err(failed.clone())));
                    self.refuse_waiting(Duration::ZERO, &BatchError::NotStarted(error));
                }
                // Its message is on standard error; dropping `replies` tells the callers.
                Err(_panic) => drop(replies),
            }
        }
    }

    /// Calls the work and counts its answers.
    async fn work(&self, items: Vec<T>) -> Result<Vec<R>, E> {
        let expected = items.len();
        let answers = (self.inner.work)(items).await?;
        assert_eq!(
            answers.len(),
            expected,
            "the work of a batch returns one answer for each item, in their order (left: answers, \
             right: items)"
        );
        Ok(answers)
    }

    /// Waits for a slot, where there are slots. Items that wait too long are refused meanwhile.
    async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        let slots = self.inner.slots.as_ref()?;
        let mut slot = pin!(Arc::clone(slots).acquire_owned());
        loop {
            match timeout(SLOT_PATIENCE / 10, &mut slot).await {
                Ok(Ok(slot)) => return Some(slot),
                Ok(Err(_closed)) => panic!("the slots of a batcher were closed"),
                Err(_elapsed) => self.refuse_waiting(SLOT_PATIENCE, &BatchError::NoSlot),
            }
        }
    }

    /// Answers the items that are at least so old with `error`.
    fn refuse_waiting(&self, age: Duration, error: &BatchError<E>) {
        let mut queue = self.inner.queue();
        let is_old = |one: &&QueuedItem<T, R, E>| one.submitted_at.elapsed() >= age;
        let refused = queue.waiting.iter().take_while(is_old).count();
        let refused: Replies<R, E> = queue.waiting.drain(..refused).map(|one| one.reply).collect();
        drop(queue);
        answer(refused, std::iter::repeat_with(|| Err(error.clone())));
    }

    /// `None` when no item waits: the leader has stepped down.
    fn next_batch(&mut self) -> Option<(Vec<T>, Replies<R, E>)> {
        let mut queue = self.inner.queue();
        if queue.waiting.is_empty() {
            queue.leaders -= 1;
            self.at_work = false;
            return None;
        }
        let size = queue.waiting.len().min(self.inner.limits.batch);
        Some(queue.waiting.drain(..size).map(|one| (one.item, one.reply)).unzip())
    }
}

/// A leader whose runtime stops is dropped in the middle of its work. The last leader also drops the
/// items that wait: nobody else would answer them, and so their callers hear `Interrupted`.
impl<T, R, E> Drop for Leader<T, R, E> {
    fn drop(&mut self) {
        if self.at_work {
            let mut queue = self.inner.queue();
            queue.leaders -= 1;
            let is_last = queue.leaders == 0;
            let abandoned =
                if is_last { std::mem::take(&mut queue.waiting) } else { VecDeque::new() };
            drop(queue);
            drop(abandoned);
        }
    }
}

/// Sends each reply its answer.
fn answer<R, E>(replies: Replies<R, E>, answers: impl Iterator<Item = ItemAnswer<R, E>>) {
    for (reply, answer) in replies.into_iter().zip(answers) {
        // The caller may have stopped waiting.
        let _ = reply.send(answer);
    }
}
