//! The clean-up worker releases what was dropped: an acquire whose caller left, a guard that went
//! out of scope, a release whose answer never came.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::claim::Claim;
use super::error::LockError;
use super::metric::count;
use super::options::SHUTDOWN_LIMIT;
use super::scripts;
use super::waiters::Waiters;
use redis_link::Redis;

/// Jobs that wait. The hold of one more is left to its lease, which ends by itself.
const MAX_QUEUED: usize = 65_536;
/// Calls under way at once. The jobs are more: some only wait to look again.
const MAX_CALLS: usize = 64;
/// Between two tries of a job.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The same for an acquire that may yet arrive on a connection that was given up: the network may hold the
/// acquire back for long, but rarely does.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a shutdown looks for such an acquire.
const LATE_ARRIVAL: Duration = Duration::from_secs(1);
/// How long a place in the queue of a fair lock is kept at least: see `fair_queue.lua`.
const PLACE: Duration = Duration::from_secs(5 * 60);

/// A hold to give back.
#[derive(Debug)]
pub(super) struct CleanupItem {
    pub(super) claim: Arc<Claim>,
    /// For an acquire that may have been granted: the connection it was sent on.
    sent_on: Option<u64>,
    submitted: Instant,
}

impl CleanupItem {
    /// A hold that is known to have been granted.
    pub(super) fn release(claim: Arc<Claim>) -> Self {
        Self { claim, sent_on: None, submitted: Instant::now() }
    }

    /// A hold that may have been granted, and that no guard has.
    pub(super) fn perhaps_granted(claim: Arc<Claim>, sent_on: u64) -> Self {
        Self { claim, sent_on: Some(sent_on), submitted: Instant::now() }
    }

    /// By then the lease has ended, which nobody renews any more, and so has the place in the queue of a
    /// fair lock.
    fn deadline(&self) -> Instant {
        let place = if self.claim.waits_in_redis() { PLACE } else { Duration::ZERO };
        self.submitted + self.claim.lease.max(place)
    }

    /// Whether the acquire may reach the server after a release that found nothing. On one connection the
    /// release follows the acquire. After a reconnect the acquire may still lie in the old connection. (An
    /// acquire that is recorded finds in the record that it was withdrawn, as long as its owner has not
    /// begun another.)
    fn may_be_on_its_way(&self, redis: &Redis) -> bool {
        self.sent_on.is_some_and(|sent_on| redis.generation() != Some(sent_on))
    }
}

/// The way to the worker.
#[derive(Debug)]
pub(super) struct Cleanup {
    queue: CleanupQueue,
    stop: CancellationToken,
    tracker: TaskTracker,
}

/// Where jobs are handed in.
#[derive(Debug, Clone)]
pub(super) struct CleanupQueue {
    jobs: mpsc::Sender<CleanupItem>,
}

impl CleanupQueue {
    /// Never waits, needs no runtime: it is called from `drop`.
    pub(super) fn submit(&self, job: CleanupItem) {
        if let Err(error) = self.jobs.try_send(job) {
            count!(CLEANUP_SKIPPED, 1);
            tracing::warn!(%error, "a dropped lock is left to its lease");
        }
    }
}

impl Cleanup {
    pub(super) fn start(redis: Redis, waiters: Waiters) -> Self {
        let (jobs, queue) = mpsc::channel(MAX_QUEUED);
        let stop = CancellationToken::new();
        let tracker = TaskTracker::new();
        let worker =
            CleanupWorker { redis, waiters, calls: Semaphore::new(MAX_CALLS), stop: stop.clone() };
        tracker.spawn(worker.work(queue));
        tracker.close();
        Self { queue: CleanupQueue { jobs }, stop, tracker }
    }

    pub(super) fn queue(&self) -> CleanupQueue {
        self.queue.clone()
    }

    /// See [`CleanupQueue::submit`].
    pub(super) fn submit(&self, job: CleanupItem) {
        self.queue.submit(job);
    }

    pub(super) async fn shutdown(&self) {
        self.stop.cancel();
        if tokio::time::timeout(SHUTDOWN_LIMIT, self.tracker.wait()).await.is_err() {
            tracing::warn!("locks that could not be given back are left to their leases");
        }
    }
}

/// Gives back the hold of `claim`, if it has one. If the claim waited for a fair lock and the wait is over,
/// its owner leaves the queue, unless somebody else waits there with the same owner: they have one place.
pub(super) async fn give_back(
    redis: &Redis,
    waiters: &Waiters,
    claim: &Claim,
) -> Result<Option<u64>, LockError> {
    if !claim.has_waited() {
        return scripts::release(redis, claim, false).await;
    }
    let channel = claim.channel();
    let given_back = scripts::release(redis, claim, !waiters.are_at(&channel)).await;
    // A waiter that has come with this owner meanwhile may have lost the place.
    waiters.retry_all(&channel);
    given_back
}

/// What the jobs of a worker share.
struct CleanupWorker {
    redis: Redis,
    waiters: Waiters,
    calls: Semaphore,
    stop: CancellationToken,
}

impl CleanupWorker {
    async fn work(self, queue: mpsc::Receiver<CleanupItem>) {
        let jobs = futures_util::stream::unfold(queue, |mut queue| async {
            let job = tokio::select! {
                biased;
                job = queue.recv() => job,
                // Stopped: what was submitted before is still done.
                () = self.stop.cancelled() => {
                    queue.close();
                    queue.recv().await
                }
            };
            job.map(|job| (job, queue))
        });
        jobs.for_each_concurrent(MAX_QUEUED, |job| self.do_job(job)).await;
    }

    async fn do_job(&self, job: CleanupItem) {
        let mut pause = RETRY_PAUSE;
        loop {
            let answer = {
                let Ok(_call) = self.calls.acquire().await else {
                    unreachable!("nobody closes the semaphore of the clean-up's calls");
                };
                give_back(&self.redis, &self.waiters, &job.claim).await
            };
            match answer {
                Ok(None) if job.may_be_on_its_way(&self.redis) => {
                    // Look again, less and less often, for as long as it could do harm.
                    if self.stop.is_cancelled() && job.submitted.elapsed() > LATE_ARRIVAL {
                        break;
                    }
                    if job.submitted.elapsed() > LATE_ARRIVAL {
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
                Ok(given_back) => {
                    count!(CLEANED_UP, u64::from(given_back.is_some()));
                    break;
                }
                Err(error) if error.retry_may_help() => pause = RETRY_PAUSE,
                Err(error) => {
                    let name = &job.claim.name;
                    tracing::warn!(name, %error, "a dropped lock was not given back");
                    break;
                }
            }
            if Instant::now() + pause >= job.deadline() {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.cancelled(), if pause > RETRY_PAUSE => {}
            }
        }
    }
}
