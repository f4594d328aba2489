//! The worker that gives back what was dropped: an acquire nobody waited for, a guard
//! that went out of scope, a release whose answer never came.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client::SHUTDOWN_LIMIT;
use super::scripts::{self, Claim};
use crate::store::Redis;

/// Jobs that wait. One more is left to its lease, which ends by itself.
const MAX_QUEUED: usize = 65_536;
/// Jobs under way at once.
const MAX_CONCURRENT: usize = 64;
/// Between two tries of a job.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A hold to give back.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) claim: Claim,
    /// For an acquire that nobody collected: the connection it was sent on.
    uncollected: Option<u64>,
    submitted: Instant,
}

impl Job {
    /// A hold that was known to be held.
    pub(super) fn release(claim: Claim) -> Self {
        Self { claim, uncollected: None, submitted: Instant::now() }
    }

    /// A hold that may have been granted, and that nobody knows of.
    pub(super) fn uncollected(claim: Claim, sent_on: u64) -> Self {
        Self { claim, uncollected: Some(sent_on), submitted: Instant::now() }
    }

    /// After this the server has let go by itself; nobody renews.
    fn deadline(&self) -> Instant {
        self.submitted + self.claim.lease
    }

    /// Whether the acquire may reach the server after a release that found nothing. On one
    /// connection the release follows it; after a reconnect it may still lie in the old
    /// one. (One that is recorded finds in the record that it was withdrawn.)
    fn may_be_on_its_way(&self, redis: &Redis) -> bool {
        !self.claim.is_recorded()
            && self.uncollected.is_some_and(|sent_on| redis.generation() != Some(sent_on))
            && self.submitted.elapsed() < RETRY_PAUSE * 10
    }
}

/// The way to the worker.
#[derive(Debug)]
pub(super) struct Cleanup {
    jobs: mpsc::Sender<Job>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Cleanup {
    pub(super) fn start(redis: Redis) -> Self {
        let (jobs, queue) = mpsc::channel(MAX_QUEUED);
        let stop = CancellationToken::new();
        let tracker = TaskTracker::new();
        tracker.spawn(work(redis, queue, stop.clone()));
        tracker.close();
        Self { jobs, stop, tracker }
    }

    /// Never waits, needs no runtime: it is called from `drop`.
    pub(super) fn submit(&self, job: Job) {
        if let Err(error) = self.jobs.try_send(job) {
            metrics::counter!("seckill_lock_cleanup_skipped_total").increment(1);
            tracing::warn!(%error, "a dropped lock is left to its lease");
        }
    }

    pub(super) async fn shutdown(&self) {
        self.stop.cancel();
        if tokio::time::timeout(SHUTDOWN_LIMIT, self.tracker.wait()).await.is_err() {
            tracing::warn!("locks that could not be given back are left to their leases");
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn work(redis: Redis, queue: mpsc::Receiver<Job>, stop: CancellationToken) {
    let jobs = futures_util::stream::unfold((queue, stop), |(mut queue, stop)| async {
        let job = tokio::select! {
            biased;
            job = queue.recv() => job,
            // Stopped: what was submitted before is still done.
            () = stop.cancelled() => {
                queue.close();
                queue.recv().await
            }
        };
        job.map(|job| (job, (queue, stop)))
    });
    jobs.for_each_concurrent(MAX_CONCURRENT, |job| give_back(&redis, job)).await;
}

async fn give_back(redis: &Redis, job: Job) {
    loop {
        match scripts::release(redis, &job.claim).await {
            Ok(None) if job.may_be_on_its_way(redis) => {} // look again for a while
            Ok(_) => break,
            Err(error) if error.retry_may_help() => {}
            Err(error) => {
                tracing::warn!(name = job.claim.name, %error, "a dropped lock was not given back");
                break;
            }
        }
        if Instant::now() + RETRY_PAUSE >= job.deadline() {
            break;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    metrics::counter!("seckill_lock_cleaned_up_total").increment(1);
}
