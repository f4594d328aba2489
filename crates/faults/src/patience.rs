//! Waiting for what nobody announces.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::FaultError;

/// After so long a wait is in vain. Not a bound on how fast anything is.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

const ASK_EVERY: Duration = Duration::from_millis(5);

/// One wait: for what, and until when.
#[derive(Debug)]
pub(super) struct Patience {
    what: String,
    deadline: Instant,
}

impl Patience {
    /// A sentence goes on after "waited in vain until".
    pub(super) fn until(what: impl Into<String>) -> Self {
        Self { what: what.into(), deadline: Instant::now() + PATIENCE }
    }

    /// Comes back when it is time to ask again.
    pub(super) async fn again(&self) -> Result<(), FaultError> {
        if Instant::now() >= self.deadline {
            return Err(FaultError::InVain(self.what.clone()));
        }
        sleep(ASK_EVERY).await;
        Ok(())
    }
}
