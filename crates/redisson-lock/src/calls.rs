//! Acquires and releases that wait together travel in one pipeline.
//!
//! Not in a cluster: there the locks are on different servers, and each call is sent by itself.

use std::sync::{Arc, Mutex, PoisonError};

use redis::Value;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::cleanup::{CleanupItem, CleanupQueue};
use super::error::LockError;
use super::scripts::{self, AcquireAnswer, Claim};
use crate::connection::{Redis, RedisError, ScriptCall};
use group_commit::{Batcher, Limits};

/// With one pipeline in flight, Redis would rest while the answers are given out, and this process
/// while Redis works; with more than two, each would carry less.
const LIMITS: Limits = Limits { batch: 64, waiting: 16_384, leaders: 2 };

/// Sends the calls of one client.
#[derive(Debug)]
pub(super) struct Calls {
    batcher: Batcher<Call, CallReply, RedisError>,
}

#[derive(Debug)]
struct Call {
    kind: Kind,
    claim: Arc<Claim>,
    /// Ends when the answer is collected or dropped.
    under_way: TaskTrackerToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Acquire,
    Release,
}

/// The answer to a call, on its way to the caller. A grant that nobody collects is released, and a
/// place in a queue is left.
#[derive(Debug)]
struct CallReply {
    answer: Result<Replied, LockError>,
    uncollected: Option<(Arc<Claim>, CleanupQueue)>,
    /// Last: it ends after the clean-up was told.
    _under_way: TaskTrackerToken,
}

#[derive(Debug)]
enum Replied {
    Acquire(AcquireAnswer),
    /// Holds left; `None`: nothing was held by the claim.
    Release(Option<u64>),
}

impl Drop for CallReply {
    fn drop(&mut self) {
        if let Some((claim, cleanup)) = self.uncollected.take() {
            cleanup.submit(CleanupItem::release(claim));
        }
    }
}

impl CallReply {
    fn collect(mut self) -> Result<Replied, LockError> {
        self.uncollected = None;
        std::mem::replace(&mut self.answer, Err(LockError::ShutDown))
    }
}

impl Calls {
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn start(redis: Redis, cleanup: CleanupQueue) -> Self {
        let batcher = Batcher::new(LIMITS, move |calls: Vec<Call>| {
            let (redis, cleanup) = (redis.clone(), cleanup.clone());
            async move { send(&redis, &cleanup, calls).await }
        });
        Self { batcher }
    }

    /// Takes a lock. If the caller stops waiting, the hold is released.
    pub(super) async fn acquire(
        &self,
        claim: &Arc<Claim>,
        under_way: TaskTrackerToken,
    ) -> Result<AcquireAnswer, LockError> {
        match self.submit(Kind::Acquire, claim, under_way).await? {
            Replied::Acquire(answer) => Ok(answer),
            // Never: a reply is of its call's kind.
            Replied::Release(_) => Ok(AcquireAnswer::Held { remaining: None }),
        }
    }

    /// Releases one hold. Holds left; `None`: nothing was held by the claim.
    pub(super) async fn release(
        &self,
        claim: &Arc<Claim>,
        under_way: TaskTrackerToken,
    ) -> Result<Option<u64>, LockError> {
        match self.submit(Kind::Release, claim, under_way).await? {
            Replied::Release(holds) => Ok(holds),
            // As above.
            Replied::Acquire(_) => Ok(None),
        }
    }

    async fn submit(
        &self,
        kind: Kind,
        claim: &Arc<Claim>,
        under_way: TaskTrackerToken,
    ) -> Result<Replied, LockError> {
        let call = Call { kind, claim: Arc::clone(claim), under_way };
        match self.batcher.submit(call).await {
            Ok(reply) => reply.collect(),
            Err(error) => {
                let error = RedisError::from_batch(error);
                Err(LockError::from_redis(error, &claim.name))
            }
        }
    }
}

/// Sends one pipeline. Where its outcome is unknown, every acquire in it may have been granted: the
/// clean-up releases them.
async fn send(
    redis: &Redis,
    cleanup: &CleanupQueue,
    calls: Vec<Call>,
) -> Result<Vec<CallReply>, RedisError> {
    let scripts: Vec<ScriptCall> = calls.iter().map(Call::script).collect();
    let sent_on = Mutex::new(None);
    let noting = |generation| {
        *sent_on.lock().unwrap_or_else(PoisonError::into_inner) = Some(generation);
    };
    let answers = redis.call_all(&scripts, noting).await;
    let sent_on = sent_on.into_inner().unwrap_or_else(PoisonError::into_inner);
    match answers {
        Ok(answers) => {
            let replies = calls.into_iter().zip(answers);
            Ok(replies.map(|(call, answer)| call.replied(answer, cleanup, sent_on)).collect())
        }
        Err(error) => {
            for call in calls {
                drop(call.failed(cleanup, sent_on));
            }
            Err(error)
        }
    }
}

impl Call {
    fn script(&self) -> ScriptCall {
        match self.kind {
            Kind::Acquire => scripts::acquire_call(&self.claim, false),
            Kind::Release => scripts::release_call(&self.claim, false, false),
        }
    }

    fn replied(
        self,
        answer: Result<Value, RedisError>,
        cleanup: &CleanupQueue,
        sent_on: Option<u64>,
    ) -> CallReply {
        let name = &self.claim.name;
        let answer = answer.map_err(|error| LockError::from_redis(error, name));
        let answer = answer.and_then(|value| match self.kind {
            Kind::Acquire => scripts::acquired(value, name).map(Replied::Acquire),
            Kind::Release => scripts::released(value, name).map(Replied::Release),
        });
        let leaves_something = match &answer {
            Ok(Replied::Acquire(AcquireAnswer::Granted { .. })) => true,
            Ok(Replied::Acquire(AcquireAnswer::Held { .. })) => self.claim.waits_in_redis(),
            _ => false,
        };
        let uncollected = leaves_something.then(|| (Arc::clone(&self.claim), cleanup.clone()));
        let failed = matches!(&answer, Err(error) if !matches!(error, LockError::NotALock { .. }));
        if failed {
            // The script may have come as far as the grant before it stopped.
            return CallReply { answer, uncollected, _under_way: self.failed(cleanup, sent_on) };
        }
        CallReply { answer, uncollected, _under_way: self.under_way }
    }

    fn failed(self, cleanup: &CleanupQueue, sent_on: Option<u64>) -> TaskTrackerToken {
        if let (Kind::Acquire, Some(sent_on)) = (self.kind, sent_on) {
            cleanup.submit(CleanupItem::uncollected(self.claim, sent_on));
        }
        self.under_way
    }
}
