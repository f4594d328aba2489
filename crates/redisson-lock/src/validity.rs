//! Until when a grant surely lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Whether a grant is lost, and until when it surely is not.
#[derive(Debug, Clone)]
pub(super) struct Validity {
    pub(super) lost: CancellationToken,
    pub(super) deadline: Deadline,
}

impl Validity {
    pub(super) fn new(sent_at: Instant, lease: Duration) -> Self {
        Self { lost: CancellationToken::new(), deadline: Deadline::new(sent_at, lease) }
    }

    pub(super) fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.lost.clone().cancelled_owned()
    }

    /// How long the lease surely lasts yet; zero when it may be lost.
    pub(super) fn left(&self) -> Duration {
        if self.lost.is_cancelled() {
            return Duration::ZERO;
        }
        self.deadline.get().saturating_duration_since(Instant::now())
    }
}

/// An instant that the watchdog moves and the guard reads.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    begun: Instant,
    /// After `begun`.
    micros: Arc<AtomicU64>,
}

impl Deadline {
    fn new(begun: Instant, lease: Duration) -> Self {
        let deadline = Self { begun, micros: Arc::default() };
        deadline.set(begun + lease);
        deadline
    }

    /// Rounded down: rather too early than too late. Of two renewals the later one counts.
    pub(super) fn set(&self, instant: Instant) {
        let after = instant.duration_since(self.begun).as_micros();
        self.micros.fetch_max(u64::try_from(after).unwrap_or(u64::MAX), Ordering::AcqRel);
    }

    pub(super) fn get(&self) -> Instant {
        self.begun + Duration::from_micros(self.micros.load(Ordering::Acquire))
    }
}
