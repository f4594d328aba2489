//! The database's clock, as this process knows it: sales begin and end by it, so that they do so at the
//! same instant on every server, whatever the servers' own clocks show.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{Clock, SharedClock};
use crate::telemetry::name;

/// An offset of this size is logged: the machine's clock is not kept in step.
const NOTABLE: TimeDelta = TimeDelta::seconds(1);

/// Two clocks drift apart by at most one part in so many (500 ppm, as NTP assumes). So what was learnt grows less
/// certain with time.
const DRIFT: i32 = 2_000;

/// This machine's clock, put right by the difference to the database's.
///
/// A statement tells the difference with an error of at most half its round trip. Of several samples the one with
/// the smallest error counts, as in NTP's clock filter (RFC 5905, 10), however long all round trips are. A sample
/// that contradicts it tells that one of the clocks was set: then the new one counts.
#[derive(Debug)]
pub struct DatabaseClock {
    local: SharedClock,
    best: Mutex<Option<Sample>>,
    offset_us: AtomicI64,
}

/// The difference to the database's clock, as one statement told it.
#[derive(Debug, Clone, Copy)]
struct Sample {
    offset: TimeDelta,
    /// How wrong the offset may have been `at`, by this machine's clock.
    error: TimeDelta,
    at: DateTime<Utc>,
}

impl Sample {
    fn error_at(&self, now: DateTime<Utc>) -> TimeDelta {
        self.error + (now - self.at).abs() / DRIFT
    }

    /// Whether `newer` tells more than this does by now, or contradicts it.
    fn gives_way_to(&self, newer: &Self) -> bool {
        let error = self.error_at(newer.at);
        newer.error <= error || (newer.offset - self.offset).abs() > error + newer.error
    }
}

impl DatabaseClock {
    /// The clock that `local` shows, until [`DatabaseClock::learn`] knows better.
    pub fn new(local: SharedClock) -> Self {
        Self { local, best: Mutex::new(None), offset_us: AtomicI64::new(0) }
    }

    /// This machine's clock.
    pub fn local(&self) -> &SharedClock {
        &self.local
    }

    /// The database's clock showed `database` to a statement that was sent at `sent_at`, by this
    /// machine's clock, and answered now.
    pub fn learn(&self, sent_at: DateTime<Utc>, database: DateTime<Utc>) {
        let now = self.local.now();
        let round_trip = now - sent_at;
        if round_trip < TimeDelta::zero() {
            // This machine's clock was set meanwhile.
            return;
        }
        let error = round_trip / 2;
        let sample = Sample { offset: database - (sent_at + error), error, at: now };
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if best.is_some_and(|best| !best.gives_way_to(&sample)) {
            return;
        }
        *best = Some(sample);
        self.apply(sample);
    }

    /// How far the database's clock is ahead, and how wrong that may be by now. `None`: nothing was learnt yet.
    pub fn offset(&self) -> Option<(TimeDelta, TimeDelta)> {
        let best = *self.best.lock().unwrap_or_else(PoisonError::into_inner);
        best.map(|sample| (sample.offset, sample.error_at(self.local.now())))
    }

    /// The database's clock shows at least this: tokens are stamped with it, so that none is younger than it is.
    pub fn earliest(&self) -> DateTime<Utc> {
        self.now() - self.error()
    }

    fn error(&self) -> TimeDelta {
        self.offset().map_or_else(TimeDelta::zero, |(_, error)| error)
    }

    fn apply(&self, Sample { offset, error, .. }: Sample) {
        let Some(offset_us) = offset.num_microseconds() else { return };
        let before = self.offset_us.swap(offset_us, Ordering::Relaxed);
        metrics::gauge!(name::CLOCK_OFFSET).set(offset.as_seconds_f64());
        metrics::gauge!(name::CLOCK_ERROR).set(error.as_seconds_f64());
        if offset.abs() >= NOTABLE && TimeDelta::microseconds(before).abs() < NOTABLE {
            tracing::warn!(
                offset_s = offset.as_seconds_f64(),
                error_s = error.as_seconds_f64(),
                "this machine's clock differs from the database's; sales go by the database's"
            );
        }
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> DateTime<Utc> {
        let offset = TimeDelta::microseconds(self.offset_us.load(Ordering::Relaxed));
        let local = self.local.now();
        local.checked_add_signed(offset).unwrap_or(local)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::ManualClock;

    fn start() -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(20_000)
    }

    fn clock() -> (Arc<ManualClock>, DatabaseClock) {
        let local = Arc::new(ManualClock::starting_at(start()));
        let clock = DatabaseClock::new(local.clone());
        assert_eq!(clock.now(), start());
        (local, clock)
    }

    /// A statement whose way to the database takes `there`, and back takes `back`, where the database's clock is
    /// ahead by `ahead`.
    fn ask(local: &ManualClock, clock: &DatabaseClock, there: i64, back: i64, ahead: TimeDelta) {
        let sent_at = local.now();
        local.advance(TimeDelta::milliseconds(there));
        let database = local.now() + ahead;
        local.advance(TimeDelta::milliseconds(back));
        clock.learn(sent_at, database);
    }

    fn wrong_by(local: &ManualClock, clock: &DatabaseClock, ahead: TimeDelta) -> i64 {
        (clock.now() - local.now() - ahead).num_milliseconds()
    }

    #[test]
    fn the_offset_is_learnt_however_long_round_trips_are_and_the_shortest_tells_it() {
        let (local, clock) = clock();
        let hour = TimeDelta::hours(1);
        // 900 ms there and 100 ms back: wrong by 400 ms, and far better than an hour.
        ask(&local, &clock, 900, 100, hour);
        assert_eq!(wrong_by(&local, &clock, hour), 400);
        ask(&local, &clock, 30, 10, hour);
        assert_eq!(wrong_by(&local, &clock, hour), 10);
        // A worse one changes nothing, until the better one is old.
        ask(&local, &clock, 100, 0, hour);
        assert_eq!(wrong_by(&local, &clock, hour), 10);
        local.advance(TimeDelta::seconds(58));
        ask(&local, &clock, 100, 0, hour);
        assert_eq!(wrong_by(&local, &clock, hour), 10);
        local.advance(TimeDelta::seconds(2));
        ask(&local, &clock, 100, 0, hour);
        assert_eq!(wrong_by(&local, &clock, hour), 50);
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_at_the_next_look() {
        let (local, clock) = clock();
        let hour = TimeDelta::hours(1);
        ask(&local, &clock, 1, 1, hour);
        for ahead in [hour + TimeDelta::seconds(1), TimeDelta::zero(), -hour] {
            ask(&local, &clock, 200, 200, ahead);
            assert_eq!(wrong_by(&local, &clock, ahead), 0);
        }
        // This machine's clock is set while a statement is under way, back and forth: neither misleads for long.
        for jump in [TimeDelta::days(-1), TimeDelta::days(1)] {
            let (sent_at, before) = (local.now(), clock.now());
            local.advance(jump);
            clock.learn(sent_at, sent_at - hour);
            assert_eq!(clock.now() - before, jump);
            ask(&local, &clock, 5, 5, -hour);
            assert_eq!(wrong_by(&local, &clock, -hour), 0);
        }
    }
}
