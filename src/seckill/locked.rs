//! Strategy `locked`: the user's reentrant lock and the order id in one round trip to
//! Redis, then one statement that takes stock and writes the order, then the release.
//!
//! The lock refuses the second click while the first is under way. It is not what makes
//! "once" and "not more than there is" true: the statement and the constraints are, also
//! when a lease is lost.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::{Instant, timeout};

use super::admission::Stuck;
use super::seller::{ABANDON_AFTER, Again, MAX_ATTEMPTS, PATIENCE, Seller, judge};
use super::{PurchaseError, Request, Strategy};
use crate::lock::Guard;
use crate::model::{OrderId, Outcome, Refusal};
use crate::store::orders::{self, Placed, Purchase};
use crate::store::patience::within;
use crate::store::{Database, StoreError};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Locked(pub(super) Seller);

#[async_trait]
impl Strategy for Locked {
    async fn purchase(self: Arc<Self>, request: Request) -> Result<Outcome, PurchaseError> {
        let strategy = Arc::clone(&self);
        strategy.0.spawn(async move { self.sell(request).await }).await.unwrap_or_else(|_panic| {
            // What it held is given back.
            Err(PurchaseError::Panicked)
        })
    }

    async fn shutdown(&self) {
        self.0.shutdown().await;
    }
}

impl Locked {
    async fn sell(&self, request: Request) -> Result<Outcome, PurchaseError> {
        let seller = &self.0;
        seller.breaker.check()?;
        let lock = seller.lock(request.user);
        // Sent side by side, which takes one round trip. A number is skipped when the lock is
        // not granted; numbers have gaps.
        let (guard, order_id) = tokio::join!(lock, seller.order_ids.next());
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
                    self.0.tasks.spawn(async move {
                        let _ = timeout(ABANDON_AFTER, statement).await;
                        drop(stuck);
                        let _ = guard.release().await;
                    });
                    return Err(PurchaseError::StillWaiting);
                }
            };
            let outcome = match placed.map(|placed| judge(placed, &request.sale)) {
                Ok(Ok(outcome)) => Ok(outcome),
                Ok(Err(Again::SameId)) => continue,
                Ok(Err(Again::OtherId)) => match self.0.other_id(order_id).await {
                    Ok(other) => {
                        order_id = other;
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            self.0.let_go(guard).await;
            return outcome;
        }
        self.0.let_go(guard).await;
        Err(PurchaseError::Overloaded)
    }

    async fn attempt(&self, request: &Request, order_id: OrderId) -> Attempt {
        let since = Instant::now();
        let place = match self.0.breaker.wait_for(&request.sale.hot_row).await {
            Ok(_) if self.0.gate.is_too_long(since) => {
                return Attempt::Done(Err(PurchaseError::Overloaded));
            }
            Ok(place) => place,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let purchase = Purchase {
            order_id,
            user_id: request.user,
            voucher_id: request.sale.voucher.id,
            at: request.at,
        };
        let mut statement = Box::pin(run(self.0.database.clone(), purchase));
        match within(PATIENCE, &mut statement).await {
            Ok(placed) => {
                if placed.as_ref().is_err_and(StoreError::retry_may_help) {
                    // Before the place is free: whoever is next in line must not take it, and
                    // wait as long again.
                    self.0.breaker.trip();
                }
                drop(place);
                Attempt::Done(placed.map_err(PurchaseError::from))
            }
            Err(_) => {
                let stuck = Arc::clone(&request.sale.hot_row).stuck(place);
                self.0.breaker.trip();
                Attempt::Stuck(statement, stuck)
            }
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
