//! Why a request failed: for the log.

use std::fmt::{self, Debug, Display};
use std::sync::Arc;

use tracing::Level;

/// The cause, and the level of its line in the log.
#[derive(Clone)]
pub(super) struct FailureCause {
    pub(super) level: Level,
    pub(super) error: Arc<dyn Display + Send + Sync>,
}

impl Debug for FailureCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.level, self.error)
    }
}

impl FailureCause {
    /// What happens by the thousand when it happens is `DEBUG`: the metrics count it, and what changed is logged
    /// once, by the store's handle or the circuit breaker.
    pub(super) fn log(&self, code: &str, request_id: &str) {
        let error = &self.error;
        match self.level {
            Level::ERROR => tracing::error!(%error, code, request_id, "a request failed"),
            Level::WARN => tracing::warn!(%error, code, request_id, "a request failed"),
            _ => tracing::debug!(%error, code, request_id, "a request failed"),
        }
    }
}
