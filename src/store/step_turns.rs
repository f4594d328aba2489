//! Steps of one voucher take turns before they ask for a connection. There are few connections for steps, and a step may
//! wait for the row of its voucher: if another session holds that row, one connection waits for it, and not all.

use std::ops::Deref;
use std::sync::Arc;

use sqlx::postgres::PgPool;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::time_limits::CONNECTION_WITHIN;
use super::{Service, StoreError};
use crate::model::{Share, Shares, VoucherId};
use redis_link::timeout::within;

/// How many steps of one voucher that buyers take wait for their turn, or have it; one more is refused at once. So a row
/// that is held takes half of what requests there may be at once (`http/limits.rs`), and not all.
pub const BUYERS_STEPS_OF_A_VOUCHER: usize = 32;
/// The same of all other steps.
pub const STEPS_OF_A_VOUCHER: usize = 16;
/// So many of these may be notifications of the payment gateway: a burst of them leaves places to administrators.
pub const NOTICES_OF_A_VOUCHER: usize = 12;

/// A pool for what may wait for the row of a voucher. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct StepPool {
    pool: PgPool,
    /// Those who take a step of each voucher, or wait for their turn.
    queues: Shares<VoucherId, Turn>,
}

type Turn = Arc<Mutex<()>>;

/// The pool, for one step of a voucher, until this is dropped.
#[derive(Debug)]
pub struct StepTurn {
    pool: PgPool,
    // The turn comes first: it is given back before the place is.
    _turn: OwnedMutexGuard<()>,
    _place: Share<VoucherId, Turn>,
}

impl StepPool {
    pub(super) fn new(pool: PgPool) -> Self {
        Self { pool, queues: Shares::default() }
    }

    /// The pool without a turn, for a process that takes one step.
    pub(super) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Waits until nobody else on this pool takes a step of `voucher`; at most so many wait for that, or have it.
    ///
    /// # Errors
    /// `Unavailable` when that takes longer than a connection may, or too many wait already: nothing was sent.
    pub(super) async fn turn_of(
        &self,
        voucher: VoucherId,
        at_most: usize,
    ) -> Result<StepTurn, StoreError> {
        let Some(place) = self.queues.take(voucher, at_most) else {
            let why = "too many steps of this voucher wait already";
            return Err(StoreError::unavailable(Service::Postgres, why));
        };
        match within(CONNECTION_WITHIN, Arc::clone(&place.common).lock_owned()).await {
            Ok(turn) => Ok(StepTurn { pool: self.pool.clone(), _turn: turn, _place: place }),
            Err(_) => {
                let why = "the steps of this voucher that were asked for before wait for its row";
                Err(StoreError::unavailable(Service::Postgres, why))
            }
        }
    }
}

impl Deref for StepTurn {
    type Target = PgPool;

    fn deref(&self) -> &PgPool {
        &self.pool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_voucher_has_one_turn_and_nobody_who_left_is_remembered() {
        let Ok(pool) = PgPool::connect_lazy("postgres://nowhere/d") else { unreachable!() };
        let steps = StepPool::new(pool);
        let (Some(one), Some(two)) = (VoucherId::new(1), VoucherId::new(2)) else { unreachable!() };
        let held = steps.turn_of(one, 2).await;
        assert!(held.is_ok() && steps.turn_of(two, 2).await.is_ok());
        // A step that waits in vain, or is given up, leaves the queue.
        let (waited, refused) = tokio::join!(steps.turn_of(one, 2), steps.turn_of(one, 2));
        for (turn, why) in [(waited, "before wait for its row"), (refused, "too many")] {
            assert!(turn.is_err_and(|error| error.to_string().contains(why)), "{why}");
        }
        assert!(tokio::time::timeout(CONNECTION_WITHIN / 2, steps.turn_of(one, 2)).await.is_err());
        assert_eq!(steps.queues.keys(), 1);
        // One place is taken: whose limit is one finds none.
        let refused = steps.turn_of(one, 1).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("too many")));
        let (next, ()) = tokio::join!(steps.turn_of(one, 2), async { drop(held) });
        assert!(next.is_ok());
        drop(next);
        assert_eq!(steps.queues.keys(), 0);
    }
}
