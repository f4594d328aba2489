//! The batcher: items that wait together are worked on together.
//!
//! A caller submits one item and waits for its answer. When an item comes and too few leaders are
//! at work, the batcher starts one: a task of its own, which takes the items that wait (up to a
//! limit), works on them, answers them, and goes on until no item waits. There is no timer. An item
//! that comes alone is a batch of one and starts at once. Databases call this group commit (`DeWitt` et
//! al., "Implementation Techniques for Main Memory Database Systems", 1984).

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

/// Why an item has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchError<E> {
    /// As many items as may wait already. Nothing was done for this one.
    Full,
    /// The batch before this item's failed with this error. Nothing was done for this one.
    NotStarted(E),
    /// No slot was free in time. Nothing was done.
    NoSlot,
    /// The whole batch failed with this error. The error says what may have been done.
    Failed(E),
    /// The leader panicked or its runtime stopped. The work may have been done.
    Interrupted,
}

/// The bounds of a batcher.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Items in one batch.
    pub batch: usize,
    /// Items that wait; one more is refused.
    pub waiting: usize,
    /// Leaders at work; each has one batch in flight.
    pub leaders: usize,
}

/// How long an item waits while its leader has no slot. Where the resource answers nothing, each batch
/// holds its slot until its time-out, and the items behind must not wait for all of them.
const SLOT_WITHIN: Duration = Duration::from_secs(1);

type ItemAnswer<R, E> = Result<R, BatchError<E>>;
type Replies<R, E> = Vec<oneshot::Sender<ItemAnswer<R, E>>>;
type BatchWork<T, R, E> = dyn Fn(Vec<T>) -> BoxFuture<'static, Result<Vec<R>, E>> + Send + Sync;

/// See the module's documentation. Cheap to clone; clones share one queue.
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
    since: Instant,
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
    /// A batcher that calls `work` with each batch. `work` returns one answer for each item, in
    /// their order; or an error, when the resource that it uses failed for all of them. It runs on
    /// the runtime on which the batcher was made, wherever items are submitted.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new<W, F>(limits: Limits, work: W) -> Self
    where
        W: Fn(Vec<T>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<R>, E>> + Send + 'static,
    {
        let work: Box<BatchWork<T, R, E>> = Box::new(move |items| work(items).boxed());
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), leaders: 0 });
        Self(Arc::new(Inner { limits, slots: None, runtime: Handle::current(), work, queue }))
    }

    /// Shares `slots` with other batchers that use the same resource. A leader takes its batch only
    /// when it has a slot, so that items which come meanwhile join the batch. Items that have waited a
    /// second while their leader has no slot hear [`BatchError::NoSlot`]. Before the batcher has clones.
    #[must_use]
    pub fn sharing(mut self, slots: Arc<Semaphore>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.slots = Some(slots);
        }
        self
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

    /// Items that wait for a leader now.
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
        queue.waiting.push_back(QueuedItem { item, reply, since: Instant::now() });
        if queue.leaders >= limits.leaders {
            return Ok(None);
        }
        queue.leaders += 1;
        Ok(Some(Leader { inner: Arc::clone(&self.0), at_work: true }))
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
            let inner = &self.inner;
            let work = AssertUnwindSafe(async { (inner.work)(items).await });
            match work.catch_unwind().await {
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

    /// Waits for a slot, where there are slots. Items that wait too long are refused meanwhile.
    async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        let slots = self.inner.slots.as_ref()?;
        let mut slot = pin!(Arc::clone(slots).acquire_owned());
        loop {
            match timeout(SLOT_WITHIN / 10, &mut slot).await {
                // The semaphore is never closed.
                Ok(slot) => return slot.ok(),
                Err(_elapsed) => self.refuse_waiting(SLOT_WITHIN, &BatchError::NoSlot),
            }
        }
    }

    /// Answers the items that have waited for `at_least` with `error`.
    fn refuse_waiting(&self, at_least: Duration, error: &BatchError<E>) {
        let mut queue = self.inner.queue();
        let late = queue.waiting.iter().take_while(|one| one.since.elapsed() >= at_least).count();
        let late: Replies<R, E> = queue.waiting.drain(..late).map(|one| one.reply).collect();
        drop(queue);
        answer(late, std::iter::repeat_with(|| Err(error.clone())));
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

/// A leader whose runtime stops is dropped in the middle of its work. The last one drops the items that
/// wait, too: their callers hear `Interrupted`.
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

/// Sends each reply its answer. A caller without an answer hears `Interrupted`.
fn answer<R, E>(replies: Replies<R, E>, answers: impl Iterator<Item = ItemAnswer<R, E>>) {
    for (reply, answer) in replies.into_iter().zip(answers) {
        // The caller may have stopped waiting.
        let _ = reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    const LIMITS: Limits = Limits { batch: 4, waiting: 10, leaders: 1 };

    /// Answers each number with the size of its batch, when `go` says so.
    fn sizes(limits: Limits, go: &Arc<Semaphore>) -> Batcher<u32, usize, &'static str> {
        let go = Arc::clone(go);
        Batcher::new(limits, move |items: Vec<u32>| {
            let go = Arc::clone(&go);
            async move {
                go.acquire().await.map_err(|_| "closed")?.forget();
                if items.contains(&13) {
                    return Err("13");
                }
                assert!(!items.contains(&7), "a panic on purpose");
                Ok(vec![items.len(); items.len()])
            }
        })
    }

    /// Submits all of `items` at once, in their order.
    async fn submit_all(
        batcher: &Batcher<u32, usize, &'static str>,
        items: impl IntoIterator<Item = u32>,
    ) -> Vec<Result<usize, BatchError<&'static str>>> {
        join_all(items.into_iter().map(|item| batcher.submit(item))).await
    }

    #[tokio::test]
    async fn items_that_wait_together_are_one_batch_up_to_the_limit() {
        let batcher = sizes(LIMITS, &Arc::new(Semaphore::new(9)));
        assert_eq!(submit_all(&batcher, [0]).await, [Ok(1)]);
        let sizes = submit_all(&batcher, 20..26).await;
        assert_eq!(sizes, [Ok(4), Ok(4), Ok(4), Ok(4), Ok(2), Ok(2)]);
    }

    #[tokio::test]
    async fn one_item_too_many_is_refused_and_the_others_are_answered() {
        let batcher = sizes(LIMITS, &Arc::new(Semaphore::new(9)));
        let answers = submit_all(&batcher, 20..31).await;
        assert_eq!(answers[10], Err(BatchError::Full));
        assert!(answers[..10].iter().all(Result::is_ok));
        assert_eq!(submit_all(&batcher, [0]).await, [Ok(1)]);
    }

    #[tokio::test]
    async fn after_a_failed_batch_those_who_wait_hear_of_it_at_once() {
        let batcher = sizes(LIMITS, &Arc::new(Semaphore::new(1)));
        let answers = submit_all(&batcher, [13, 1, 1, 1, 2]).await;
        assert!(answers[..4].iter().all(|answer| *answer == Err(BatchError::Failed("13"))));
        // There was no permission for a second batch.
        assert_eq!(answers[4], Err(BatchError::NotStarted("13")));
    }

    #[tokio::test]
    async fn a_panic_is_told_to_its_batch_alone() {
        let batcher = sizes(LIMITS, &Arc::new(Semaphore::new(9)));
        let answers = submit_all(&batcher, [7, 1, 1, 1, 2]).await;
        assert!(answers[..4].iter().all(|answer| *answer == Err(BatchError::Interrupted)));
        assert_eq!(answers[4], Ok(1));
    }

    #[tokio::test]
    async fn an_item_is_worked_on_after_its_caller_left() {
        let done = Arc::new(AtomicUsize::new(0));
        let (count, begun) = (Arc::clone(&done), Arc::new(Notify::new()));
        let (permission, start) = (Arc::new(Semaphore::new(0)), Arc::clone(&begun));
        let go = Arc::clone(&permission);
        let batcher = Batcher::new(LIMITS, move |items: Vec<u32>| {
            start.notify_one();
            let (count, go) = (Arc::clone(&count), Arc::clone(&go));
            async move {
                go.acquire().await.map_err(drop)?.forget();
                count.fetch_add(items.len(), Ordering::SeqCst);
                Ok::<_, ()>(items)
            }
        });
        tokio::select! {
            _ = batcher.submit(1) => unreachable!("nothing was permitted"),
            () = begun.notified() => {}
        }
        permission.add_permits(2);
        assert_eq!(batcher.submit(2).await, Ok(2));
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn batchers_that_share_a_slot_take_turns() {
        static AT_WORK: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let slots = Arc::new(Semaphore::new(1));
        let batchers = [(); 3].map(|()| {
            let batcher = Batcher::new(LIMITS, async |items: Vec<u32>| {
                MOST.fetch_max(AT_WORK.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                AT_WORK.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, ()>(items)
            });
            batcher.sharing(Arc::clone(&slots))
        });
        let answers = join_all((0..30).map(|item| batchers[item as usize % 3].submit(item))).await;
        assert!(answers.into_iter().eq((0..30).map(Ok)));
        assert_eq!(MOST.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn items_that_wait_a_second_for_a_slot_are_refused_and_later_ones_are_not() {
        let slots = Arc::new(Semaphore::new(1));
        let batcher = Batcher::new(LIMITS, async |items: Vec<u32>| Ok::<_, ()>(items));
        let batcher = batcher.sharing(Arc::clone(&slots));
        let taken = Arc::clone(&slots).acquire_owned().await;
        let submitted = join_all((0..3).map(|item| batcher.submit(item)));
        let (answers, waiting) = tokio::join!(submitted, async { batcher.waiting() });
        assert_eq!((answers, waiting), (vec![Err(BatchError::NoSlot); 3], 3));
        drop(taken);
        assert_eq!((batcher.submit(7).await, batcher.waiting()), (Ok(7), 0));
    }

    #[test]
    fn a_runtime_that_stops_leaves_no_caller_waiting() {
        let runtime = || tokio::runtime::Builder::new_current_thread().build();
        let (Ok(callers), Ok(leaders)) = (runtime(), runtime()) else { return };
        let batcher = leaders.block_on(async { sizes(LIMITS, &Arc::new(Semaphore::new(0))) });
        let submit = |item| {
            let batcher = batcher.clone();
            async move { batcher.submit(item).await }
        };
        let (first, second) = (callers.spawn(submit(1)), callers.spawn(submit(2)));
        callers.block_on(tokio::task::yield_now());
        // The leader takes both, and gets no permission to work.
        leaders.block_on(tokio::task::yield_now());
        let third = callers.spawn(submit(3));
        callers.block_on(tokio::task::yield_now());
        drop(leaders);
        for caller in [first, second, third] {
            let answer = callers.block_on(caller);
            assert!(matches!(answer, Ok(Err(BatchError::Interrupted))), "{answer:?}");
        }
        assert_eq!(batcher.0.queue().leaders, 0);
    }
}
