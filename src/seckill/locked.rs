//! Strategy `locked`: the user's reentrant lock and the order id in one round trip to
//! Redis, then one statement that takes stock and writes the order, then the release.
//!
//! The lock refuses the second click while the first is under way. It is not what makes
//! "once" and "not more than there is" true: the statement and the constraints are, also
//! when a lease is lost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::admission::{Breaker, Stuck};
use super::{PurchaseError, Request, Strategy};
use crate::lock::{Guard, LockClient, LockError};
use crate::model::{OrderId, Outcome, Refusal};
use crate::store::orders::{self, Placed, Purchase};
use crate::store::patience::within;
use crate::store::{Database, Keys, OrderIds, StoreError};

/// How long a buyer waits for the statement. It takes a millisecond; one that takes this
/// long is stuck, and the buyer hears "unknown" while it goes on.
const PATIENCE: Duration = Duration::from_millis(800);

/// A statement that is not answered by now never will be: the server ends its statements
/// after five seconds.
const ABANDON_AFTER: Duration = Duration::from_secs(10);

/// An order id that is taken, or stock that came back between two statements: tried again
/// this often.
const MAX_ATTEMPTS: usize = 4;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) database: Database,
    pub(super) locks: LockClient,
    pub(super) order_ids: OrderIds,
    pub(super) keys: Keys,
    pub(super) breaker: Arc<Breaker>,
    pub(super) tasks: TaskTracker,
}

#[async_trait]
impl Strategy for Locked {
    async fn purchase(&self, request: Request) -> Result<Outcome, PurchaseError> {
        self.breaker.check()?;
        let lock = self.locks.lock(self.keys.order_lock(request.user)).try_acquire();
        // Sent side by side, which takes one round trip. A number is skipped when the lock is
        // not granted; numbers have gaps.
        let (guard, order_id) = tokio::join!(lock, self.order_ids.next());
        let Some(guard) = guard? else {
            return Ok(Outcome::Refused(Refusal::OrderInProgress));
        };
        let order_id = match order_id {
            Ok(order_id) => order_id,
            // Dropped, and so given back in the background: a Redis that did not answer this
            // would keep the buyer waiting once more.
            Err(error) => {
                drop(guard);
                return Err(error.into());
            }
        };
        self.place(request, order_id, guard).await
    }

    async fn shutdown(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.locks.shutdown().await;
    }
}

impl Locked {
    /// The transaction, and only after it the release.
    async fn place(
        &self,
        request: Request,
        mut order_id: OrderId,
        guard: Guard,
    ) -> Result<Outcome, PurchaseError> {
        for _ in 0..MAX_ATTEMPTS {
            let placed = match self.attempt(&request, order_id).await {
                Attempt::Done(placed) => placed,
                Attempt::Stuck(statement, stuck) => {
                    // The lock and the place stay until the statement is over: it may still
                    // write.
                    self.tasks.spawn(async move {
                        let _ = timeout(ABANDON_AFTER, statement).await;
                        drop(stuck);
                        let _ = guard.release().await;
                    });
                    return Err(PurchaseError::StillWaiting);
                }
            };
            let outcome = match placed {
                Ok(Placed::Ordered(order)) => Ok(Outcome::Ordered(order)),
                Ok(Placed::AlreadyBought(order_id)) => {
                    Ok(Outcome::Refused(Refusal::AlreadyBought { order_id }))
                }
                Ok(Placed::SoldOut) => {
                    request.sale.mark_sold_out();
                    Ok(Outcome::Refused(Refusal::SoldOut))
                }
                Ok(Placed::NoVoucher) => Ok(Outcome::Refused(Refusal::VoucherNotFound)),
                Ok(Placed::StockCameBack) => continue,
                Ok(Placed::IdTaken) => match self.order_ids.next().await {
                    Ok(next) => {
                        tracing::warn!(%order_id, "an order id was taken, using another");
                        order_id = next;
                        continue;
                    }
                    Err(error) => Err(error.into()),
                },
                Err(error) => Err(error),
            };
            self.let_go(guard).await;
            return outcome;
        }
        self.let_go(guard).await;
        Err(PurchaseError::Overloaded)
    }

    async fn attempt(&self, request: &Request, order_id: OrderId) -> Attempt {
        let place = match self.breaker.wait_for(&request.sale.hot_row).await {
            Ok(place) => place,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let purchase = Purchase {
            order_id,
            user_id: request.user,
            voucher_id: request.sale.voucher.id,
            at: request.at,
        };
        let mut statement = Box::pin(run(self.database.clone(), purchase));
        match within(PATIENCE, &mut statement).await {
            Ok(placed) => {
                if placed.as_ref().is_err_and(StoreError::retry_may_help) {
                    // Before the place is free: whoever is next in line must not take it, and
                    // wait as long again.
                    self.breaker.trip();
                }
                drop(place);
                Attempt::Done(placed.map_err(PurchaseError::from))
            }
            Err(_) => {
                let stuck = Arc::clone(&request.sale.hot_row).stuck(place);
                self.breaker.trip();
                Attempt::Stuck(statement, stuck)
            }
        }
    }

    /// Release that never costs the buyer the answer: what fails here is made good by the
    /// clean-up worker, or by the end of the lease.
    async fn let_go(&self, guard: Guard) {
        match guard.release().await {
            Ok(()) => {}
            Err(error @ LockError::NotHeld(_)) => {
                tracing::warn!(%error, "a purchase outlived its lock; the constraints judged it");
            }
            Err(error) => tracing::debug!(%error, "a lock is released in the background"),
        }
    }
}

type Statement = std::pin::Pin<Box<dyn Future<Output = Result<Placed, StoreError>> + Send>>;

enum Attempt {
    Done(Result<Placed, PurchaseError>),
    Stuck(Statement, Stuck),
}

async fn run(database: Database, purchase: Purchase) -> Result<Placed, StoreError> {
    database.with_kept(async |connection| orders::place(connection, &purchase).await).await
}
