//! What keeps a failing database from collecting a queue of buyers who wait for nothing.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::PurchaseError;

/// How long the database is left alone after it failed. Short: a request that comes just
/// after it is back waits no longer than this.
const REST: Duration = Duration::from_millis(250);

/// A circuit breaker: after a failure of the database everybody who waits for it, and
/// everybody who comes within [`REST`], hears so at once; then the next ones try again.
#[derive(Debug, Default)]
pub struct Breaker {
    resting_until: Mutex<Option<Instant>>,
    tripped: Notify,
}

impl Breaker {
    /// The database failed.
    pub fn trip(&self) {
        *self.resting_until() = Some(Instant::now() + REST);
        self.tripped.notify_waiters();
        metrics::counter!("seckill_breaker_tripped_total").increment(1);
    }

    /// Whether the database may be asked.
    ///
    /// # Errors
    /// `DatabaseResting` when it failed less than [`REST`] ago.
    pub fn check(&self) -> Result<(), PurchaseError> {
        match *self.resting_until() {
            Some(until) if Instant::now() < until => Err(PurchaseError::DatabaseResting),
            _ => Ok(()),
        }
    }

    /// Waits for `place`, or until the database fails.
    ///
    /// # Errors
    /// `DatabaseResting` when it failed before or meanwhile.
    pub async fn wait_for<T>(&self, place: impl Future<Output = T>) -> Result<T, PurchaseError> {
        // Registered before the check, so that no failure falls between the two.
        let tripped = self.tripped.notified();
        tokio::pin!(tripped);
        tripped.as_mut().enable();
        self.check()?;
        tokio::select! {
            () = tripped => Err(PurchaseError::DatabaseResting),
            place = place => Ok(place),
        }
    }

    fn resting_until(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.resting_until.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_sends_away_those_who_wait_and_those_who_come_within_the_rest() {
        let breaker = std::sync::Arc::new(Breaker::default());
        assert!(matches!(breaker.wait_for(async { 7 }).await, Ok(7)));
        let waiting = breaker.wait_for(std::future::pending::<()>());
        let (waited, ()) = tokio::join!(waiting, async { breaker.trip() });
        assert!(matches!(waited, Err(PurchaseError::DatabaseResting)));
        assert!(matches!(breaker.check(), Err(PurchaseError::DatabaseResting)));
        tokio::time::advance(REST).await;
        assert!(breaker.check().is_ok());
    }
}
