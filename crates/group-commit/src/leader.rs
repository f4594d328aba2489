//! The leaders: tasks that take batches from the queue, call the work, and answer.

use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::batcher::Inner;
use crate::queue::{Queue, Reply, Taken};
use crate::{Answer, BatchError, SLOT_PATIENCE, Turn};

/// Works until nothing is ready.
pub(crate) struct Leader<T, R, E, K>
where
    K: Clone + Eq + Hash,
    E: Clone,
{
    inner: Arc<Inner<T, R, E, K>>,
    /// Whether it counts as one of those that take batches from the queue.
    takes: bool,
    at_work: bool,
}

/// A key of which a batch is in flight, and those of the batch who wait for their answers.
struct Part<T, R, E, K>
where
    K: Clone + Eq + Hash,
    E: Clone,
{
    key: K,
    replies: Vec<Reply<R, E>>,
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
        if !queue.is_ready() || queue.leaders >= inner.most_leaders() {
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
            let part = |(key, replies)| Part { key, replies, inner: Arc::clone(&self.inner) };
            let parts = taken.replies.into_iter().map(part).collect();
            self.work_on(taken.items, parts, Turn::Shared).await;
        }
    }

    /// Works on items that came back, and then goes on as any leader, if one is needed.
    async fn run_alone(mut self, items: Vec<(K, T)>, part: Part<T, R, E, K>) {
        let slot = match &self.inner.slots {
            Some([_, alone]) => timeout(SLOT_PATIENCE, Arc::clone(alone).acquire_owned()).await,
            None => unreachable!("only items with keys come back"),
        };
        match slot {
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
    async fn work_on(&self, items: Vec<(K, T)>, parts: Vec<Part<T, R, E, K>>, turn: Turn) {
        let expected = items.len();
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
        let replies = std::mem::take(&mut part.replies);
        for (reply, answer) in replies.into_iter().zip(answers) {
            match answer {
                // The caller may have stopped waiting.
                Answer::Done(answer) => drop(reply.send(Ok(answer))),
                Answer::Alone(item) => {
                    assert_eq!(turn, Turn::Shared, "an item that was alone came back once more");
                    alone.push((part.key.clone(), item));
                    part.replies.push(reply);
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
        let mut slot = pin!(Arc::clone(slots).acquire_owned());
        loop {
            match timeout(SLOT_PATIENCE / 10, &mut slot).await {
                Ok(slot) => return slot.ok(),
                Err(_elapsed) => {
                    let refused = self.inner.queue().remove_ready(SLOT_PATIENCE);
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

/// A leader whose runtime stops is dropped in the middle of its work. The last one also drops the
/// items that wait: nobody else would answer them, and so their callers hear `Interrupted`.
impl<T, R, E, K> Drop for Leader<T, R, E, K>
where
    K: Clone + Eq + Hash,
    E: Clone,
{
    fn drop(&mut self) {
        if self.at_work {
            let mut queue = self.inner.queue();
            queue.leaders -= usize::from(self.takes);
            queue.tasks -= 1;
            let abandoned = if queue.tasks == 0 { queue.clear() } else { Vec::new() };
            drop(queue);
            drop(abandoned);
        }
    }
}

impl<T, R, E, K> Part<T, R, E, K>
where
    K: Clone + Eq + Hash,
    E: Clone,
{
    fn answer_all(mut self, error: &BatchError<E>) {
        answer_all(std::mem::take(&mut self.replies), error);
    }

    /// Those who wait for the next batch of this key hear of the failure, too.
    fn fail(self, error: &E) {
        let waiting = self.inner.queue().remove_waiting(&self.key, Duration::ZERO);
        answer_all(waiting, &BatchError::NotStarted(error.clone()));
        self.answer_all(&BatchError::Failed(error.clone()));
    }
}

impl<T, R, E, K> Drop for Part<T, R, E, K>
where
    K: Clone + Eq + Hash,
    E: Clone,
{
    fn drop(&mut self) {
        self.inner.queue().release(&self.key);
    }
}

fn answer_all<R, E: Clone>(replies: Vec<Reply<R, E>>, error: &BatchError<E>) {
    for reply in replies {
        // The caller may have stopped waiting.
        drop(reply.send(Err(error.clone())));
    }
}
