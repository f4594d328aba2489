//! Logs once when a server stops answering, and once when it answers again: not once for each of the
//! thousands of buyers who meet the same outage.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Service, StoreError};

/// Whether a server is away, as far as this process knows.
#[derive(Debug)]
pub(super) struct ServiceOutage {
    service: Service,
    is_on: AtomicBool,
}

impl ServiceOutage {
    pub(super) const fn of(service: Service) -> Self {
        Self { service, is_on: AtomicBool::new(false) }
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

    /// Learns from what tells nothing when it succeeds.
    pub(super) fn observe_failure<T>(&self, answer: &Result<T, StoreError>) {
        if let Err(error) = answer
            && error.retry_may_help()
            && !self.is_on.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "{} does not answer: buyers hear 503 until it does", self.service);
        }
    }

    /// The server answered.
    pub(super) fn is_over(&self) {
        // Nearly always false, and then all there is to it.
        if self.is_on.load(Ordering::Relaxed) && self.is_on.swap(false, Ordering::Relaxed) {
            tracing::info!("{} answers again", self.service);
        }
    }
}
