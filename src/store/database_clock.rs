//! The database's clock, as this process knows it: sales begin and end by it, so that they do so at the
//! same instant on every server, whatever the servers' own clocks show.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{Clock, SharedClock};
use crate::telemetry;

/// The offset is wrong by at most half the round trip of the statement that read the clock. A longer
/// round trip is not used.
const MAX_ROUND_TRIP: TimeDelta = TimeDelta::milliseconds(100);

/// An offset of this size is logged: the machine's clock is not kept in step.
const NOTABLE: TimeDelta = TimeDelta::seconds(1);

/// This machine's clock, put right by the last difference to the database's that was learnt.
#[derive(Debug)]
pub struct DatabaseClock {
    local: SharedClock,
    offset_us: AtomicI64,
}

impl DatabaseClock {
    /// The clock that `local` shows, until [`DatabaseClock::learn`] knows better.
    pub fn new(local: SharedClock) -> Self {
        Self { local, offset_us: AtomicI64::new(0) }
    }

    /// This machine's clock.
    pub fn local(&self) -> &SharedClock {
        &self.local
    }

    /// The database's clock showed `database` to a statement that was sent at `sent_at`, by this
    /// machine's clock, and answered now.
    pub fn learn(&self, sent_at: DateTime<Utc>, database: DateTime<Utc>) {
        let round_trip = self.local.now() - sent_at;
        if round_trip < TimeDelta::zero() || round_trip > MAX_ROUND_TRIP {
            return;
        }
        let offset = database - (sent_at + round_trip / 2);
        let Some(offset_us) = offset.num_microseconds() else { return };
        let before = self.offset_us.swap(offset_us, Ordering::Relaxed);
        telemetry::clock_offset(offset);
        if offset.abs() >= NOTABLE && TimeDelta::microseconds(before).abs() < NOTABLE {
            let offset_s = offset.num_seconds();
            tracing::warn!(
                offset_s,
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

    #[test]
    fn the_offset_is_learnt_from_short_round_trips_alone() {
        let start = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let local = Arc::new(ManualClock::starting_at(start));
        let clock = DatabaseClock::new(local.clone());
        assert_eq!(clock.now(), start);
        let hour = TimeDelta::hours(1);
        local.advance(TimeDelta::milliseconds(10));
        clock.learn(start, start + hour);
        assert_eq!(clock.now() - local.now(), hour - TimeDelta::milliseconds(5));
        // The answer took too long, or the local clock jumped meanwhile.
        for jump in [TimeDelta::milliseconds(101), TimeDelta::days(-1)] {
            let sent_at = local.now();
            local.advance(jump);
            clock.learn(sent_at, sent_at);
            assert_eq!(clock.now() - local.now(), hour - TimeDelta::milliseconds(5));
        }
    }
}
