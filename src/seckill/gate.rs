//! Load shedding: how many purchases may be under way, so that those that are stay fast.
//!
//! Many at once are no overload. At the beginning of a sale everybody comes within a moment, and
//! is to be served; a thousand who each wait for their answer are, too. It is an overload when
//! more have come than a rush is expected to bring, and more come than end, or the crowd has stood
//! there for half a second. Then everybody would wait for longer and longer and be sold nothing
//! sooner, so the surplus is refused at once, until neither is so.
//!
//! How many stay follows from Little's law (L = λW): as many as end within
//! [`GateOptions::wait`] are as many as wait for that long. Whoever stood in line before the
//! overload was noticed, and has waited for several times as long, makes way, too: a queue that
//! stands helps nobody (the idea of CoDel, RFC 8289). Those whom the server has not come to yet
//! stand in line as well.
//!
//! To refuse takes time, too. When more are refused than served, and there is no room, whoever is
//! refused is told to come later than usual and is not listened to ([`Benched`]) until there is
//! room, or until shortly before he was to come. If he has spoken meanwhile he is early: his answer
//! would be late, so it is a refusal.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::benched::{Bench, Benched};
use super::look::{Look, Seen};

/// What a gate lets in.
#[derive(Debug, Clone, Copy)]
pub struct GateOptions {
    /// So many may be under way in the worst overload. With fewer than the strategy needs to work
    /// at its best, fewer would be served, and then fewer let in.
    pub least: usize,
    /// So many may come in a rush. Beyond them it is an overload if more come than end, or soon.
    pub burst: usize,
    /// Never more than so many.
    pub most: usize,
    /// How long a purchase may take in an overload, unless it takes the least longer to be served.
    pub wait: Duration,
}

/// Counts who is under way, and refuses the surplus.
#[derive(Debug)]
pub struct Gate {
    options: GateOptions,
    under_way: AtomicUsize,
    pub(super) bench: Bench,
    came: AtomicU64,
    refused: AtomicU64,
    served: AtomicU64,
    /// Since the last look so many were the most that were under way or behind.
    high_water: AtomicUsize,
    // What the last look said, for those who do not wait for the next.
    limit: AtomicUsize,
    most_behind: AtomicUsize,
    benches: AtomicBool,
    begun: Instant,
    /// Since when there is an overload, in milliseconds after `begun`; 0: there is none.
    overloaded_since_ms: AtomicU64,
    look: Mutex<Look>,
}

/// Who wants to be let in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Comer {
    /// How many have come already, but were not heard yet: the server has not come to them. An
    /// estimate will do.
    pub behind: usize,
    /// Whether he spoke while he was not listened to: it would be late for his answer.
    pub is_early: bool,
}

/// To be under way, until this is dropped. It goes where the work goes: a buyer who leaves does
/// not make room while his purchase is still in line.
#[derive(Debug)]
pub struct Pass(Arc<Gate>);

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// A gate that nobody has passed. While anybody is on the bench, `runtime` looks after them.
    pub fn new(options: GateOptions, runtime: Handle) -> Self {
        let begun = Instant::now();
        let look = Look::first(begun, &options);
        Self {
            under_way: AtomicUsize::new(0),
            bench: Bench::new(runtime),
            came: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            served: AtomicU64::new(0),
            benches: AtomicBool::new(look.benches()),
            high_water: AtomicUsize::new(0),
            most_behind: AtomicUsize::new(look.most_behind),
            limit: AtomicUsize::new(look.limit),
            begun,
            overloaded_since_ms: AtomicU64::new(0),
            look: Mutex::new(look),
            options,
        }
    }

    /// Lets one in.
    ///
    /// # Errors
    /// When that would be one too many, or he is early. Then with what he is to hold on to if he
    /// is not to be listened to for a while.
    pub fn enter(self: &Arc<Self>, comer: Comer) -> Result<Pass, Option<Benched>> {
        if !comer.is_early {
            self.came.fetch_add(1, Ordering::Relaxed);
        }
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        if comer.is_early || under_way + comer.behind > self.options.least {
            self.look(Some(comer.behind));
        }
        let taken = under_way + comer.behind.min(self.most_behind.load(Ordering::Relaxed));
        // The limit is never below the least.
        let is_room = taken <= self.limit.load(Ordering::Relaxed);
        if !comer.is_early && self.overloaded_since_ms.load(Ordering::Relaxed) > 0 {
            self.high_water.fetch_max(taken, Ordering::Relaxed);
        }
        if is_room && !comer.is_early {
            return Ok(Pass(Arc::clone(self)));
        }
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        if !comer.is_early {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        let is_benched = self.benches.load(Ordering::Relaxed);
        Err(is_benched.then(|| Benched::new(self)))
    }

    /// A buyer has got an answer. Not whoever was refused, or has left, after all: a queue that is
    /// sent away would look like one that is worked off.
    pub fn served(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Whether who stands in line since then is to make way for those who do not: he came before
    /// the overload was noticed. Whoever came later was let in because there is room.
    pub fn is_too_long(&self, since: Instant) -> bool {
        let overloaded_since_ms = self.overloaded_since_ms.load(Ordering::Relaxed);
        let came_before = || self.begun + Duration::from_millis(overloaded_since_ms) > since;
        overloaded_since_ms > 0 && came_before() && since.elapsed() > self.options.wait * 5
    }

    /// Looks, if it is time, whether more come than end, and lets in as many as that allows.
    /// `None`: in case that nobody comes any more who would.
    pub(super) fn look(&self, behind: Option<usize>) {
        // Who finds another looking goes by what was seen last.
        let Ok(mut look) = self.look.try_lock() else { return };
        let seen = Seen {
            at: Instant::now(),
            came: self.came.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            served: self.served.load(Ordering::Relaxed),
            under_way: self.under_way.load(Ordering::Relaxed),
            benched: self.bench.count(),
            behind,
        };
        if !look.is_over(&seen, &self.options) {
            return;
        }
        let high_water = self.high_water.swap(0, Ordering::Relaxed).max(seen.under_way);
        *look = look.next(&seen, high_water, &self.options);
        if look.overloaded_since.is_some() {
            tracing::debug!(high_water, ?look, "an overload");
        }
        self.limit.store(look.limit, Ordering::Relaxed);
        self.most_behind.store(look.most_behind, Ordering::Relaxed);
        self.benches.store(look.benches(), Ordering::Relaxed);
        self.bench.open(look.has_room);
        let since_ms = |since: Instant| (since - self.begun).as_millis() as u64;
        let since_ms = look.overloaded_since.map_or(0, |since| since_ms(since).max(1));
        self.overloaded_since_ms.store(since_ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::seckill::look::{LOOK_EVERY, LOOK_SOON};

    const OPTIONS: GateOptions =
        GateOptions { least: 4, burst: 600, most: 1000, wait: Duration::from_millis(20) };

    fn enter(gate: &Arc<Gate>, count: usize) -> Vec<Pass> {
        (0..count).map_while(|_| gate.enter(Comer::default()).ok()).collect()
    }

    /// In each of the next `looks` tenths of a second `come` purchases come, one of them at its
    /// end, and `end` of all that are under way end.
    async fn work(gate: &Arc<Gate>, inside: &mut Vec<Pass>, come: usize, end: usize, looks: usize) {
        for _ in 0..looks {
            inside.extend((1..come).filter_map(|_| gate.enter(Comer::default()).ok()));
            inside.drain(..end.min(inside.len())).for_each(|_| gate.served());
            tokio::time::advance(LOOK_EVERY).await;
            inside.extend(gate.enter(Comer::default()));
        }
    }

    fn limit(gate: &Gate) -> usize {
        gate.limit.load(Ordering::Relaxed)
    }

    /// With those who are under way.
    async fn overloaded() -> (Arc<Gate>, Vec<Pass>) {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let mut inside = Vec::new();
        work(&gate, &mut inside, 500, 10, 5).await;
        assert_eq!(limit(&gate), OPTIONS.least);
        (gate, inside)
    }

    #[tokio::test(start_paused = true)]
    async fn a_rush_is_let_in_up_to_the_most() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let inside = enter(&gate, 2000);
        assert_eq!(inside.len(), OPTIONS.most);
        drop(inside);
        assert_eq!(enter(&gate, 2000).len(), OPTIONS.most);
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_again_when_he_is_answered_is_never_refused() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let mut inside = enter(&gate, 500);
        // A hundred a second end, and as many come: the queue stands, and gets no longer.
        work(&gate, &mut inside, 10, 10, 100).await;
        assert_eq!((inside.len(), limit(&gate)), (500, OPTIONS.most));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rush_that_takes_its_time_is_none_the_less_a_rush() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let mut inside = Vec::new();
        work(&gate, &mut inside, 100, 1, 6).await;
        assert_eq!((inside.len(), limit(&gate)), (594, OPTIONS.most));
    }

    #[tokio::test(start_paused = true)]
    async fn when_more_come_than_end_as_many_stay_as_end_within_the_wait() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let mut inside = Vec::new();
        // 1,000 a second end, of which 20 within 20 ms; five times as many come.
        work(&gate, &mut inside, 500, 100, 1).await;
        assert_eq!(limit(&gate), OPTIONS.most, "it may be a rush");
        let early = Instant::now();
        assert!(!gate.is_too_long(early));
        work(&gate, &mut inside, 500, 100, 1).await;
        assert_eq!(limit(&gate), 20);
        let late = Instant::now();
        tokio::time::advance(OPTIONS.wait * 5).await;
        assert!(gate.is_too_long(early) && !gate.is_too_long(late));
        // Those before the overload are sent away: they have not been served.
        inside.clear();
        work(&gate, &mut inside, 500, 100, 10).await;
        assert!(limit(&gate) <= 20, "{}", limit(&gate));
        assert!(inside.len() <= 20, "{}", inside.len());
    }

    #[tokio::test(start_paused = true)]
    async fn when_it_is_over_everybody_is_let_in_again() {
        let (gate, mut inside) = overloaded().await;
        // Those who have waited too long are sent away.
        inside.truncate(500);
        work(&gate, &mut inside, 10, 10, 1).await;
        assert_eq!(limit(&gate), OPTIONS.most);
        // Or when nobody came for a while.
        work(&gate, &mut inside, 500, 10, 5).await;
        inside.clear();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(enter(&gate, 2000).len(), OPTIONS.most);
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_early_is_no_reason_to_refuse_others() {
        let (gate, mut inside) = overloaded().await;
        inside.truncate(500);
        for _ in 0..500 {
            assert!(gate.enter(Comer { behind: 0, is_early: true }).is_err());
        }
        work(&gate, &mut inside, 10, 10, 1).await;
        assert_eq!(limit(&gate), OPTIONS.most);
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_that_stands_is_an_overload_though_no_more_come_than_end() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let mut inside = enter(&gate, 595);
        work(&gate, &mut inside, 15, 14, 9).await;
        assert_eq!((inside.len(), limit(&gate)), (604, OPTIONS.most));
        let mut least = OPTIONS.most;
        for _ in 0..5 {
            work(&gate, &mut inside, 15, 14, 1).await;
            least = least.min(limit(&gate));
        }
        assert_eq!(least, OPTIONS.least);
    }

    #[tokio::test(start_paused = true)]
    async fn those_behind_are_a_part_of_the_crowd_and_take_up_room() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let enter = |behind| gate.enter(Comer { behind, is_early: false });
        assert!(enter(OPTIONS.most).is_err());
        drop(enter(OPTIONS.most - 1).unwrap());
        tokio::time::advance(LOOK_SOON).await;
        assert!(enter(OPTIONS.burst).is_err());
        assert_eq!(limit(&gate), OPTIONS.least);
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_are_behind_somebody_is_let_in() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let enter = || gate.enter(Comer { behind: 5_000, is_early: false });
        for looks in 0..15 {
            assert!(enter().is_err() || looks > 10, "{looks}");
            tokio::time::advance(LOOK_EVERY).await;
        }
        let inside: Vec<Pass> = (0..10).filter_map(|_| enter().ok()).collect();
        assert_eq!((inside.len(), limit(&gate)), (OPTIONS.least / 2, OPTIONS.least));
    }

    #[tokio::test(start_paused = true)]
    async fn an_overload_of_which_nobody_has_heard_for_a_while_is_over() {
        let (gate, mut inside) = overloaded().await;
        inside.clear();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(gate.enter(Comer { behind: OPTIONS.burst, is_early: false }).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_a_moment_hardly_lowers_the_limit() {
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let mut inside = Vec::new();
        work(&gate, &mut inside, 500, 200, 3).await;
        work(&gate, &mut inside, 500, 0, 1).await;
        let after = limit(&gate);
        assert!((30..40).contains(&after), "{after}");
    }
}
