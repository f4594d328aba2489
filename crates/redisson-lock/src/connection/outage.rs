//! Tells once when Redis stops answering, and once when it answers again: not once for each of the
//! thousands of callers who meet the same outage.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::RedisError;

/// What a [`Redis`](super::Redis) tells of outages.
#[derive(Debug, Clone, Copy)]
pub enum OutageEvent<'a> {
    /// A request failed with this error, and the one before it had not.
    Began(&'a RedisError),
    /// Redis answered again.
    Ended,
}

/// A function that is told. It is called on the task of the request, and must not block.
pub type OutageListener = Arc<dyn Fn(OutageEvent<'_>) + Send + Sync>;

/// Whether Redis is away, as far as one handle knows.
pub(super) struct OutageWatch {
    listener: OutageListener,
    is_on: AtomicBool,
}

impl OutageWatch {
    pub(super) const fn new(listener: OutageListener) -> Self {
        Self { listener, is_on: AtomicBool::new(false) }
    }

    /// Writes both events to the log.
    pub(super) fn logging() -> Self {
        Self::new(Arc::new(|event| match event {
            OutageEvent::Began(error) => tracing::warn!(%error, "Redis does not answer"),
            OutageEvent::Ended => tracing::info!("Redis answers again"),
        }))
    }

    /// Learns from an answer of Redis, or from a request without one.
    pub(super) fn observe<T>(&self, answer: &Result<T, RedisError>) {
        match answer {
            Err(error) if error.retry_may_help() => {
                if !self.is_on.swap(true, Ordering::Relaxed) {
                    (self.listener)(OutageEvent::Began(error));
                }
            }
            // Nearly always it is off, and then the load is all there is to it.
            _ => {
                if self.is_on.load(Ordering::Relaxed) && self.is_on.swap(false, Ordering::Relaxed) {
                    (self.listener)(OutageEvent::Ended);
                }
            }
        }
    }
}

impl fmt::Debug for OutageWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OutageWatch").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}
