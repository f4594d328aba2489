//! Many calls in one: acquires and releases of all tasks that come while two earlier calls
//! are under way go to Redis together, as a database commits a group. Alone, a call goes at
//! once; nothing waits for a timer.
//!
//! For owners who enter once and without a fence, that is for most: the others have keys of
//! their own besides the lock. Not in a cluster, where the locks are in different slots.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::LockError;
use super::cleanup::{Job, Submit};
use super::scripts::{self, Answer, Claim, Wish};
use crate::store::{Redis, StoreError};

/// Calls that wait to be sent. Who comes then waits for a place.
const MAX_QUEUED: usize = 16_384;
/// Calls in one script. Redis serves nobody else meanwhile: some 100 µs.
const MAX_BATCH: usize = 64;

/// Calls under way at once. With one, Redis would rest while the answers are given out, and
/// this process while Redis works; with more, each would carry less.
const SENDERS: usize = 2;

/// The way to the tasks that send.
#[derive(Debug)]
pub(super) struct Batches {
    calls: mpsc::Sender<Call>,
}

#[derive(Debug)]
struct Call {
    wish: Wish,
    reply: Reply,
    /// Ends when the call is dealt with and the answer collected, or dropped.
    under_way: TaskTrackerToken,
}

#[derive(Debug)]
enum Reply {
    Acquire(oneshot::Sender<Result<Delivery, LockError>>),
    Release(oneshot::Sender<Result<Option<u64>, LockError>>),
}

/// The answer to an acquire, on its way. A grant that nobody collects gives itself back.
#[derive(Debug)]
pub(super) struct Delivery {
    answer: Answer,
    grant: Option<(Arc<Claim>, Submit)>,
    /// Last: it ends after the clean-up was told.
    _under_way: TaskTrackerToken,
}

impl Delivery {
    pub(super) fn collect(mut self) -> Answer {
        self.grant = None;
        self.answer
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some((claim, submit)) = self.grant.take() {
            submit.submit(Job::release(claim));
        }
    }
}

impl Batches {
    pub(super) fn start(redis: Redis, submit: Submit) -> Self {
        let (calls, queue) = mpsc::channel(MAX_QUEUED);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..SENDERS {
            tokio::spawn(send_all(redis.clone(), submit.clone(), Arc::clone(&queue)));
        }
        Self { calls }
    }

    /// From the first poll on that goes beyond the queue, the hold is cleaned up after if
    /// this is dropped.
    pub(super) async fn acquire(
        &self,
        claim: &Arc<Claim>,
        under_way: TaskTrackerToken,
    ) -> Result<Answer, LockError> {
        let (reply, answer) = oneshot::channel();
        let wish = Wish::Acquire(Arc::clone(claim));
        self.send(Call { wish, reply: Reply::Acquire(reply), under_way }).await?;
        Ok(answer.await.map_err(|_| LockError::ShutDown)??.collect())
    }

    pub(super) async fn release(
        &self,
        claim: &Arc<Claim>,
        under_way: TaskTrackerToken,
    ) -> Result<Option<u64>, LockError> {
        let (reply, answer) = oneshot::channel();
        let wish = Wish::Release(Arc::clone(claim));
        self.send(Call { wish, reply: Reply::Release(reply), under_way }).await?;
        answer.await.map_err(|_| LockError::ShutDown)?
    }

    async fn send(&self, call: Call) -> Result<(), LockError> {
        self.calls.send(call).await.map_err(|_| LockError::ShutDown)
    }
}

/// Sends what has come, and while that is under way, the next is coming. Ends with the
/// client.
async fn send_all(redis: Redis, submit: Submit, queue: Arc<Mutex<mpsc::Receiver<Call>>>) {
    let mut calls = Vec::new();
    loop {
        if queue.lock().await.recv_many(&mut calls, MAX_BATCH).await == 0 {
            return;
        }
        // Not sent yet: there is nothing to clean up.
        calls.retain(|call| !call.is_unwanted());
        if calls.is_empty() {
            continue;
        }
        let wishes: Vec<Wish> = calls.iter().map(|call| call.wish.clone()).collect();
        let mut sent_on = None;
        match scripts::batch(&redis, &wishes, |generation| sent_on = Some(generation)).await {
            Ok(answers) => {
                for (call, answer) in calls.drain(..).zip(answers) {
                    call.answered(answer, &submit);
                }
            }
            Err(error) if calls.len() > 1 && !error.retry_may_help() => {
                // One of them is to blame (a name that this user may not touch, say), and the
                // others are not: each for itself.
                for call in calls.drain(..) {
                    alone(&redis, &submit, call).await;
                }
            }
            Err(error) => {
                for call in calls.drain(..) {
                    call.failed(&error, sent_on, &submit);
                }
                // Each would wait as long as these did, and for nothing. (Where the other
                // sender has the queue, it is empty, or being emptied.)
                if error.retry_may_help()
                    && let Ok(mut queue) = queue.try_lock()
                {
                    while let Ok(call) = queue.try_recv() {
                        call.failed(&error.not_sent(), None, &submit);
                    }
                }
            }
        }
    }
}

/// A batch of one.
async fn alone(redis: &Redis, submit: &Submit, call: Call) {
    let mut sent_on = None;
    let wish = [call.wish.clone()];
    match scripts::batch(redis, &wish, |generation| sent_on = Some(generation)).await {
        Ok(answers) => call.answered(answers.first().copied().unwrap_or(scripts::NO_LOCK), submit),
        Err(error) => call.failed(&error, sent_on, submit),
    }
}

impl Call {
    fn is_unwanted(&self) -> bool {
        match &self.reply {
            Reply::Acquire(reply) => reply.is_closed(),
            // Given back in any case.
            Reply::Release(_) => false,
        }
    }

    fn answered(self, number: i64, submit: &Submit) {
        let _under_way = self.under_way;
        let claim = match self.wish {
            Wish::Acquire(claim) | Wish::Release(claim) => claim,
        };
        let is_no_lock = number == scripts::NO_LOCK;
        let no_lock = || LockError::NotALock(claim.name.clone());
        match self.reply {
            Reply::Acquire(reply) => {
                let delivery = match number {
                    _ if is_no_lock => Err(no_lock()),
                    scripts::TAKEN => {
                        let answer = Answer::Granted { token: None };
                        Ok(Delivery { answer, grant: Some((claim, submit.clone())), _under_way })
                    }
                    left => {
                        let remaining = scripts::milliseconds(left);
                        Ok(Delivery { answer: Answer::Held { remaining }, grant: None, _under_way })
                    }
                };
                // Nobody wants it any more: dropped, it gives itself back.
                drop(reply.send(delivery));
            }
            Reply::Release(reply) => {
                let holds =
                    if is_no_lock { Err(no_lock()) } else { Ok(u64::try_from(number).ok()) };
                let _ = reply.send(holds);
            }
        }
    }

    fn failed(self, error: &StoreError, sent_on: Option<u64>, submit: &Submit) {
        let lock_error = |claim: &Claim| LockError::from_store(error.clone(), &claim.name);
        match (self.wish, self.reply) {
            (Wish::Acquire(claim), Reply::Acquire(reply)) => {
                let told = lock_error(&claim);
                // Also where the script stopped half-way: it may have come as far as this.
                if let Some(sent_on) = sent_on {
                    submit.submit(Job::uncollected(claim, sent_on));
                }
                let _ = reply.send(Err(told));
            }
            (Wish::Release(claim), Reply::Release(reply)) => {
                let _ = reply.send(Err(lock_error(&claim)));
            }
            _ => {}
        }
    }
}
