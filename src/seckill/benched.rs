//! Those who were refused in a heavy overload and are not to be listened to for a while: on the
//! bench, until there is room again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::gate::{Gate, LOOK_EVERY};

/// So many are called back after each look that saw room. All at once would be a burst of its own,
/// since to refuse them takes time, too.
const CALLED_BACK: usize = 1_600;

/// The bench of a gate.
#[derive(Debug)]
pub(super) struct Bench {
    count: AtomicUsize,
    /// How many of them may leave.
    leave: Semaphore,
    /// Whether somebody looks even if nobody comes: while anybody is here.
    is_watched: AtomicBool,
    runtime: Handle,
}

impl Bench {
    pub(super) fn new(runtime: Handle) -> Self {
        let (count, leave) = (AtomicUsize::new(0), Semaphore::new(0));
        Self { count, leave, is_watched: AtomicBool::new(false), runtime }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub(super) fn call_back(&self) {
        let told = self.leave.available_permits();
        self.leave.add_permits(self.count().saturating_sub(told).min(CALLED_BACK));
    }

    /// The calls of those who left without them are nobody's.
    fn forget(&self) {
        self.leave.forget_permits(self.leave.available_permits());
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
        if let Ok(permit) = self.0.bench.leave.acquire().await {
            permit.forget();
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
        sleep(LOOK_EVERY).await;
        gate.look(None);
        if bench.count() == 0 {
            bench.forget();
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
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::time::{advance, timeout};

    use super::*;
    use crate::seckill::gate::{Comer, GateOptions, Pass};

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
        assert_eq!(gate.bench.leave.available_permits(), 0);
        drop(inside);
        let waited = join_all(benched.iter().map(Benched::called_back));
        timeout(LOOK_EVERY * 4, waited).await.unwrap();
        assert!(matches!(early(), Err(None)), "to be refused a second time is enough");
        assert!(gate.bench.is_watched.load(Ordering::Relaxed));
        drop(benched);
        sleep(LOOK_EVERY * 4).await;
        assert!(!gate.bench.is_watched.load(Ordering::Relaxed));
        assert_eq!(gate.bench.leave.available_permits(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_before_he_is_called_back_leaves_his_call_to_nobody() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let (inside, benched) = crowd(&gate).await;
        drop(inside);
        sleep(LOOK_EVERY * 4).await;
        assert!(gate.bench.leave.available_permits() >= benched.len());
        drop(benched);
        sleep(LOOK_EVERY * 4).await;
        let (_inside, _benched) = crowd(&gate).await;
        sleep(LOOK_EVERY * 4).await;
        assert_eq!(gate.bench.leave.available_permits(), 0);
    }
}
