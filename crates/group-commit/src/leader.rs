//! The leaders: tasks that take batches from the queue, call the work, and answer.

use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::queue::{Queue, Taken, Waiter};
use crate::shared::{Inner, WORKING_FOR};
use crate::{Answer, BatchError, Turn};

/// Works until nothing is ready.
pub(crate) struct Leader<T, R, E, K: Clone + Eq + Hash> {
    inner: Arc<Inner<T, R, E, K>>,
    /// Whether it counts as one of those that take batches from the queue.
    takes: bool,
    at_work: bool,
}

/// A key of which a batch is in flight, and those of the batch who wait for their answers.
struct Part<T, R, E, K: Clone + Eq + Hash> {
    key: K,
    /// Whether the work was called with the items.
    has_begun: bool,
    waiters: Vec<Waiter<R, E>>,
    inner: Arc<Inner<T, R, E, K>>,
}

impl<T, R, E, K> Leader<T, R, E, K>
where
    T: Send + 'static,
    R: Send + 'static,
    E: Clone + Send + 'static,
    K: Clone + Eq + Hash + Send + Sync + 'static,
{
    /// A further leader, where there is work for one.
    pub(crate) fn where_needed(
        inner: &Arc<Inner<T, R, E, K>>,
        queue: &mut Queue<K, T, R, E>,
    ) -> Option<Self> {
        if !queue.is_ready() || queue.leaders >= inner.most_leaders {
            return None;
        }
        queue.leaders += 1;
        queue.tasks += 1;
        Some(Self { inner: Arc::clone(inner), takes: true, at_work: true })
    }

    pub(crate) async fn run(mut self) {
        loop {
            let _slot = self.slot().await;
            let Some(taken) = self.next_batch() else { return };
            let inner = &self.inner;
            let part =
                |(key, waiters)| Part { key, has_begun: false, waiters, inner: Arc::clone(inner) };
            let parts = taken.waiters.into_iter().map(part).collect();
            self.work_on(taken.items, parts, Turn::Shared).await;
        }
    }

    /// Works on items that came back, and then goes on as any leader, if one is needed.
    async fn run_alone(mut self, items: Vec<(K, T)>, part: Part<T, R, E, K>) {
        let Some([_, slots]) = &self.inner.slots else {
            unreachable!("only items with keys come back")
        };
        let waited = part.waiters.first().map_or(Duration::ZERO, |oldest| oldest.since.elapsed());
        let slot = Arc::clone(&slots.free).acquire_owned();
        match timeout(self.inner.patience.saturating_sub(waited), slot).await {
            Ok(slot) => {
                self.work_on(items, vec![part], Turn::Alone).await;
                drop(slot);
            }
            Err(_elapsed) => part.answer_all(&BatchError::NoSlot),
        }
        let next = {
            let mut queue = self.inner.queue();
            queue.tasks -= 1;
            self.at_work = false;
            Self::where_needed(&self.inner, &mut queue)
        };
        if let Some(next) = next {
            next.run().await;
        }
    }

    /// Calls the work, and answers.
    async fn work_on(&self, items: Vec<(K, T)>, mut parts: Vec<Part<T, R, E, K>>, turn: Turn) {
        let expected = items.len();
        for part in &mut parts {
            part.has_begun = true;
        }
        let work = async {
            let answers = (self.inner.work)(items, turn).await?;
            assert_eq!(
                answers.len(),
                expected,
                "the work of a batch returns one answer for each item, in their order (left: answers, \
                 right: items)"
            );
            Ok(answers)
        };
        let work = WORKING_FOR.scope(self.inner.address(), work);
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(Ok(answers)) => {
                let mut answers = answers.into_iter();
                for part in parts {
                    self.answer(part, &mut answers, turn);
                }
            }
            Ok(Err(error)) => {
                for part in parts {
                    part.fail(&error);
                }
            }
            // Its message is on standard error; dropping the replies tells the callers.
            Err(_panic) => drop(parts),
        }
    }

    /// Answers the items of one key. Those that come back have a leader of their own, and the key stays busy.
    fn answer(
        &self,
        mut part: Part<T, R, E, K>,
        answers: &mut impl Iterator<Item = Answer<T, R>>,
        turn: Turn,
    ) {
        let mut alone = Vec::new();
        part.has_begun = false;
        let waiters = std::mem::take(&mut part.waiters);
        for (waiter, answer) in waiters.into_iter().zip(answers) {
            match answer {
                // The caller may have stopped waiting.
                Answer::Done(answer) => drop(waiter.reply.send(Ok(answer))),
                Answer::Alone(item) => {
                    assert_eq!(turn, Turn::Shared, "an item that was alone came back once more");
                    alone.push((part.key.clone(), item));
                    part.waiters.push(waiter);
                }
            }
        }
        if !alone.is_empty() {
            self.inner.queue().tasks += 1;
            let inner = Arc::clone(&self.inner);
            let leader = Self { inner, takes: false, at_work: true };
            self.inner.runtime.spawn(leader.run_alone(alone, part));
        }
    }

    /// Waits for a slot, where there are slots. Items that wait too long are refused meanwhile.
    async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        let [slots, _] = self.inner.slots.as_ref()?;
        let mut slot = pin!(Arc::clone(&slots.free).acquire_owned());
        loop {
            match timeout(self.inner.patience / 10, &mut slot).await {
                Ok(slot) => return slot.ok(),
                Err(_elapsed) => {
                    let refused = self.inner.queue().remove_ready(self.inner.patience);
                    answer_all(refused, &BatchError::NoSlot);
                }
            }
        }
    }

    /// `None` when nothing is ready: the leader has stepped down.
    fn next_batch(&mut self) -> Option<Taken<K, T, R, E>> {
        let mut queue = self.inner.queue();
        let taken = queue.take(self.inner.most_keys);
        if taken.is_none() {
            queue.leaders -= 1;
            queue.tasks -= 1;
            self.at_work = false;
        }
        taken
    }
}

/// A leader whose runtime stops is dropped in the middle of its work. The last one also refuses the
/// items that wait: nobody else would answer them.
impl<T, R, E, K: Clone + Eq + Hash> Drop for Leader<T, R, E, K> {
    fn drop(&mut self) {
        if self.at_work {
            let mut queue = self.inner.queue();
            queue.leaders -= usize::from(self.takes);
            queue.tasks -= 1;
            let abandoned = if queue.tasks == 0 { queue.clear() } else { Vec::new() };
            drop(queue);
            refuse_for_good(abandoned);
        }
    }
}

impl<T, R, E: Clone, K: Clone + Eq + Hash> Part<T, R, E, K> {
    fn answer_all(mut self, error: &BatchError<E>) {
        answer_all(std::mem::take(&mut self.waiters), error);
    }

    /// Those who wait for the next batch of this key hear of the failure, too.
    fn fail(self, error: &E) {
        if self.inner.limits.a_failure_is_for_all {
            let waiting = self.inner.queue().remove_waiting(&self.key, Duration::ZERO);
            answer_all(waiting, &BatchError::NotStarted(error.clone()));
        }
        self.answer_all(&BatchError::Failed(error.clone()));
    }
}

impl<T, R, E, K: Clone + Eq + Hash> Drop for Part<T, R, E, K> {
    fn drop(&mut self) {
        self.inner.queue().release(&self.key);
        // Dropping a reply tells the caller that the item was interrupted.
        if !self.has_begun {
            refuse_for_good(std::mem::take(&mut self.waiters));
        }
    }
}

fn refuse_for_good<R, E>(waiters: Vec<Waiter<R, E>>) {
    for waiter in waiters {
        drop(waiter.reply.send(Err(BatchError::Stopped)));
    }
}

fn answer_all<R, E: Clone>(waiters: Vec<Waiter<R, E>>, error: &BatchError<E>) {
    for waiter in waiters {
        // The caller may have stopped waiting.
        drop(waiter.reply.send(Err(error.clone())));
    }
}
