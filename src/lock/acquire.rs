//! Getting in: one try, and the wait.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::cleanup::Job;
use super::scripts::{self, Answer, Claim};
use super::wakeups::{Turn, Woken};
use super::{Guard, Lock, LockError, Owner};

/// Between two tries while Redis cannot be reached.
const OUTAGE_PAUSE: Duration = Duration::from_millis(100);

/// No connection has this number: for an acquire on a connection of its own.
const OWN_CONNECTION: u64 = u64::MAX;

/// What one try brought.
pub(super) enum Tried {
    Granted(Guard),
    /// Somebody else holds it, for so long yet; `None`: without an end.
    Held {
        remaining: Option<Duration>,
    },
}

/// Tries once.
#[tracing::instrument(level = "debug", name = "try_lock", skip_all, fields(name = lock.name))]
pub(super) async fn once(lock: &Lock, owner: Owner) -> Result<Tried, LockError> {
    // In this order: a shutdown waits for the token, or is seen here.
    let under_way = lock.inner.under_way.token();
    if lock.inner.stop.is_cancelled() {
        return Err(LockError::ShutDown);
    }
    let tried = send(lock, owner, under_way).await;
    if tried.is_ok() {
        lock.inner.outage.is_over();
    }
    tried
}

async fn send(lock: &Lock, owner: Owner, under_way: TaskTrackerToken) -> Result<Tried, LockError> {
    let claim = Claim::new(&lock.name, owner, lock.lease.duration(), lock.fenced);
    let claim = Arc::new(claim);
    if let (None, true, Some(batches)) = (lock.acknowledged, claim.is_plain(), &lock.inner.batches)
    {
        let sent_at = Instant::now();
        return match batches.acquire(&claim, under_way).await? {
            Answer::Held { remaining } => Ok(Tried::Held { remaining }),
            Answer::Granted { token } => {
                Ok(Tried::Granted(Guard::new(lock, claim, token, sent_at)))
            }
        };
    }
    // Armed just before it is sent: from there on, whoever drops this future leaves the
    // hold to the clean-up worker, whether it was granted or not.
    let armed = Armed { lock, claim: Some(claim), sent_on: OnceLock::new(), _under_way: under_way };
    // Boxed: it is the rarer way, and all who enter by the other one would carry it.
    Box::pin(armed.send()).await
}

/// Waits until `deadline`, or for ever. `None`: the deadline came first.
///
/// No try is cut short by the deadline: one that was sent is answered, or cleaned up after
/// as unknown. Dropping the future is safe at any point.
#[tracing::instrument(level = "debug", name = "wait_for_lock", skip_all, fields(name = lock.name))]
pub(super) async fn wait(
    lock: &Lock,
    deadline: Option<Instant>,
) -> Result<Option<Guard>, LockError> {
    let begun = Instant::now();
    let mut wait = Wait { lock, owner: lock.entering(), deadline };
    if let Step::Done(done) = wait.step(None).await? {
        return Ok(done);
    }
    metrics::counter!("seckill_lock_contended_total").increment(1);
    let waited = tokio::select! {
        biased;
        waited = wait.in_line() => waited,
        () = lock.inner.stop.cancelled() => Err(LockError::ShutDown),
    };
    metrics::histogram!("seckill_lock_wait_seconds").record(begun.elapsed().as_secs_f64());
    waited
}

/// One who waits.
struct Wait<'a> {
    lock: &'a Lock,
    owner: Owner,
    deadline: Option<Instant>,
}

enum Step {
    Done(Option<Guard>),
    /// Try again when woken, at this instant at the latest; `None`: the lock has no end.
    Later(Option<Instant>),
}

impl Wait<'_> {
    /// First of all the waiters of this process, one after the other; then whoever is first
    /// waits for the others' releases.
    async fn in_line(&mut self) -> Result<Option<Guard>, LockError> {
        let inner = &self.lock.inner;
        let channel = scripts::channel(&self.lock.name);
        // Owners whom nobody else has stand in one line. One who may enter again has a line of
        // its own: behind somebody who waits for it, it would wait for ever.
        let turn = inner.wakeups.line_up(&channel, self.lock.owner.as_ref());
        let turn = turn.ok_or(LockError::TooManyWaiters(inner.options.max_waiters))?;
        let mut turn: Turn = match self.deadline {
            Some(deadline) => match timeout_at(deadline, turn.first()).await {
                Ok(turn) => turn,
                Err(_) => return Ok(None),
            },
            None => turn.first().await,
        };
        let mut woken = None;
        loop {
            // Whether there is a subscription is looked up before the try: one that is
            // confirmed after it makes for another try.
            let listening = turn.is_listening();
            let until = match self.step(woken.take()).await? {
                Step::Done(done) => return Ok(done),
                Step::Later(until) => until,
            };
            woken = turn.wake(listening, until).await;
        }
    }

    /// One try. Whoever was `woken` for it passes that on if it cannot be made.
    async fn step(&mut self, woken: Option<Woken>) -> Result<Step, LockError> {
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let until = match once(self.lock, self.owner.clone()).await {
            Ok(tried) => {
                if let Some(woken) = woken {
                    woken.used();
                }
                match tried {
                    Tried::Granted(guard) => return Ok(Step::Done(Some(guard))),
                    Tried::Held { remaining } => remaining.map(|left| Instant::now() + left),
                }
            }
            Err(error) if error.retry_may_help() => {
                drop(woken);
                let inner = &self.lock.inner;
                if late || inner.outage.failed() >= inner.options.outage_patience {
                    return Err(error);
                }
                if self.lock.owner.is_none() {
                    // The clean-up gives back a hold of the owner it was sent for; the next
                    // grant must not be the one it finds.
                    self.owner = self.lock.entering();
                }
                let pause = Instant::now() + OUTAGE_PAUSE;
                sleep_until(self.deadline.map_or(pause, |deadline| pause.min(deadline))).await;
                Some(Instant::now())
            }
            Err(error) => return Err(error),
        };
        if late {
            return Ok(Step::Done(None));
        }
        Ok(Step::Later(match (until, self.deadline) {
            (Some(until), Some(deadline)) => Some(until.min(deadline)),
            (until, deadline) => until.or(deadline),
        }))
    }
}

/// A hold that may exist on the server and that nobody has collected yet.
struct Armed<'a> {
    lock: &'a Lock,
    claim: Option<Arc<Claim>>,
    /// The connection; unset until the acquire is sent.
    sent_on: OnceLock<u64>,
    /// Last: it ends after the clean-up was told.
    _under_way: TaskTrackerToken,
}

impl Armed<'_> {
    async fn send(mut self) -> Result<Tried, LockError> {
        let inner = &self.lock.inner;
        let Some(claim) = &self.claim else { return Ok(Tried::Held { remaining: None }) };
        let sent_at = Instant::now();
        let sent_on = &self.sent_on;
        let sending = |generation| _ = sent_on.set(generation);
        let answer = match self.lock.acknowledged {
            None => scripts::acquire(&inner.redis, claim, sending).await.map(|answer| (answer, 0)),
            Some(wanted) => {
                let sending = || sending(OWN_CONNECTION);
                scripts::acquire_acknowledged(&inner.redis, claim, wanted, sending).await
            }
        };
        let (answer, acknowledged) = match answer {
            Ok(answer) => answer,
            // Unknown: stays armed; dropping it cleans up.
            Err(error) if error.outcome_unknown() => return Err(error),
            Err(error) => {
                self.claim = None;
                return Err(error);
            }
        };
        let Some(claim) = self.claim.take() else { return Ok(Tried::Held { remaining: None }) };
        match answer {
            Answer::Held { remaining } => Ok(Tried::Held { remaining }),
            Answer::Granted { token } => {
                // A guard before anything else: whatever comes now, it gives the hold back.
                let guard = Guard::new(self.lock, claim, token, sent_at);
                self.admit(guard, acknowledged)
            }
        }
    }

    fn admit(&self, guard: Guard, acknowledged: usize) -> Result<Tried, LockError> {
        let wanted = self.lock.acknowledged.map_or(0, |wanted| wanted.replicas);
        if acknowledged < wanted {
            return Err(LockError::NotReplicated { wanted, acknowledged });
        }
        if self.lock.owner.is_some() {
            // Others of the same owner may be waiting: they can enter now.
            self.lock.inner.wakeups.stir(&scripts::channel(&self.lock.name));
        }
        Ok(Tried::Granted(guard))
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        if let (Some(claim), Some(sent_on)) = (self.claim.take(), self.sent_on.get()) {
            self.lock.inner.cleanup.submit(Job::uncollected(claim, *sent_on));
        }
    }
}
