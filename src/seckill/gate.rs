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

/// Between two looks at how many come and how many end.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The same while there is a crowd and it is not known yet what it wants: thousands may come
/// within each hundredth of a second, and wait until it is.
const LOOK_SOON: Duration = Duration::from_millis(25);

/// A surplus: more than so many come for each that is served. Those who come again when they are
/// answered are as many, give or take what a batch brings at once.
const SURPLUS: f64 = 1.1;

/// A crowd that is there for so long is no rush any more, even if no more come than end: each of
/// them waits for longer than he has to.
const STANDS_FOR: Duration = Duration::from_millis(500);

/// How much of the last look's rate is kept in the next, where that shows a lower one: a pause of
/// a moment, for a checkpoint say, is no reason to refuse more.
const KEPT: f64 = 0.8;

/// For so long the whole queue of those behind counts. They may be more than there is ever room
/// for, if they come over new connections all the time: then somebody must be let in all the same.
const ALL_BEHIND_COUNT_FOR: Duration = Duration::from_secs(1);

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
    /// How long a purchase may take in an overload.
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
    limit: AtomicUsize,
    /// Whether who is refused is not to be listened to for a while.
    benches: AtomicBool,
    /// Since the last look so many were the most that were under way or behind.
    high_water: AtomicUsize,
    /// So many of those behind take up room.
    most_behind: AtomicUsize,
    begun: Instant,
    /// Since when there is an overload, in milliseconds after `begun`; 0: there is none.
    overloaded_since_ms: AtomicU64,
    look: Mutex<Look>,
}

/// What the last look saw.
#[derive(Debug)]
struct Look {
    at: Instant,
    came: u64,
    refused: u64,
    served: u64,
    per_s: f64,
    /// Whether it is an overload in which more are refused than served.
    is_heavy: bool,
    /// Since when each look saw a crowd.
    crowded_since: Option<Instant>,
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
        let at = Instant::now();
        let (is_heavy, crowded_since) = (false, None);
        let look = Look { at, came: 0, refused: 0, served: 0, per_s: 0.0, is_heavy, crowded_since };
        Self {
            under_way: AtomicUsize::new(0),
            bench: Bench::new(runtime),
            came: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            benches: AtomicBool::new(false),
            high_water: AtomicUsize::new(0),
            most_behind: AtomicUsize::new(usize::MAX),
            served: AtomicU64::new(0),
            limit: AtomicUsize::new(options.most),
            begun: look.at,
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
        self.came.fetch_add(1, Ordering::Relaxed);
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
        self.refused.fetch_add(1, Ordering::Relaxed);
        let is_benched = self.benches.load(Ordering::Relaxed);
        Err(is_benched.then(|| Benched::new(self)))
    }

    /// A buyer has got an answer. Not whoever was refused, or has left, after all: a queue that is
    /// sent away would look like one that is worked off.
    pub fn served(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether who stands in line since then is to make way for those who do not: he came before
    /// the overload was noticed. Whoever came later was let in because there is room.
    pub fn is_too_long(&self, since: Instant) -> bool {
        let overloaded_since_ms = self.overloaded_since_ms.load(Ordering::Relaxed);
        let came_before = || self.begun + Duration::from_millis(overloaded_since_ms) > since;
        overloaded_since_ms > 0 && came_before() && since.elapsed() > self.options.wait * 5
    }

    /// Looks, if it is time, whether more come than end, and sets the limit by it. `None`: in case
    /// that nobody comes any more who would.
    pub(super) fn look(&self, behind: Option<usize>) {
        // Who finds another looking goes by what was seen last.
        let Ok(mut look) = self.look.try_lock() else { return };
        let now = Instant::now();
        let since = now.duration_since(look.at);
        // Those outside would all be here if they were listened to.
        let under_way = self.under_way.load(Ordering::Relaxed);
        let crowd = under_way + self.bench.count() + behind.unwrap_or(0);
        let is_crowd = crowd > self.options.burst;
        let every = match behind {
            // Whoever comes knows more, and looks first.
            None => LOOK_EVERY + LOOK_SOON,
            Some(_) if is_crowd && !look.is_heavy => LOOK_SOON,
            Some(_) => LOOK_EVERY,
        };
        if since < every {
            return;
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (came, refused, served) =
            (count(&self.came), count(&self.refused), count(&self.served));
        let (comers, leavers) = ((came - look.came) as f64, (served - look.served) as f64);
        let are_many_refused = refused - look.refused > served - look.served;
        // Nobody looked for a while: it was quiet, and the average says nothing of now.
        let stale = since > LOOK_EVERY * 3 && self.bench.count() == 0;
        let surplus = !stale && comers > SURPLUS * leavers;
        let per_s = leavers / since.as_secs_f64();
        let per_s = per_s.max(KEPT * look.per_s + (1.0 - KEPT) * per_s);
        let crowded_since = look.crowded_since.filter(|_| !stale).unwrap_or(now);
        let stands = is_crowd && now - crowded_since >= STANDS_FOR;
        let crowded_since = is_crowd.then_some(crowded_since);
        // An overload of which nobody has heard for a while is over.
        let since_ms = self.overloaded_since_ms.load(Ordering::Relaxed);
        let since_ms = if stale { 0 } else { since_ms };
        let overloaded = match since_ms {
            0 => is_crowd && (surplus || stands),
            _ => surplus || is_crowd,
        };
        let is_heavy = overloaded && (are_many_refused || look.is_heavy);
        let high_water = self.high_water.swap(0, Ordering::Relaxed).max(under_way);
        let limit = self.limit.load(Ordering::Relaxed);
        // Those who are called back delay the others a little: that is no reason to stop.
        let full = if self.bench.is_open() { limit } else { limit / 4 * 3 + 1 };
        let has_room = !overloaded || high_water < full;
        self.benches.store(is_heavy && !has_room, Ordering::Relaxed);
        self.bench.open(has_room);
        *look = Look { at: now, came, refused, served, per_s, is_heavy, crowded_since };
        let within_wait = (per_s * self.options.wait.as_secs_f64()) as usize;
        let limit = if overloaded { within_wait.max(self.options.least) } else { usize::MAX };
        self.limit.store(limit.min(self.options.most), Ordering::Relaxed);
        let now_ms = (now.duration_since(self.begun).as_millis() as u64).max(1);
        let since_ms = match (overloaded, since_ms) {
            (true, 0) => now_ms,
            (true, since_ms) => since_ms,
            (false, _) => 0,
        };
        let all_count =
            !overloaded || u128::from(now_ms - since_ms) < ALL_BEHIND_COUNT_FOR.as_millis();
        let most_behind = if all_count { usize::MAX } else { limit / 2 };
        self.most_behind.store(most_behind, Ordering::Relaxed);
        self.overloaded_since_ms.store(since_ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

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
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let mut inside = Vec::new();
        work(&gate, &mut inside, 500, 10, 5).await;
        assert_eq!(limit(&gate), OPTIONS.least);
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
        let gate = Arc::new(Gate::new(OPTIONS, Handle::current()));
        let mut inside = Vec::new();
        work(&gate, &mut inside, 500, 10, 5).await;
        assert_eq!(limit(&gate), OPTIONS.least);
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
