//! Logs once when a store stops answering, and once when it answers again: not once for each of the
//! thousands of buyers who meet the same outage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redisson_lock::connection::{OutageEvent, OutageListener};

use super::StoreError;

/// Whether PostgreSQL is away, as far as this process knows.
#[derive(Debug)]
pub(super) struct DatabaseOutage {
    is_on: AtomicBool,
}

impl DatabaseOutage {
    pub(super) const fn new() -> Self {
        Self { is_on: AtomicBool::new(false) }
    }

    /// Learns from an answer of the server, or from a request without one. That one worker of several is
    /// away is told by the circuit breakers of its vouchers.
    pub(super) fn observe<T>(&self, answer: &Result<T, StoreError>) {
        if answer.as_ref().is_err_and(StoreError::is_about_one_worker) {
            return;
        }
        self.observe_failure(answer);
        if answer.as_ref().err().is_none_or(|error| !error.retry_may_help()) {
            self.is_over();
        }
    }

    /// Learns from a request that tells nothing when it succeeds.
    pub(super) fn observe_failure<T>(&self, answer: &Result<T, StoreError>) {
        if let Err(error) = answer
            && error.retry_may_help()
            && !self.is_on.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "PostgreSQL does not answer: buyers hear 503 until it does");
        }
    }

    fn is_over(&self) {
        // Nearly always false, and then the load is all there is to it.
        if self.is_on.load(Ordering::Relaxed) && self.is_on.swap(false, Ordering::Relaxed) {
            tracing::info!("PostgreSQL answers again");
        }
    }
}

/// The same for Redis, whose handle tells when an outage begins and ends.
pub(super) fn redis_outage_log() -> OutageListener {
    Arc::new(|event| match event {
        OutageEvent::Began(error) => {
            tracing::warn!(%error, "Redis does not answer: buyers hear 503 until it does");
        }
        OutageEvent::Ended => tracing::info!("Redis answers again"),
    })
}
