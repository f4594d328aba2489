//! Several locks as one: tried at once, watched together, released together. A multi-lock needs all
//! of them, a RedLock a majority.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::error::LockError;
use super::guard::Guard;
use super::handle::Lock;
use super::validity::Validity;
use redis_link::LinkError;
use redis_link::timeout::within;

/// What a try of several locks at once brought, each by its place in the list.
#[derive(Debug, Default)]
pub(super) struct Tries {
    pub(super) granted: Vec<(usize, Guard)>,
    /// Where another owner holds it.
    pub(super) held: Vec<usize>,
    pub(super) failures: Vec<(usize, LockError)>,
}

/// Tries all of `locks` at once, except the one that is `had` already. One that does not
/// answer within `patience` is a failure.
///
/// Dropping this gives everything back: a grant that was counted is a guard, and a try that
/// is under way cleans up after itself. A time-out is nothing but such a drop.
pub(super) async fn try_all(
    locks: &[Lock],
    had: Option<(usize, Guard)>,
    patience: Option<Duration>,
) -> Tries {
    let had_already = had.as_ref().map(|(place, _)| *place);
    let tries = locks.iter().enumerate().filter(|(place, _)| Some(*place) != had_already);
    let tries = join_all(tries.map(async |(place, lock)| {
        let answer = at_most(patience, lock.try_acquire()).await;
        (place, answer)
    }));
    let mut tried = Tries::default();
    for (place, answer) in tries.await {
        match answer {
            Ok(Some(guard)) => tried.granted.push((place, guard)),
            Ok(None) => tried.held.push(place),
            Err(error) => tried.failures.push((place, error)),
        }
    }
    tried.granted.extend(had);
    tried.granted.sort_by_key(|(place, _)| *place);
    tried
}

/// Gives back every one of them at once, and says which could not be. What does not answer
/// within `patience` is left to the clean-up worker.
pub(super) async fn give_back(
    guards: Vec<(usize, Guard)>,
    patience: Option<Duration>,
) -> Vec<(usize, LockError)> {
    let releases = guards.into_iter().map(async |(place, guard)| {
        let released = at_most(patience, guard.release()).await;
        released.err().map(|error| (place, error))
    });
    join_all(releases).await.into_iter().flatten().collect()
}

async fn at_most<T>(
    patience: Option<Duration>,
    answer: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    let Some(patience) = patience else { return answer.await };
    within(patience, answer).await.unwrap_or_else(|silence| {
        // It may have been sent, and it may be done yet.
        Err(LockError::Redis(LinkError::unknown(silence)))
    })
}

/// After `misses` in a row: two that are in each other's way must not go on in step.
pub(super) async fn pause_at_random(longest: Duration, misses: u32, deadline: Option<Instant>) {
    let pause = random_part(longest * misses.min(8));
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    sleep(left.map_or(pause, |left| pause.min(left))).await;
}

/// Some part of it, up to all: the standard library's hasher has another key each time.
pub(super) fn random_part(longest: Duration) -> Duration {
    longest.mul_f64(RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64)
}

/// Guards held as one, which lasts as long as `needed` of them do.
#[derive(Debug)]
pub(super) struct LockGroup {
    guards: Vec<(usize, Guard)>,
    needed: usize,
    drift: Duration,
    lost: CancellationToken,
    /// Stops when this is dropped.
    watch: AbortOnDropHandle<()>,
}

impl LockGroup {
    /// `drift`: how much sooner than by this machine's clock a lease may end.
    pub(super) fn new(guards: Vec<(usize, Guard)>, needed: usize, drift: Duration) -> Self {
        let lost = CancellationToken::new();
        let leases: Vec<_> =
            guards.iter().map(|(place, guard)| (*place, guard.lease_validity().clone())).collect();
        let announce = lost.clone();
        let watch = tokio::spawn(async move {
            until_lost(leases, needed, drift).await;
            announce.cancel();
        });
        Self { guards, needed, drift, lost, watch: AbortOnDropHandle::new(watch) }
    }

    pub(super) fn guards(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter().map(|(_, guard)| guard)
    }

    pub(super) fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.lost.clone().cancelled_owned()
    }

    pub(super) fn validity(&self) -> Duration {
        if self.lost.is_cancelled() {
            return Duration::ZERO;
        }
        let each = self.guards().map(Guard::validity).collect();
        validity(each, self.needed, self.drift)
    }

    /// Gives back all of them; which could not be, and how many there were.
    pub(super) async fn release(
        self,
        patience: Option<Duration>,
    ) -> (usize, Vec<(usize, LockError)>) {
        // Before the releases: what is given back is not lost.
        drop(self.watch);
        (self.guards.len(), give_back(self.guards, patience).await)
    }
}

/// How long `needed` of them last.
fn validity(mut each: Vec<Duration>, needed: usize, drift: Duration) -> Duration {
    each.sort_unstable_by(|a, b| b.cmp(a));
    each.get(needed - 1).map_or(Duration::ZERO, |left| left.saturating_sub(drift))
}

/// Returns when fewer than `needed` are left, or may be left.
async fn until_lost(mut leases: Vec<(usize, Validity)>, needed: usize, drift: Duration) {
    loop {
        let each = leases.iter().map(|(_, lease)| lease.left()).collect();
        let left = validity(each, needed, drift);
        if left.is_zero() {
            return;
        }
        let lost = leases.iter().map(|(_, lease)| Box::pin(lease.lost()));
        let place = tokio::select! {
            ((), place, _) = select_all(lost) => place,
            // Renewed meanwhile, or over.
            () = sleep(left) => continue,
        };
        let (node, _) = leases.remove(place);
        if leases.len() >= needed {
            tracing::warn!(node, left = leases.len(), needed, "a node lost a lock of a majority");
        } else {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_guards_last_is_what_the_last_one_needed_does() {
        let each = |seconds: &[u64]| seconds.iter().copied().map(Duration::from_secs).collect();
        let drift = Duration::from_secs(1);
        for (seconds, needed, left) in [
            (&[5, 9, 7][..], 3, 4), // all of them: the smallest
            (&[5, 9, 7], 2, 6),     // a majority: the second largest
            (&[0, 9, 0], 2, 0),
            (&[9], 2, 0),
            (&[1, 1], 2, 0),
        ] {
            let left = Duration::from_secs(left);
            assert_eq!(validity(each(seconds), needed, drift), left, "{seconds:?} {needed}");
        }
    }
}
