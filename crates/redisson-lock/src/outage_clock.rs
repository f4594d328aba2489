//! How long Redis has been out of reach, as the tries of a client see it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Failures that are further apart are not one outage: there was no try in between.
const GAP: Duration = Duration::from_secs(5);

/// All waiters of a client share one: if each counted from its own first try, the hundredth in the queue
/// would be told an hour later.
#[derive(Debug, Default)]
pub(super) struct OutageClock {
    is_on: AtomicBool,
    /// The first failure, and the last.
    failures: Mutex<Option<(Instant, Instant)>>,
}

impl OutageClock {
    /// A try failed. Returns how long tries have been failing.
    pub(super) fn try_failed(&self) -> Duration {
        let now = Instant::now();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let first = match *failures {
            Some((first, last)) if now.duration_since(last) <= GAP => first,
            _ => now,
        };
        *failures = Some((first, now));
        self.is_on.store(true, Ordering::Release);
        now.duration_since(first)
    }

    /// A try was answered.
    pub(super) fn try_answered(&self) {
        // Nearly always false, and then all there is to it.
        if self.is_on.swap(false, Ordering::AcqRel) {
            *self.failures.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_lasts_from_its_first_failure_until_an_answer_or_a_long_silence() {
        let clock = OutageClock::default();
        let seconds = Duration::from_secs;
        assert_eq!(clock.try_failed(), Duration::ZERO);
        for passed in [4, 8] {
            tokio::time::advance(seconds(4)).await;
            assert_eq!(clock.try_failed(), seconds(passed));
        }
        clock.try_answered();
        assert_eq!(clock.try_failed(), Duration::ZERO);
        tokio::time::advance(GAP + seconds(1)).await;
        assert_eq!(clock.try_failed(), Duration::ZERO, "nobody tried meanwhile");
    }
}
