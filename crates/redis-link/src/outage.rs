//! Tells once when Redis stops answering, and once when it answers again: not once for each of the
//! thousands of callers that meet the same outage.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::LinkError;

/// What a [`Redis`](super::Redis) tells of outages.
#[derive(Debug, Clone, Copy)]
pub enum OutageEvent<'a> {
    /// A request failed with this error, and the one before it had not.
    Began(&'a LinkError),
    /// Redis answered again.
    Ended,
}

/// What is told of outages. It is called on the task of the request, and must not block.
pub type OutageListener = Arc<dyn Fn(OutageEvent<'_>) + Send + Sync>;

/// A request that was refused by a server that answers others says that this is over only when it succeeds itself,
/// or after so long without a refusal: the same request may not come again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// Whether Redis is away, as far as one handle knows.
pub(super) struct OutageWatch {
    listener: OutageListener,
    is_on: AtomicBool,
    refusal: Mutex<Option<Refusal>>,
}

/// What a server that answers refused last: out of memory, for one, it takes no writes.
struct Refusal {
    name: Vec<u8>,
    at: Instant,
}

impl OutageWatch {
    pub(super) const fn new(listener: OutageListener) -> Self {
        Self { listener, is_on: AtomicBool::new(false), refusal: Mutex::new(None) }
    }

    /// Writes both events to the log.
    pub(super) fn logging() -> Self {
        Self::new(Arc::new(|event| match event {
            OutageEvent::Began(error) => tracing::warn!(%error, "Redis does not answer"),
            OutageEvent::Ended => tracing::info!("Redis answers again"),
        }))
    }

    /// Learns from the answer of Redis to a request of this name, or from a request without one.
    pub(super) fn observe<T>(&self, name: &[u8], answer: &Result<T, LinkError>) {
        match answer {
            Err(error)
                if error.retry_may_help() || matches!(error, LinkError::Misconfigured(_)) =>
            {
                if error.is_refusal() {
                    *self.refusal() = Some(Refusal { name: name.to_owned(), at: Instant::now() });
                }
                if !self.is_on.swap(true, Ordering::Relaxed) {
                    (self.listener)(OutageEvent::Began(error));
                }
            }
            // Nearly always it is off, and then the load is all there is to it.
            _ => {
                if self.is_on.load(Ordering::Relaxed)
                    && self.tells_the_end(name)
                    && self.is_on.swap(false, Ordering::Relaxed)
                {
                    (self.listener)(OutageEvent::Ended);
                }
            }
        }
    }

    /// Whether the success of this request says that all is well.
    fn tells_the_end(&self, name: &[u8]) -> bool {
        let mut refusal = self.refusal();
        let is_over = refusal
            .as_ref()
            .is_none_or(|refusal| refusal.name == name || refusal.at.elapsed() >= FORGOTTEN_AFTER);
        if is_over {
            *refusal = None;
        }
        is_over
    }

    fn refusal(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for OutageWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OutageWatch").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}
