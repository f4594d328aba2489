//! Load shedding: how many purchases may be under way, so that those that are stay fast.
//!
//! By Little's law (L = λW) a purchase waits for as long as the purchases before it take, and as
//! many as are under way divided by those that end in a second is how long. So the gate lets in as
//! many as end within [`GateOptions::wait`], and refuses the surplus at once: it would only make
//! everybody wait, itself included, and be sold nothing sooner.
//!
//! The beginning of a sale is no overload. Everybody comes within a moment, and is to be served: a
//! burst is let in beyond the limit. What it may be is used up by an overload that lasts, and
//! comes back within a second after nobody has been refused.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

/// Between two looks at how many purchases end in a second.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// In how long a burst that was used up comes back.
const REST: Duration = Duration::from_secs(1);

/// How much of the last look is kept in the next, where that shows a lower rate: a pause of a
/// moment, for a checkpoint say, is no reason to refuse.
const KEPT: f64 = 0.8;

/// What a gate lets in.
#[derive(Debug, Clone, Copy)]
pub struct GateOptions {
    /// So many may always be under way.
    pub always: usize,
    /// Never more than so many.
    pub most: usize,
    /// How long a purchase may take under a load that lasts.
    pub wait: Duration,
    /// Purchases that may come at once, beyond the limit.
    pub burst: usize,
}

/// Counts who is under way, and refuses the surplus.
#[derive(Debug)]
pub struct Gate {
    options: GateOptions,
    begun: Instant,
    under_way: AtomicUsize,
    ended: AtomicU64,
    limit: AtomicUsize,
    burst_left: AtomicUsize,
    /// When the last was refused, in milliseconds after `begun`.
    refused_at_ms: AtomicU64,
    look: Mutex<Look>,
}

/// The last look at the rate.
#[derive(Debug)]
struct Look {
    at: Instant,
    ended: u64,
    per_s: f64,
}

/// To be under way, until this is dropped.
#[derive(Debug)]
pub struct Pass(Arc<Gate>);

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// A gate that nobody has passed.
    pub fn new(options: GateOptions) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            under_way: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            limit: AtomicUsize::new(options.always),
            burst_left: AtomicUsize::new(options.burst),
            refused_at_ms: AtomicU64::new(0),
            look: Mutex::new(Look { at: begun, ended: 0, per_s: 0.0 }),
            options,
        }
    }

    /// Lets one in; `None` when that would be one too many.
    pub fn enter(self: &Arc<Self>) -> Option<Pass> {
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        if under_way <= self.options.always || self.is_let_in(under_way) {
            return Some(Pass(Arc::clone(self)));
        }
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        None
    }

    fn is_let_in(&self, under_way: usize) -> bool {
        let now = Instant::now();
        self.look(now);
        let in_burst = || {
            let less = |left: usize| left.checked_sub(1);
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            under_way <= self.options.most && self.burst_left.fetch_update(set, fetch, less).is_ok()
        };
        if under_way <= self.limit.load(Ordering::Relaxed) || in_burst() {
            return true;
        }
        let ms = now.duration_since(self.begun).as_millis() as u64;
        self.refused_at_ms.store(ms, Ordering::Relaxed);
        false
    }

    /// Looks at the rate, if it is time, and sets the limit by it.
    fn look(&self, now: Instant) {
        // Who finds another looking goes by what was seen last.
        let Ok(mut look) = self.look.try_lock() else { return };
        let since = now.duration_since(look.at);
        if since < LOOK_EVERY {
            return;
        }
        let ended = self.ended.load(Ordering::Relaxed);
        let per_s = (ended - look.ended) as f64 / since.as_secs_f64();
        let per_s = per_s.max(KEPT * look.per_s + (1.0 - KEPT) * per_s);
        let refused_at =
            self.begun + Duration::from_millis(self.refused_at_ms.load(Ordering::Relaxed));
        let calm = now.saturating_duration_since(look.at.max(refused_at));
        *look = Look { at: now, ended, per_s };
        let limit = (per_s * self.options.wait.as_secs_f64()) as usize;
        let most = self.options.most.max(self.options.always);
        self.limit.store(limit.clamp(self.options.always, most), Ordering::Relaxed);
        let back = self.options.burst as f64 * (calm.as_secs_f64() / REST.as_secs_f64()).min(1.0);
        let more = |left: usize| Some((left + back as usize).min(self.options.burst));
        let _ = self.burst_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: GateOptions =
        GateOptions { always: 4, most: 100, wait: Duration::from_millis(20), burst: 10 };

    fn enter(gate: &Arc<Gate>, count: usize) -> Vec<Pass> {
        (0..count).map_while(|_| gate.enter()).collect()
    }

    /// `per_100_ms` purchases end in each of the next `looks` tenths of a second.
    async fn work(gate: &Arc<Gate>, per_100_ms: usize, looks: usize) {
        for _ in 0..looks {
            for _ in 0..per_100_ms {
                drop(enter(gate, 1));
            }
            tokio::time::advance(LOOK_EVERY).await;
            gate.look(Instant::now());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_let_in_and_the_surplus_is_not() {
        let gate = Arc::new(Gate::new(OPTIONS));
        let inside = enter(&gate, 1000);
        assert_eq!(inside.len(), OPTIONS.always + OPTIONS.burst);
        drop(inside);
        // The burst is used up; what may always be under way is not.
        assert_eq!(enter(&gate, 1000).len(), OPTIONS.always);
    }

    #[tokio::test(start_paused = true)]
    async fn under_a_load_that_lasts_as_many_are_under_way_as_end_within_the_wait() {
        let gate = Arc::new(Gate::new(GateOptions { burst: 0, ..OPTIONS }));
        // 2,000 a second, of which 40 end within 20 ms.
        work(&gate, 200, 1).await;
        assert_eq!(enter(&gate, 1000).len(), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_comes_back_only_when_nobody_is_refused_any_more() {
        let gate = Arc::new(Gate::new(OPTIONS));
        drop(enter(&gate, 1000));
        for _ in 0..50 {
            tokio::time::advance(LOOK_EVERY).await;
            // Refused, and refused again: an overload that lasts.
            let inside = enter(&gate, 1000);
            assert!(inside.len() <= OPTIONS.always + 1, "{}", inside.len());
        }
        tokio::time::advance(REST).await;
        assert_eq!(enter(&gate, 1000).len(), OPTIONS.always + OPTIONS.burst);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_a_moment_hardly_lowers_the_limit_and_a_long_one_does() {
        let gate = Arc::new(Gate::new(OPTIONS));
        work(&gate, 200, 1).await;
        work(&gate, 0, 1).await;
        assert_eq!(gate.limit.load(Ordering::Relaxed), 32);
        work(&gate, 0, 20).await;
        assert_eq!(gate.limit.load(Ordering::Relaxed), OPTIONS.always);
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_never_more_than_the_most() {
        let gate = Arc::new(Gate::new(GateOptions { burst: 1_000_000, ..OPTIONS }));
        assert_eq!(enter(&gate, 1000).len(), OPTIONS.most);
    }
}
