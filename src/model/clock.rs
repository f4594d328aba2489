//! The one source of wall-clock time, so that tests can drive it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, SubsecRound, Utc};

/// Where wall-clock time comes from. Everything that needs "now" takes one;
/// clippy forbids reading the system clock elsewhere.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The current instant, UTC, in whole microseconds: what the database can store, so that
    /// an instant reads the same wherever it comes from.
    fn now(&self) -> DateTime<Utc>;
}

/// A clock that is cheap to clone and share.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place that may
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }
}

/// A clock that stands still until it is told to move, forwards or backwards.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl ManualClock {
    /// A clock that shows `start`, to the microsecond.
    pub fn starting_at(start: DateTime<Utc>) -> Self {
        Self { micros: AtomicI64::new(start.timestamp_micros()) }
    }

    /// Shows `instant` from now on; it may lie in the past of what was shown before.
    pub fn set(&self, instant: DateTime<Utc>) {
        self.micros.store(instant.timestamp_micros(), Ordering::SeqCst);
    }

    /// Moves by `delta`, which may be negative.
    pub fn advance(&self, delta: chrono::TimeDelta) {
        let micros = delta.num_microseconds().unwrap_or(i64::MAX);
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(self.micros.load(Ordering::SeqCst))
            .unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}
