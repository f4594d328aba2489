//! Those who were refused in a heavy overload and are not to be listened to for a while: on the
//! bench, until there is room again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::gate::Gate;

/// How often some are called back while there is room.
const CALL_EVERY: Duration = Duration::from_millis(10);

/// So many at a time, those included who were called before and have not been heard yet. All at
/// once would be a crowd of its own, since to refuse them takes time, too.
const CALLED_AT_A_TIME: usize = 100;

/// The bench of a gate.
#[derive(Debug)]
pub(super) struct Bench {
    count: AtomicUsize,
    /// Whether any may leave.
    is_open: AtomicBool,
    calls: Semaphore,
    /// So many calls are there, or somebody's who has not been heard yet.
    issued: AtomicUsize,
    /// Whether somebody looks even if nobody comes: while anybody is here.
    is_watched: AtomicBool,
    runtime: Handle,
}

impl Bench {
    pub(super) fn new(runtime: Handle) -> Self {
        Self {
            count: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            calls: Semaphore::new(0),
            issued: AtomicUsize::new(0),
            is_watched: AtomicBool::new(false),
            runtime,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether they are called back from now on.
    pub(super) fn open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::SeqCst);
        if !is_open {
            let taken_back = self.calls.forget_permits(CALLED_AT_A_TIME);
            self.issued.fetch_sub(taken_back, Ordering::SeqCst);
        }
    }

    /// Calls the next ones back.
    fn call(&self) {
        if self.is_open.load(Ordering::SeqCst) {
            let more = CALLED_AT_A_TIME.saturating_sub(self.issued.load(Ordering::SeqCst));
            self.issued.fetch_add(more, Ordering::SeqCst);
            self.calls.add_permits(more);
        }
    }
}

/// One on the bench. Until this is dropped he counts as one of the crowd, and no purchase of his is
/// under way.
#[derive(Debug)]
pub struct Benched(Arc<Gate>);

impl Benched {
    pub(super) fn new(gate: &Arc<Gate>) -> Self {
        let bench = &gate.bench;
        bench.count.fetch_add(1, Ordering::SeqCst);
        if !bench.is_watched.swap(true, Ordering::SeqCst) {
            bench.runtime.spawn(watch(Arc::clone(gate)));
        }
        Self(Arc::clone(gate))
    }

    /// There is room again, and it is his turn to be listened to.
    pub async fn called_back(&self) {
        let bench = &self.0.bench;
        if let Ok(call) = bench.calls.acquire().await {
            call.forget();
            // Now he is heard, and another one may be called; not when he has taken his answer,
            // which he may never do.
            bench.issued.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Benched {
    fn drop(&mut self) {
        self.0.bench.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Looks until the bench is empty.
async fn watch(gate: Arc<Gate>) {
    let bench = &gate.bench;
    loop {
        sleep(CALL_EVERY).await;
        bench.call();
        gate.look(None);
        if bench.count() == 0 {
            bench.is_watched.store(false, Ordering::SeqCst);
            // Who came just now may have found it watched.
            if bench.count() == 0 || bench.is_watched.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use futures_util::future::join_all;
    use futures_util::stream::FuturesUnordered;
    use futures_util::{FutureExt, StreamExt};
    use tokio::time::{advance, timeout};

    use super::*;
    use crate::seckill::gate::{Comer, GateOptions, Pass};
    use crate::seckill::look::LOOK_EVERY;

    const OPTIONS: GateOptions =
        GateOptions { least: 1, burst: 100, most: 1_000, wait: Duration::from_millis(20) };

    /// Let in as long as there is room, and on the bench who is told so; in an overload in the end.
    async fn crowd(gate: &Arc<Gate>) -> (Vec<Pass>, Vec<Benched>) {
        let (mut inside, mut benched) = (Vec::new(), Vec::new());
        while benched.len() < 700 {
            for _ in 0..200 {
                match gate.enter(Comer::default()) {
                    Ok(pass) => inside.push(pass),
                    Err(refused) => benched.extend(refused),
                }
            }
            advance(LOOK_EVERY).await;
        }
        (inside, benched)
    }

    /// How many may leave at once.
    fn calls(gate: &Gate) -> usize {
        gate.bench.calls.available_permits()
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_heavy_overload_the_refused_are_on_the_bench_until_there_is_room() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let early = || gate.enter(Comer { behind: 0, is_early: true });
        assert!(matches!(early(), Err(None)), "no overload, but he was to come later");
        let (inside, benched) = crowd(&gate).await;
        assert!(matches!(early(), Err(Some(_))));
        assert_eq!(gate.bench.count(), benched.len());
        // Nobody comes any more. But those inside take up the room.
        sleep(LOOK_EVERY * 10).await;
        assert_eq!(calls(&gate), 0);
        drop(inside);
        let heard = join_all(benched.iter().map(Benched::called_back));
        timeout(LOOK_EVERY * 4, heard).await.unwrap();
        assert!(matches!(early(), Err(None)), "to be refused a second time is enough");
        drop(benched);
        sleep(LOOK_EVERY * 4).await;
        assert!(!gate.bench.is_watched.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_called_than_are_heard() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let (inside, benched) = crowd(&gate).await;
        drop(inside);
        let mut waiting: FuturesUnordered<_> = benched.iter().map(Benched::called_back).collect();
        // Of those who have been called since the last time. No time passes meanwhile.
        let mut heard = |at_most: usize| {
            let next = || waiting.next().now_or_never().flatten();
            std::iter::from_fn(next).take(at_most).count()
        };
        assert_eq!(heard(usize::MAX), 0);
        sleep(LOOK_EVERY * 4).await;
        assert_eq!(heard(3), 3);
        sleep(LOOK_EVERY * 4).await;
        assert_eq!(heard(usize::MAX), CALLED_AT_A_TIME, "three in place of three");
        sleep(LOOK_EVERY * 4).await;
        assert_eq!(heard(usize::MAX), CALLED_AT_A_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn without_room_nobody_is_called_though_others_have_been_heard_or_have_left() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let (inside, benched) = crowd(&gate).await;
        drop(inside);
        join_all(benched[..10].iter().map(Benched::called_back)).await;
        // Whoever leaves takes no call along.
        drop(benched);
        sleep(LOOK_EVERY * 4).await;
        assert_eq!(calls(&gate), CALLED_AT_A_TIME);
        let (_inside, _benched) = crowd(&gate).await;
        assert_eq!(calls(&gate), 0);
        sleep(LOOK_EVERY * 4).await;
        assert_eq!((calls(&gate), gate.bench.issued.load(Ordering::Relaxed)), (0, 0));
    }
}
