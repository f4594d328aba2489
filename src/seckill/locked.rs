//! Strategy `locked`: the user's reentrant lock and the order id in one round trip to
//! Redis, then one statement that takes stock and writes the order, then the release.
//!
//! Each purchase commits by itself, and is answered when its commit is on disk. Where more than one
//! is at a row they do not keep it locked for that long: whoever is next has the row while the
//! disk writes, and one writing serves all who have committed meanwhile.
//!
//! The lock refuses the second click while the first is under way. It is not what makes
//! "once" and "not more than there is" true: the statement and the constraints are, also
//! when a lease is lost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout};

use super::admission::Stuck;
use super::seller::{ABANDON_AFTER, Again, MAX_ATTEMPTS, PATIENCE, Seller, judge};
use super::{PurchaseError, Request, Strategy};
use crate::lock::Guard;
use crate::model::{OrderId, Outcome, Refusal};
use crate::store::orders::{self, Placed, Purchase};
use crate::store::patience::within;
use crate::store::{Commit, Database, Service, StoreError};

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
        let (row, database) = (&request.sale.hot_row, &self.0.database);
        let since = Instant::now();
        let place = match self.0.breaker.wait_for(row).await {
            Ok(_) if self.0.gate.is_too_long(since) => {
                return Attempt::Done(Err(PurchaseError::Overloaded));
            }
            Ok(place) => place,
            Err(error) => return Attempt::Done(Err(error)),
        };
        // Where nobody is behind it, a commit that waits for the disk by itself saves a round trip.
        let commit = if row.is_quiet() || database.is_flush_behind() {
            Commit::Synchronous
        } else {
            Commit::Asynchronous
        };
        let purchase = Purchase {
            order_id,
            user_id: request.user,
            voucher_id: request.sale.voucher.id,
            at: request.at,
        };
        let begun = Instant::now();
        let mut statement = Box::pin(run(database.clone(), purchase, commit));
        match within(PATIENCE, &mut statement).await {
            Ok(placed) => {
                // Before the place is free: whoever is next in line must not take it, and
                // wait as long again.
                self.trip_if_away(&placed);
                drop(place);
                let placed = match placed {
                    Ok(placed) => self.flushed(placed, commit, begun.elapsed()).await,
                    failed => failed,
                };
                Attempt::Done(placed.map_err(PurchaseError::from))
            }
            Err(_) => {
                let stuck = Arc::clone(row).stuck(place);
                self.0.breaker.trip();
                Attempt::Stuck(statement, stuck)
            }
        }
    }

    /// Waits until the order that is to be named is on disk, for what is left of the patience
    /// after it was `placed`. The lock need not be held for longer: whoever comes again waits for
    /// the disk, too.
    async fn flushed(
        &self,
        placed: Placed,
        commit: Commit,
        spent: Duration,
    ) -> Result<Placed, StoreError> {
        let order = match &placed {
            Placed::Ordered(order) if commit == Commit::Asynchronous => order.id,
            // Of another node, perhaps, whose commits do not wait.
            Placed::AlreadyBought(order) => *order,
            _ => return Ok(placed),
        };
        let left = PATIENCE.saturating_sub(spent).max(PATIENCE / 4);
        let flushed = within(left, self.0.database.flush(order)).await;
        let flushed =
            flushed.unwrap_or_else(|silence| Err(StoreError::unknown(Service::Postgres, silence)));
        let placed = flushed.map(|()| placed);
        self.trip_if_away(&placed);
        placed
    }

    fn trip_if_away(&self, placed: &Result<Placed, StoreError>) {
        if placed.as_ref().is_err_and(StoreError::retry_may_help) {
            self.0.breaker.trip();
        }
    }
}

type Statement = std::pin::Pin<Box<dyn Future<Output = Result<Placed, StoreError>> + Send>>;

enum Attempt {
    Done(Result<Placed, PurchaseError>),
    Stuck(Statement, Stuck),
}

async fn run(database: Database, purchase: Purchase, commit: Commit) -> Result<Placed, StoreError> {
    let place = async |connection: &mut _| orders::place(connection, &purchase, commit).await;
    database.with_kept(place).await
}
