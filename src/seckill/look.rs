//! What a look at the crowd says: whether it is an overload, and how many may stay.

use std::time::Duration;

use tokio::time::Instant;

use super::gate::GateOptions;

/// Between two looks at how many come and how many end.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The same while there is a crowd and it is not known yet what it wants: thousands may come
/// within each hundredth of a second, and wait until it is.
pub(super) const LOOK_SOON: Duration = Duration::from_millis(25);

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

/// What there is to be seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) at: Instant,
    /// Who came, was refused, was served since the beginning; but for those who came early, who
    /// are refused whatever the others do.
    pub(super) came: u64,
    pub(super) refused: u64,
    pub(super) served: u64,
    pub(super) under_way: usize,
    /// How many are on the bench. They would all be here if they were listened to.
    pub(super) benched: usize,
    /// Those whom the server has not come to. `None`: nobody came who would know.
    pub(super) behind: Option<usize>,
}

impl Seen {
    fn is_crowd(&self, options: &GateOptions) -> bool {
        self.under_way + self.benched + self.behind.unwrap_or(0) > options.burst
    }
}

/// What was seen, and what it comes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    seen: Seen,
    per_s: f64,
    /// Whether it is an overload in which more are refused than served.
    is_heavy: bool,
    /// Since when each look saw a crowd.
    crowded_since: Option<Instant>,
    pub(super) overloaded_since: Option<Instant>,
    /// So many may be under way.
    pub(super) limit: usize,
    /// So many of those behind take up room.
    pub(super) most_behind: usize,
    /// Whether those on the bench are to be called back.
    pub(super) has_room: bool,
}

impl Look {
    /// Before anybody came.
    pub(super) fn first(at: Instant, options: &GateOptions) -> Self {
        let (came, refused, served, under_way, benched) = (0, 0, 0, 0, 0);
        let seen = Seen { at, came, refused, served, under_way, benched, behind: None };
        Self {
            seen,
            per_s: 0.0,
            is_heavy: false,
            crowded_since: None,
            overloaded_since: None,
            limit: options.most,
            most_behind: usize::MAX,
            has_room: true,
        }
    }

    /// Whether it is time for the next one.
    pub(super) fn is_over(&self, seen: &Seen, options: &GateOptions) -> bool {
        let lasts = match seen.behind {
            // Whoever comes knows more, and looks first.
            None => LOOK_EVERY + LOOK_SOON,
            Some(_) if seen.is_crowd(options) && !self.is_heavy => LOOK_SOON,
            Some(_) => LOOK_EVERY,
        };
        seen.at - self.seen.at >= lasts
    }

    /// Whether who is refused is not to be listened to for a while.
    pub(super) fn benches(&self) -> bool {
        self.is_heavy && !self.has_room
    }

    /// The next one, since which `high_water` were the most that were under way or behind.
    pub(super) fn next(&self, seen: &Seen, high_water: usize, options: &GateOptions) -> Self {
        let last = &self.seen;
        let since = seen.at - last.at;
        let (comers, leavers) =
            ((seen.came - last.came) as f64, (seen.served - last.served) as f64);
        // Nobody looked for a while: it was quiet, and the average says nothing of now. An overload
        // of which nobody has heard for a while is over.
        let is_stale = since > LOOK_EVERY * 3 && seen.benched == 0;
        let still = |before: Option<Instant>| before.filter(|_| !is_stale);
        let is_surplus = !is_stale && comers > SURPLUS * leavers;
        let is_crowd = seen.is_crowd(options);
        let crowded_since = is_crowd.then(|| still(self.crowded_since).unwrap_or(seen.at));
        let stands = crowded_since.is_some_and(|crowded| seen.at - crowded >= STANDS_FOR);
        let overloaded_since = still(self.overloaded_since);
        let is_overload = match overloaded_since {
            None => is_crowd && (is_surplus || stands),
            Some(_) => is_crowd || is_surplus,
        };
        let are_many_refused = seen.refused - last.refused > seen.served - last.served;
        let per_s = leavers / since.as_secs_f64();
        let per_s = per_s.max(KEPT * self.per_s + (1.0 - KEPT) * per_s);
        let within_wait = (per_s * options.wait.as_secs_f64()) as usize;
        let limit = if is_overload { within_wait.max(options.least) } else { options.most };
        let limit = limit.min(options.most);
        let overloaded_since = is_overload.then(|| overloaded_since.unwrap_or(seen.at));
        let is_old = |overloaded| seen.at - overloaded >= ALL_BEHIND_COUNT_FOR;
        // Those who are called back delay the others a little: that is no reason to stop.
        let full = if self.has_room { self.limit } else { self.limit / 4 * 3 + 1 };
        Self {
            seen: *seen,
            per_s,
            is_heavy: is_overload && (are_many_refused || self.is_heavy),
            crowded_since,
            overloaded_since,
            limit,
            most_behind: if overloaded_since.is_some_and(is_old) { limit / 2 } else { usize::MAX },
            has_room: !is_overload || high_water < full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: GateOptions =
        GateOptions { least: 40, burst: 100, most: 1_000, wait: Duration::from_millis(10) };

    /// A tenth of a second later, in which so many came and were refused, and nobody was served.
    fn seen(look: &Look, came: u64, refused: u64) -> Seen {
        Seen {
            at: look.seen.at + LOOK_EVERY,
            came: look.seen.came + came,
            refused: look.seen.refused + refused,
            benched: OPTIONS.burst + 1,
            behind: Some(0),
            ..look.seen
        }
    }

    fn next(look: &Look, high_water: usize) -> Look {
        look.next(&seen(look, 100, 50), high_water, &OPTIONS)
    }

    /// A heavy overload, without room.
    fn heavy() -> Look {
        let look = next(&Look::first(Instant::now(), &OPTIONS), 101);
        assert!(look.overloaded_since.is_some() && look.limit == OPTIONS.least);
        let look = next(&look, OPTIONS.least);
        assert!(look.benches());
        look
    }

    #[test]
    fn those_on_the_bench_are_called_at_three_quarters_and_until_the_limit_is_reached() {
        let closed = next(&heavy(), 31);
        assert!(!closed.has_room && closed.benches());
        let open = next(&closed, 30);
        assert!(open.has_room && !open.benches());
        let open = next(&open, 39);
        assert!(open.has_room);
        assert!(!next(&open, 40).has_room);
    }

    #[test]
    fn whoever_comes_looks_before_who_only_watches() {
        let look = heavy();
        let after = |passed, behind| {
            let at = look.seen.at + passed;
            look.is_over(&Seen { at, behind, ..seen(&look, 0, 0) }, &OPTIONS)
        };
        assert!(!after(LOOK_EVERY - LOOK_SOON, Some(0)) && after(LOOK_EVERY, Some(0)));
        assert!(!after(LOOK_EVERY, None) && after(LOOK_EVERY + LOOK_SOON, None));
    }

    #[test]
    fn of_those_behind_all_count_at_first_and_then_at_most_half_the_room() {
        let mut look = next(&Look::first(Instant::now(), &OPTIONS), 0);
        for _ in 0..10 {
            assert_eq!(look.most_behind, usize::MAX);
            look = next(&look, 0);
        }
        assert_eq!(look.most_behind, OPTIONS.least / 2);
    }
}
