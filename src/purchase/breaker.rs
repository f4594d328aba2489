//! A circuit breaker (Nygard, "Release It!", 2007): while the orders of a voucher cannot be written,
//! buyers are told so at once instead of each waiting for the same failure.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::PurchaseError;
use crate::store::Placed;
use crate::telemetry::name;

/// How long an open circuit refuses every purchase. Then it lets one purchase through in each such
/// period, until one ends without a failure that opens the circuit.
const OPEN_FOR: Duration = Duration::from_millis(250);

/// The circuit breaker of one sale. Each sale has its own, so that a row that another session has
/// locked stops one sale only. A purchase whose voucher cannot be read fails before it comes here.
#[derive(Debug, Default)]
pub struct Breaker {
    /// `None`: the circuit is closed.
    open_until: Mutex<Option<Instant>>,
}

impl Breaker {
    /// Whether a purchase may go on to the database; `CircuitOpen` if not.
    pub fn check(&self) -> Result<(), PurchaseError> {
        let mut open_until = self.open_until();
        let Some(until) = *open_until else { return Ok(()) };
        let now = Instant::now();
        if now < until {
            return Err(PurchaseError::CircuitOpen);
        }
        // The circuit is half open: this purchase tries, and no other one before `OPEN_FOR` is over. So
        // it does not matter whether this one comes as far as the database.
        *open_until = Some(now + OPEN_FOR);
        Ok(())
    }

    /// Learns from what became of an order. [`Failure`](super::Failure) says what opens the circuit.
    pub fn record(&self, placed: &Result<Placed, PurchaseError>) {
        let mut open_until = self.open_until();
        match placed {
            Err(error) if error.failure().opens_circuit() => {
                if open_until.is_none() {
                    metrics::counter!(name::BREAKER_TRIPPED).increment(1);
                    tracing::warn!(%error, "orders of a voucher cannot be written: its circuit is open");
                }
                *open_until = Some(Instant::now() + OPEN_FOR);
            }
            _ => {
                if open_until.take().is_some() {
                    tracing::info!(
                        "orders of the voucher are written again: its circuit is closed"
                    );
                }
            }
        }
    }

    fn open_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.open_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Code;
    use crate::store::{Service, StoreError};

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_one_purchase_at_a_time_tries_until_an_order_is_written() {
        let breaker = Breaker::default();
        let away = StoreError::unavailable(Service::Postgres, "away");
        let failure = Err(PurchaseError::Order(away));
        assert!(breaker.check().is_ok());
        breaker.record(&failure);
        assert!(matches!(breaker.check(), Err(PurchaseError::CircuitOpen)));
        for _ in 0..3 {
            tokio::time::advance(OPEN_FOR).await;
            assert!(breaker.check().is_ok(), "one may try");
            assert!(breaker.check().is_err(), "and only one");
            breaker.record(&failure);
        }
        tokio::time::advance(OPEN_FOR).await;
        assert!(breaker.check().is_ok());
        breaker.record(&Ok(Placed::Refused(Code::SoldOut.into())));
        assert!(breaker.check().is_ok() && breaker.check().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_database_refuses_for_good_opens_no_circuit() {
        let breaker = Breaker::default();
        let refused = StoreError::defect(Service::Postgres, "a constraint");
        breaker.record(&Err(PurchaseError::Order(refused)));
        assert!(breaker.check().is_ok());
    }
}
