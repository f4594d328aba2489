//! What keeps a failing database from collecting a queue of buyers who wait for nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::PurchaseError;

/// How long the database is left alone after it failed. Short: a request that comes just
/// after it is back waits no longer than this.
const REST: Duration = Duration::from_millis(250);

/// How long a purchase waits for its turn, at a row or in line. A client that waits longer has given
/// up.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(10);

/// A circuit breaker: after a failure of the database everybody who waits for it, and
/// everybody who comes within a quarter of a second, hears so at once; then the next ones try again.
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
    /// `DatabaseResting` when it failed less than a quarter of a second ago.
    pub fn check(&self) -> Result<(), PurchaseError> {
        match *self.resting_until() {
            Some(until) if Instant::now() < until => Err(PurchaseError::DatabaseResting),
            _ => Ok(()),
        }
    }

    /// Waits for a place at `row`, or until the database fails.
    ///
    /// Who waits does so behind statements that end, or that are found stuck and trip the
    /// breaker: never behind ones that are known to be stuck.
    ///
    /// # Errors
    /// `DatabaseResting` when it failed before or meanwhile, or all places are stuck;
    /// `Overloaded` when those before take too long.
    pub async fn wait_for(
        &self,
        row: &HotRow,
    ) -> Result<Option<OwnedSemaphorePermit>, PurchaseError> {
        // Registered before the checks, so that no failure falls between the two.
        let tripped = self.tripped.notified();
        tokio::pin!(tripped);
        tripped.as_mut().enable();
        self.check()?;
        if row.is_stuck() {
            return Err(PurchaseError::DatabaseResting);
        }
        tokio::select! {
            // In this order: who failed gives back the place, and both are ready at once.
            biased;
            () = tripped => Err(PurchaseError::DatabaseResting),
            // The semaphore is never closed.
            place = Arc::clone(&row.places).acquire_owned() => Ok(place.ok()),
            () = tokio::time::sleep(MAX_WAIT) => Err(PurchaseError::Overloaded),
        }
    }

    fn resting_until(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.resting_until.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// The places at one voucher's row: lets few purchases touch it at once.
#[derive(Debug)]
pub struct HotRow {
    places: Arc<Semaphore>,
    width: usize,
    stuck: AtomicUsize,
}

impl HotRow {
    /// A row with `width` places.
    pub fn new(width: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(width)), width, stuck: AtomicUsize::new(0) }
    }

    /// Whether only one purchase of this process is at the row. (With one place there are never more.)
    pub fn is_quiet(&self) -> bool {
        self.places.available_permits() + 1 >= self.width
    }

    /// The statement that holds `place` is stuck, until what this returns is dropped. Called
    /// before the breaker is tripped.
    pub fn stuck(self: Arc<Self>, place: Option<OwnedSemaphorePermit>) -> Stuck {
        self.stuck.fetch_add(1, Ordering::SeqCst);
        Stuck { row: self, _place: place }
    }

    fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::SeqCst) >= self.width
    }
}

/// One place that is taken by a statement of which nobody knows when it ends.
#[derive(Debug)]
pub struct Stuck {
    row: Arc<HotRow>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.row.stuck.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_sends_away_those_who_wait_and_those_who_come_within_the_rest() {
        let (breaker, row) = (Breaker::default(), HotRow::new(1));
        let place = breaker.wait_for(&row).await;
        assert!(matches!(place, Ok(Some(_))));
        let (waited, ()) = tokio::join!(breaker.wait_for(&row), async { breaker.trip() });
        assert!(matches!(waited, Err(PurchaseError::DatabaseResting)));
        assert!(matches!(breaker.check(), Err(PurchaseError::DatabaseResting)));
        tokio::time::advance(REST).await;
        assert!(breaker.check().is_ok());
    }

    #[tokio::test]
    async fn a_row_is_quiet_while_at_most_one_is_there() {
        for width in [1, 2, 3] {
            let (breaker, row) = (Breaker::default(), HotRow::new(width));
            assert!(row.is_quiet());
            let one = breaker.wait_for(&row).await;
            assert!(row.is_quiet());
            if width > 1 {
                let two = breaker.wait_for(&row).await;
                assert!(!row.is_quiet());
                drop(two);
                assert!(row.is_quiet());
            }
            drop(one);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_behind_statements_that_are_all_stuck() {
        let (breaker, row) = (Breaker::default(), Arc::new(HotRow::new(2)));
        let (Ok(one), Ok(two)) = (breaker.wait_for(&row).await, breaker.wait_for(&row).await)
        else {
            unreachable!("there are two places");
        };
        let one = Arc::clone(&row).stuck(one);
        let two = Arc::clone(&row).stuck(two);
        assert!(matches!(breaker.wait_for(&row).await, Err(PurchaseError::DatabaseResting)));
        drop(one);
        assert!(matches!(breaker.wait_for(&row).await, Ok(Some(_))));
        drop(two);
    }
}
