//! Acquires and releases that wait together travel in one pipeline.
//!
//! Not in a cluster: there the locks are on different servers, and each call is sent by itself.

use std::sync::{Arc, Mutex, PoisonError};

use redis::Value;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::claim::Claim;
use super::cleanup::{CleanupItem, CleanupQueue};
use super::error::LockError;
use super::scripts::{self, AcquireAnswer};
use group_commit::{BatchError, Batcher, Limits};
use redis_link::{LinkError, Redis, ScriptCall};

/// With one pipeline in flight, Redis would rest while the answers are given out, and this process
/// while Redis works; with more than two, each would carry less.
const LIMITS: Limits = Limits::batches_of(64).leaders(2);

/// Sends the calls of one client.
#[derive(Debug)]
pub(super) struct Calls {
    batcher: Batcher<Call, CallReply, LinkError>,
}

#[derive(Debug)]
struct Call {
    kind: Kind,
    claim: Arc<Claim>,
    /// Ends when the answer is collected or dropped; a shutdown waits for that.
    under_way: TaskTrackerToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Acquire,
    Release,
}

/// The answer to a call, on its way to the caller.
#[derive(Debug)]
struct CallReply {
    answer: Result<Replied, LockError>,
    abandoned: Abandoned,
    /// Last: it ends after the clean-up was told.
    _under_way: TaskTrackerToken,
}

#[derive(Debug)]
enum Replied {
    Acquire(AcquireAnswer),
    /// Holds left; `None`: nothing was held by the claim.
    Release(Option<u64>),
}

/// What an acquire leaves in Redis if its caller is gone when the answer comes: a grant, or a place in the
/// queue of a fair lock. Dropping it hands the claim to the clean-up, which releases the grant and, once the
/// wait is over, gives up the place. `None`: there is nothing, or the caller has it.
#[derive(Debug)]
struct Abandoned(Option<(Arc<Claim>, CleanupQueue)>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some((claim, cleanup)) = self.0.take() {
            cleanup.submit(CleanupItem::release(claim));
        }
    }
}

impl CallReply {
    /// The caller is there: the grant is its own now.
    fn collect(mut self) -> Result<Replied, LockError> {
        self.abandoned.0 = None;
        self.answer
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

    /// Tries to take a lock. If the caller stops waiting, the clean-up releases what was granted.
    pub(super) async fn acquire(
        &self,
        claim: &Arc<Claim>,
        under_way: TaskTrackerToken,
    ) -> Result<AcquireAnswer, LockError> {
        match self.submit(Kind::Acquire, claim, under_way).await? {
            Replied::Acquire(answer) => Ok(answer),
            Replied::Release(_) => unreachable!("an acquire was given the answer to a release"),
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
            Replied::Acquire(_) => unreachable!("a release was given the answer to an acquire"),
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
            Err(error) => Err(LockError::from_redis(from_batch(error), &claim.name)),
        }
    }
}

fn from_batch(error: BatchError<LinkError>) -> LinkError {
    match error {
        BatchError::Full => LinkError::unavailable("too many requests wait for it already"),
        BatchError::Stopped => LinkError::unavailable("the runtime of its connection has stopped"),
        BatchError::NoSlot => {
            LinkError::unavailable("its turn among the batches did not come in time")
        }
        BatchError::NotStarted(before) => LinkError::unsent_after(&before),
        BatchError::Failed(error) => error,
        _ => LinkError::unknown("the batch was interrupted"),
    }
}

/// Sends one pipeline and reads its answers. Where it failed after it was sent, every acquire in it may have
/// been granted: the clean-up releases them.
async fn send(
    redis: &Redis,
    cleanup: &CleanupQueue,
    calls: Vec<Call>,
) -> Result<Vec<CallReply>, LinkError> {
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
        answer: Result<Value, LinkError>,
        cleanup: &CleanupQueue,
        sent_on: Option<u64>,
    ) -> CallReply {
        let name = &self.claim.name;
        let answer = answer.map_err(|error| LockError::from_redis(error, name));
        let answer = answer.and_then(|value| match self.kind {
            Kind::Acquire => scripts::acquired(value, &self.claim).map(Replied::Acquire),
            Kind::Release => scripts::released(value, &self.claim).map(Replied::Release),
        });
        let leaves_something = match &answer {
            Ok(Replied::Acquire(AcquireAnswer::Granted { .. })) => true,
            Ok(Replied::Acquire(AcquireAnswer::Held { .. })) => self.claim.waits_in_redis(),
            _ => false,
        };
        let abandoned =
            Abandoned(leaves_something.then(|| (Arc::clone(&self.claim), cleanup.clone())));
        let failed = matches!(&answer, Err(error) if !matches!(error, LockError::NotALock { .. }));
        if failed {
            // The script may have come as far as the grant before it stopped.
            return CallReply { answer, abandoned, _under_way: self.failed(cleanup, sent_on) };
        }
        CallReply { answer, abandoned, _under_way: self.under_way }
    }

    fn failed(self, cleanup: &CleanupQueue, sent_on: Option<u64>) -> TaskTrackerToken {
        if let (Kind::Acquire, Some(sent_on)) = (self.kind, sent_on) {
            cleanup.submit(CleanupItem::perhaps_granted(self.claim, sent_on));
        }
        self.under_way
    }
}
