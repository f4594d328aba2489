//! Logs once when a store stops answering, and once when it answers again: not once for each of
//! thousands of buyers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_link::{OutageEvent, OutageListener};

use super::StoreError;
use crate::telemetry::News;

/// Whether PostgreSQL is away, as far as this process knows.
#[derive(Debug)]
pub(super) struct DatabaseOutage {
    is_on: AtomicBool,
    /// Whether the last ping found that it takes no writes: then no read that succeeds says that it is over.
    is_read_only: AtomicBool,
    /// What the log said of it last.
    said: News<String>,
}

impl DatabaseOutage {
    pub(super) const fn new() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            is_read_only: AtomicBool::new(false),
            said: News::after(String::new()),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Learns what keeps the server from being reached now, and says it once: a request only knows that it waited.
    pub(super) fn is_now(&self, error: &StoreError) {
        if self.is_on() && self.said.is(error.to_string()) {
            tracing::warn!(%error, "PostgreSQL cannot be reached");
        }
    }

    /// Learns from an answer of the server, or from a request without one. It leaves a worker of several
    /// that is away to the circuit breakers of its vouchers.
    pub(super) fn observe<T>(&self, answer: &Result<T, StoreError>) {
        if answer.as_ref().is_err_and(StoreError::is_about_one_worker) {
            return;
        }
        // It waited for a row, or for a lock: the server is there.
        if answer.as_ref().is_err_and(StoreError::is_turned_away) {
            return self.is_over();
        }
        self.observe_failure(answer);
        if answer.as_ref().err().is_none_or(|error| !error.retry_may_help()) {
            self.is_over();
        }
    }

    /// Learns from a ping, which finds out whether the server takes writes. Returns whether it does, and did not before.
    pub(super) fn observe_ping(&self, answer: &Result<(), StoreError>) -> bool {
        let is_read_only = answer.as_ref().is_err_and(StoreError::is_read_only);
        // A ping without an answer leaves what was known.
        let was_read_only = if is_read_only || answer.is_ok() {
            self.is_read_only.swap(is_read_only, Ordering::Relaxed)
        } else {
            false
        };
        self.observe(answer);
        was_read_only && answer.is_ok()
    }

    /// Learns from a request whose success tells nothing: a connection may come from the pool.
    pub(super) fn observe_failure<T>(&self, answer: &Result<T, StoreError>) {
        if let Err(error) = answer
            && error.retry_may_help()
            && !self.is_on.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "PostgreSQL does not answer: buyers get 503 until it does");
        }
    }

    fn is_over(&self) {
        // The load is cheap, and nearly always false.
        if self.is_on()
            && !self.is_read_only.load(Ordering::Relaxed)
            && self.is_on.swap(false, Ordering::Relaxed)
        {
            self.said.is(String::new());
            tracing::info!("PostgreSQL answers again");
        }
    }
}

/// Logs the outages of Redis. Its handle tells when one begins and ends.
pub(super) fn redis_outage_log() -> OutageListener {
    Arc::new(|event| match event {
        OutageEvent::Began(error) => {
            tracing::warn!(%error, "Redis does not answer: buyers get 503 until it does");
        }
        OutageEvent::Ended => tracing::info!("Redis answers again"),
    })
}
